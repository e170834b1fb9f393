# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: nccl_job
short_description: Work out the job of nccl-tests
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Puts together what the launching node has to know, that is ranks in the plan's order on management addresses, the environment of each node, the tests.
  - Collectives that need a cable between every two nodes are left out where there is none, and listed with the reason.
positional: hostvars, hosts
options:
  _input:
    description: The plan, as the filter P(dgxspark.fabric.plan#filter) returns it.
    type: dict
    required: true
  hostvars:
    description: The magic variable C(hostvars), with C(fabric_node) set on the hosts that were observed.
    type: dict
    required: true
  hosts:
    description: Hosts that take part, usually C(ansible_play_hosts).
    type: list
    elements: str
    required: true
  run:
    description: Name of the run, never used twice. At least 6 letters, digits or dashes.
    type: str
    required: true
  options:
    description:
      - What to test and how, as the role C(nccl_tests) passes it; every key may be left out.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Show the job
  ansible.builtin.debug:
    msg: "{{ fabric_plan | dgxspark.fabric.nccl_job(hostvars, ansible_play_hosts, run='20261130T221500Z-ab12', options={'collectives': ['all_gather']}) }}"
"""

RETURN = r"""
_value:
  description: The job, as the module M(dgxspark.fabric.nccl_tests) takes it.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.nccl_jobs import make_nccl_job
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain


def nccl_job(plan: Any, hostvars: Any, hosts: Any, run: Any, options: Any = None) -> dict[str, Any]:
    """Return the job."""
    try:
        nodes = {}
        for name in hosts:
            variables = hostvars[name] if name in hostvars else {}
            if variables.get("fabric_node") and not variables.get("fabric_lost"):
                nodes[str(name)] = plain(variables["fabric_node"])
        return make_nccl_job(plain(plan), nodes, str(run), plain(options or {}))
    except FabricError as error:
        raise AnsibleFilterError(str(error)) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise AnsibleFilterError(f"the input is not the plan of this collection: {error}") from error


class FilterModule:
    """Filters of nccl-tests."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"nccl_job": nccl_job}
