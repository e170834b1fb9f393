# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: apply_batches
short_description: Gives the order in which nodes are changed
version_added: "0.1.0"
author:
  - dgxspark.fabric contributors (@dgxspark)
description:
  - Returns the hosts on which the validation found differences, in batches. The controller's own node comes last, alone.
positional: names, size, result
options:
  _input:
    description: C(hostvars).
    type: dict
    required: true
  names:
    description: The hosts of the play.
    type: list
    elements: str
    required: true
  size:
    description: Hosts in a batch; V(0) for one first, then all others at once.
    type: int
    default: 0
  result:
    description: The variable that holds the result of the validation, of which C(would_change) counts.
    type: str
    default: __netplan_validated
"""

EXAMPLES = r"""
- name: Show the order
  ansible.builtin.debug:
    msg: "{{ hostvars | dgxspark.fabric.apply_batches(ansible_play_hosts_all, 1) }}"
"""

RETURN = r"""
_value:
  description: Lists of host names.
  type: list
  elements: list
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rollout import batches


def apply_batches(hosts: Mapping[str, Any], names: Sequence[str], size: int = 0, result: str = "__netplan_validated") -> list[list[str]]:
    """Adapt ``batches`` to a filter."""
    if not isinstance(hosts, Mapping):
        raise AnsibleFilterError("the input must be hostvars")
    try:
        return batches(hosts, [str(name) for name in names], int(size), str(result))
    except (FabricError, TypeError, ValueError) as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, Callable[..., list[list[str]]]]:
        """Return the filter by name."""
        return {"apply_batches": apply_batches}
