# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From host variables to the model: every value checked, every group value the same on all hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, shown
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.interfaces import FABRIC_INTERFACES
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Inventory, Node, Settings
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.variables import (
    CONNECTION_VARIABLES,
    PREFIX,
    REQUIRED,
    VARIABLES,
    Variable,
    unknown,
)

HOST_NAME = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,62}"
SSH_PORT = 22
LOOPBACK = r"localhost|127\.[0-9.]+|::1"
RESERVED_NAMES = ("switch", "plan.json", "hostfile", "cables.md", "switch.md", "switch.html")
"""Words that no host may have as its name: the end of a cable, and the files that stand beside the hosts' folders in the plan's."""
LOCAL_CONNECTIONS = ("local", "ansible.builtin.local")


def read_inventory(hosts: Mapping[str, Mapping[str, Any]], group: str = "spark") -> Inventory:
    """Return the model of the hosts, which stand in the order of the inventory's group of that name.

    Raises FabricError when a name or value does not fit, a required variable is missing, or hosts disagree on a group variable.
    """
    if not isinstance(hosts, Mapping):
        raise FabricError(f"the hosts are {shown(hosts)}; expected a mapping from each host of the group to its variables")
    for host, variables in hosts.items():
        _check_host(host, variables)
    names = [str(host) for host in hosts]
    if not names:
        raise FabricError(f"no host is in the group {group}; a fabric needs at least 2 nodes: add them to the inventory")
    taken = {host: _take(host, hosts[host]) for host in names}
    _check_logins(taken)
    return Inventory(nodes=_nodes(names, taken), settings=_settings(names, taken, group), unknown=_unknown(hosts), group=group)


def _check_host(host: object, variables: object) -> None:
    if not isinstance(host, str) or not re.fullmatch(HOST_NAME, host) or host.lower() in RESERVED_NAMES:
        raise FabricError(
            f"the inventory names a host {shown(host)}; expected letters, digits, dots, dashes and underscores, and none of the words "
            f"{', '.join(RESERVED_NAMES)} (cables and files are named after hosts): rename it and put its address in ansible_host"
        )
    if not isinstance(variables, Mapping):
        raise FabricError(f"the variables of {host} are {shown(variables)}; expected a mapping")


def _take(host: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the effective value of every known variable on one host."""
    return {
        name: variable.take(variables[name], host) if name in variables else variable.default
        for name, variable in {**VARIABLES, **CONNECTION_VARIABLES}.items()
    }


def _settings(names: list[str], taken: dict[str, dict[str, Any]], group: str) -> Settings:
    values = {}
    for field in fields(Settings):
        variable = VARIABLES[PREFIX + field.name]
        values[field.name] = _common(variable, names, taken, group)
    return Settings(**values)


def _common(variable: Variable, names: list[str], taken: dict[str, dict[str, Any]], group: str) -> Any:
    """Return a group variable's value, which all hosts have to share."""
    first = names[0]
    value = taken[first][variable.name]
    for other in names[1:]:
        if taken[other][variable.name] != value:
            raise FabricError(
                f"{variable.name} is {_said(value)} on {first} but {_said(taken[other][variable.name])} on {other}; it has to be the same on "
                f"every node: set it once, in the variables of the group {group}"
            )
    if value is REQUIRED:
        raise FabricError(
            f"{variable.name} is not set (host {first}); expected {variable.kind.expected}: set it in the variables of the group {group}"
        )
    return value


def _said(value: Any) -> str:
    return "not set" if value is REQUIRED or value is None else shown(value)


def _nodes(names: list[str], taken: dict[str, dict[str, Any]]) -> tuple[Node, ...]:
    nodes = []
    for place, name in enumerate(names, start=1):
        values = taken[name]
        address_from = next(
            (source for source in ("fabric_management_address", "ansible_host") if values[source] is not None), "inventory_hostname"
        )
        node = Node(
            name=name,
            number=place if values["fabric_node_number"] is None else values["fabric_node_number"],
            ports=values["fabric_ports"],
            management_interface=values["fabric_management_interface"],
            management_address=name if address_from == "inventory_hostname" else values[address_from],
            management_address_from=address_from,
            ssh_user=values["fabric_ssh_user"] or values["ansible_user"],
            foreign_netplan=values["fabric_foreign_netplan"],
            local=values["ansible_connection"] in LOCAL_CONNECTIONS,
        )
        _check_node(node)
        nodes.append(node)
    _check_unique(nodes)
    return tuple(nodes)


def _check_node(node: Node) -> None:
    if node.ports is not None and len(set(node.ports)) != len(node.ports):
        raise FabricError(f"fabric_ports of {node.name} is {list(node.ports)}; a port is named twice: name each port once")
    if node.management_interface in FABRIC_INTERFACES:
        raise FabricError(
            f"fabric_management_interface of {node.name} is {node.management_interface}, which belongs to the fabric; the fabric never carries "
            "the management network: name another interface, such as enP7s7"
        )


def _check_unique(nodes: list[Node]) -> None:
    numbers: dict[int, str] = {}
    addresses: dict[str, str] = {}
    for node in nodes:
        if node.number in numbers:
            raise FabricError(
                f"fabric_node_number is {node.number} on both {numbers[node.number]} and {node.name}; numbers make the addresses and have to "
                "differ: set fabric_node_number of one of them (its default is the place in the group, from 1)"
            )
        numbers[node.number] = node.name
        if node.management_address_from != "fabric_management_address":
            continue
        if node.management_address in addresses:
            raise FabricError(
                f"fabric_management_address is {node.management_address} on both {addresses[node.management_address]} and {node.name}; "
                "each node needs its own: correct one of them"
            )
        addresses[node.management_address] = node.name


def _check_logins(taken: Mapping[str, Mapping[str, Any]]) -> None:
    """Refuse hosts behind which Ansible would find one machine twice: the same address and port.

    Nodes with local connections are no login. Behind a forwarding address the ports differ; a local node's address is where others reach it, unless it
    is a loopback's.
    """
    seen: dict[tuple[str, int], str] = {}
    local: dict[str, str] = {}
    for host, values in taken.items():
        address = (values["ansible_host"] or host).lower()
        if values["ansible_connection"] in LOCAL_CONNECTIONS:
            if not re.fullmatch(LOOPBACK, address):
                local.setdefault(address, host)
            continue
        other = seen.setdefault((address, values["ansible_port"] or SSH_PORT), host)
        if other != host:
            raise _same_login(address, other, host)
    for (address, port), host in seen.items():
        if port == SSH_PORT and address in local:
            raise _same_login(address, local[address], host)


def _same_login(address: str, one: str, other: str) -> FabricError:
    return FabricError(
        f"ansible_host is {address} on both {one} and {other}, so Ansible would take one machine for two nodes; expected an address of each node's "
        "own: correct one of them (behind one forwarding address, set ansible_port on each)"
    )


def _unknown(hosts: Mapping[str, Mapping[str, Any]]) -> tuple[tuple[str, str], ...]:
    """Return (first host that has it, what to say) for each ``fabric_*`` name that means nothing here."""
    said: dict[str, str] = {}
    for host, variables in hosts.items():
        for name in variables:
            message = unknown(str(name)) if isinstance(name, str) else None
            if message is not None:
                said.setdefault(message, str(host))
    return tuple((host, message) for message, host in sorted(said.items()))
