# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: plan
short_description: Work out the plan of a DGX Spark fabric from the inventory
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Returns everything that follows from the inventory alone, that is cables, segments, addresses, netplan documents, NCCL environment, rank order,
    the tests to run in the fewest possible rounds, and the speeds to expect.
  - Reads no host. Looks only at the variables C(fabric_*), C(ansible_host), C(ansible_port), C(ansible_connection) and C(ansible_user) of the given hosts.
  - Fails with a message that names the variable and the host or cable when the inventory makes no plan.
positional: group
options:
  _input:
    description: The magic variable C(hostvars), or any mapping from hosts to their variables.
    type: dict
    required: true
  group:
    description: The hosts of the fabric in their order, usually C(groups['spark']).
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Work out the plan once, for all hosts
  ansible.builtin.set_fact:
    fabric_plan: "{{ hostvars | dgxspark.fabric.plan(groups['spark']) }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: The plan.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.host_variables import read_host_variables
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan import make_plan


def plan(hostvars: Any, group: Any) -> dict[str, Any]:
    """Return the plan of the group's hosts."""
    try:
        return make_plan(read_host_variables(hostvars, group))
    except FabricError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Filters of the plan."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"plan": plan}
