# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: inventory_nodes
short_description: Tell the nodes of an inventory without working out a plan
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Returns what the inventory says of each node's management, in the form in which a plan has it, for inventories whose cabling is not known yet.
positional: group
options:
  _input:
    description: The magic variable C(hostvars).
    type: dict
    required: true
  group:
    description: The hosts of the fabric in their order, usually C(groups['spark']).
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Show the management addresses
  ansible.builtin.debug:
    msg: "{{ (hostvars | dgxspark.fabric.inventory_nodes(groups['spark'])).nodes }}"
"""

RETURN = r"""
_value:
  description: C(nodes) by name, each with C(management) (C(address), C(interface)) and C(local).
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.host_variables import read_host_variables
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inventory import read_inventory


def inventory_nodes(hostvars: Any, group: Any) -> dict[str, Any]:
    """Return the nodes of the group."""
    try:
        hosts = {host: {"fabric_topology": "custom", **variables} for host, variables in read_host_variables(hostvars, group).items()}
        nodes = read_inventory(hosts).nodes
    except FabricError as error:
        raise AnsibleFilterError(str(error)) from error
    return {"nodes": {
        node.name: {"management": {"address": node.management_address, "interface": node.management_interface}, "local": node.local} for node in nodes}}


class FilterModule:
    """Filters of an inventory."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"inventory_nodes": inventory_nodes}
