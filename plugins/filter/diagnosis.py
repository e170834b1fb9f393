# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: diagnosis
short_description: Work out which load tests to repeat
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Judges what the load tests have brought so far and returns a plan of tests for exactly those cables and rails that fell short, to be run alone,
    each rail with and without its twin and both ways.
  - On a cluster where all is well the plan has no tests.
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
"""

EXAMPLES = r"""
- name: Show what would be repeated
  ansible.builtin.debug:
    msg: "{{ (hostvars | dgxspark.fabric.diagnosis(groups['spark'], tested=ansible_play_hosts_all)).tests }}"
  run_once: true
"""

RETURN = r"""
_value:
  description: The plan, its tests replaced by those of the diagnosis; the input of P(dgxspark.fabric.perftest_job#filter).
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.diagnosis import diagnosis_plan
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.results import collect_results


def diagnosis(hostvars: Any, hosts: Any, tested: Any) -> dict[str, Any]:
    """Return the plan of the diagnosis."""
    try:
        return diagnosis_plan(collect_results(hostvars, list(hosts), list(tested)))
    except FabricError as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    """Filters of the diagnosis."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"diagnosis": diagnosis}
