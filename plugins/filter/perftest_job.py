# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: perftest_job
short_description: Work out the load test job of one node
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Takes the node's tests out of the plan and completes them by what was observed, foremost the management addresses.
  - A test with an end that was not observed, a link that is down or an address that is missing is left out and listed with the reason.
positional: node, hostvars, hosts
options:
  _input:
    description: The plan, as the filter P(dgxspark.fabric.plan#filter) returns it.
    type: dict
    required: true
  node:
    description: The host whose job is wanted.
    type: str
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
    description: Name of the run, the same on all hosts and never used twice; it keeps strangers out of the nodes' meeting. At least 6 letters or digits.
    type: str
    required: true
  forks:
    description: Hosts that Ansible works on at once; it tells how late the last node may start.
    type: int
    default: 5
  start_skew_seconds:
    description: How late the last node may start, when it should not follow from O(forks).
    type: float
  grace_seconds:
    description: How long a tool may take beyond the seconds of its test.
    type: float
"""

EXAMPLES = r"""
- name: Show the job of this node
  ansible.builtin.debug:
    msg: "{{ fabric_plan | dgxspark.fabric.perftest_job(inventory_hostname, hostvars, ansible_play_hosts, run='20261130T221500Z-ab12') }}"
"""

RETURN = r"""
_value:
  description: The job, as the module M(dgxspark.fabric.perftest) takes it.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.perftest_jobs import make_job, start_skew
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.seen_nodes import seen_nodes


def perftest_job(plan: Any, node: Any, hostvars: Any, hosts: Any, run: Any, forks: Any = 5, start_skew_seconds: Any = None,
                 grace_seconds: Any = None) -> dict[str, Any]:
    """Return the job of one node."""
    names = [str(name) for name in hosts]
    try:
        skew = start_skew(len(names), int(forks)) if start_skew_seconds is None else float(start_skew_seconds)
        return make_job(plain(plan), str(node), seen_nodes(hostvars, names), str(run), skew, None if grace_seconds is None else float(grace_seconds))
    except FabricError as error:
        raise AnsibleFilterError(str(error)) from error
    except (KeyError, TypeError) as error:
        raise AnsibleFilterError(f"the input is not the plan of this collection: {error}") from error


class FilterModule:
    """Filters of the load tests."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"perftest_job": perftest_job}
