# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: path_far
short_description: Work out to whom no cable leads from a node
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Returns the nodes that share no segment with the node, as the opposite ones of a ring, with their addresses on the fabric.
  - Nodes that were not observed are left out.
positional: node, hostvars, hosts
options:
  _input:
    description: The plan, as the filter P(dgxspark.fabric.plan#filter) returns it.
    type: dict
    required: true
  node:
    description: The host that probes.
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
"""

EXAMPLES = r"""
- name: Probe the paths
  dgxspark.fabric.path_probe:
    targets: "{{ fabric_plan | dgxspark.fabric.path_targets(inventory_hostname, hostvars, ansible_play_hosts) }}"
    far: "{{ fabric_plan | dgxspark.fabric.path_far(inventory_hostname, hostvars, ansible_play_hosts) }}"
  become: true
"""

RETURN = r"""
_value:
  description: Nodes, as the option O(dgxspark.fabric.path_probe#module:far) takes them.
  type: list
  elements: dict
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.path_targets import make_far
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.seen_nodes import seen_nodes


def path_far(plan: Any, node: Any, hostvars: Any, hosts: Any) -> list[dict[str, Any]]:
    """Return the nodes to which no cable leads."""
    try:
        return make_far(plain(plan), str(node), seen_nodes(hostvars, [str(name) for name in hosts]))
    except FabricError as error:
        raise AnsibleFilterError(str(error)) from error
    except (KeyError, TypeError) as error:
        raise AnsibleFilterError(f"the input is not the plan of this collection: {error}") from error


class FilterModule:
    """Filters of the path probe."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"path_far": path_far}
