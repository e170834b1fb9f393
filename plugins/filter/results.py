# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: results
short_description: Gather what was planned, observed and measured in a run
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Takes the facts C(fabric_plan), C(fabric_node), C(fabric_paths), C(fabric_perftest), C(fabric_iperf3), C(fabric_diagnosis), C(fabric_nccl),
    C(fabric_drift) and C(fabric_lost) of all hosts and returns them as one value, the input of P(dgxspark.fabric.judge#filter) and of
    M(dgxspark.fabric.report).
  - Hosts without C(fabric_node) count as unreachable, hosts that are not among O(tested) as not tested.
positional: hosts
options:
  _input:
    description: The magic variable C(hostvars).
    type: dict
    required: true
  hosts:
    description: All hosts of the fabric, usually C(groups['spark']).
    type: list
    elements: str
    required: true
  tested:
    description: The hosts of the play, those that dropped out included, usually C(ansible_play_hosts_all).
    type: list
    elements: str
    required: true
  mode:
    description: Whether the run measured or only compared.
    type: str
    choices: [validate, check]
    default: validate
"""

EXAMPLES = r"""
- name: Gather the results
  ansible.builtin.set_fact:
    run_results: "{{ hostvars | dgxspark.fabric.results(groups['spark'], tested=ansible_play_hosts_all, mode='check' if ansible_check_mode else 'validate') }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: Plan, facts and results of the run.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.results import collect_results


def results(hostvars: Any, hosts: Any, tested: Any, mode: str = "validate") -> dict[str, Any]:
    """Return the results of a run."""
    try:
        return collect_results(hostvars, list(hosts), list(tested), mode)
    except FabricError as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    """Filters of a run's results."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"results": results}
