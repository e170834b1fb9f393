# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading of ``fabric_cables``: who is plugged into whom, and the networks and addresses of cables that are already in use.

An entry is ``{a: "spark1:0", b: "spark2:1"}``; either end may be ``switch``. An entry with ``networks`` is validated as it
is and never provisioned:

    networks: {a: 192.168.0.0/24, b: 192.168.1.0/24}       or [rail a, rail b]; null (or left out) is a rail without IPv4
    addresses: {"spark1:0": {a: 192.168.0.1, b: 192.168.1.1}, "spark2:1": [192.168.0.2, 192.168.1.2]}

The keys of ``addresses`` are plugs or host names. Without ``addresses`` the host part is ``fabric_host_offset`` plus the node's
number, as for every other cable.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Interface, IPv4Network
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, closest, shown
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.interfaces import PORTS, RAILS
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Cable, Explicit, Inventory, Plug

SWITCH = "switch"
KEYS = ("a", "b", "networks", "addresses")


def read_cables(inventory: Inventory) -> tuple[Cable, ...]:
    """Return the cables of ``fabric_cables`` as listed, end a being that of the lower node number.

    Raises FabricError naming the entry by its place in the list, from 1.
    """
    entries = inventory.settings.cables
    if not isinstance(entries, (list, tuple)):
        raise FabricError(f'fabric_cables is {shown(entries)}; expected a list of cables such as {{a: "spark1:0", b: "spark2:1"}}')
    numbers = {node.name: node.number for node in inventory.nodes}
    cables = tuple(_cable(entry, f"fabric_cables entry {place}", numbers) for place, entry in enumerate(entries, start=1))
    _check_ports(cables, inventory)
    return cables


def _cable(entry: Any, where: str, numbers: dict[str, int]) -> Cable:
    if not isinstance(entry, Mapping):
        raise FabricError(f'{where} is {shown(entry)}; expected a mapping such as {{a: "spark1:0", b: "spark2:1"}}')
    for key in entry:
        if key not in KEYS:
            raise FabricError(f"{where} has the key {shown(key)}{closest(key, KEYS)}; expected {', '.join(KEYS)}: correct or remove it")
    ends = [_end(entry.get(side), f"{where}, end {side}", numbers) for side in ("a", "b")]
    plugs = sorted((plug for plug in ends if plug is not None), key=lambda plug: (numbers[plug.node], plug.port))
    if not plugs:
        raise FabricError(f"{where} joins the switch to itself; expected a node at one end: write a plug such as spark1:0")
    if len(plugs) == 2 and plugs[0].node == plugs[1].node:
        raise FabricError(
            f"{where} joins {plugs[0]} to {plugs[1]}, the same node; a cable between a node's own ports carries nothing: name another node at one end"
        )
    bare = Cable(a=plugs[0], b=plugs[1] if len(plugs) == 2 else None)
    if entry.get("networks") is None:
        if entry.get("addresses") is not None:
            raise FabricError(
                f"{where} ({bare.name}) has addresses but no networks; expected both: add networks: {{a: ..., b: ...}}, or remove addresses"
            )
        return bare
    return Cable(a=bare.a, b=bare.b, explicit=_explicit(entry, f"{where} ({bare.name})", bare))


def _end(value: Any, where: str, numbers: dict[str, int]) -> Plug | None:
    if not isinstance(value, str):
        found = "missing" if value is None else f"{shown(value)}, not text"
        raise FabricError(f'{where} is {found}; expected host:port in quotes, such as "spark1:0", or switch')
    if value == SWITCH:
        return None
    host, colon, port = value.rpartition(":")
    if not colon or not host:
        raise FabricError(f'{where} is {shown(value)}{closest(value, [SWITCH])}; expected host:port, such as "spark1:0", or switch')
    if host not in numbers:
        raise FabricError(
            f"{where} names the unknown host {shown(host)}{closest(host, numbers)}; expected a host of the fabric "
            f"({_listed(numbers)}): correct it, or add the host to the inventory"
        )
    if port not in ("0", "1"):
        raise FabricError(f"{where} names port {shown(port)} of {host}; expected port 0 (next to the RJ45 socket) or 1 (outer cage)")
    return Plug(host, int(port))


def _listed(names: dict[str, int]) -> str:
    shown_names = list(names)[:8]
    return ", ".join(shown_names) + (", ..." if len(names) > len(shown_names) else "")


def _check_ports(cables: tuple[Cable, ...], inventory: Inventory) -> None:
    used: dict[Plug, Cable] = {}
    for cable in cables:
        for plug in cable.plugs:
            if plug in used:
                raise FabricError(
                    f"fabric_cables uses port {plug.port} of {plug.node} twice, in {used[plug].name} and in {cable.name}; a port takes one cable: "
                    "correct one of the two entries"
                )
            used[plug] = cable
    for node in inventory.nodes:
        for port in PORTS:
            plug = Plug(node.name, port)
            if node.ports is not None and plug in used and port not in node.ports:
                raise FabricError(
                    f"fabric_cables plugs {used[plug].name} into port {port} of {node.name}, but fabric_ports of {node.name} is {list(node.ports)}; "
                    "fabric_cables alone says which ports are used: remove fabric_ports, or correct one of them"
                )


def _explicit(entry: Mapping[str, Any], where: str, cable: Cable) -> Explicit:
    given = _by_rail(entry["networks"], f"networks of {where}", "a network such as 192.168.0.0/24")
    networks = {rail: None if given[rail] is None else _network(given[rail], f"networks of {where}, rail {rail}") for rail in RAILS}
    if not any(networks.values()):
        raise FabricError(
            f"networks of {where} gives no network on either rail; expected at least one: rails without IPv4 cannot be measured"
        )
    if entry.get("addresses") is None:
        return Explicit(networks, None)
    return Explicit(networks, _addresses(entry["addresses"], f"addresses of {where}", cable, networks))


def _by_rail(value: Any, where: str, expected: str) -> dict[str, Any]:
    """Return {rail: value} of a mapping {a: ..., b: ...} or of a list [rail a, rail b]."""
    if isinstance(value, (list, tuple)) and len(value) == len(RAILS):
        return dict(zip(RAILS, value))
    if isinstance(value, Mapping) and value and all(key in RAILS for key in value):
        return {rail: value.get(rail) for rail in RAILS}
    raise FabricError(f"{where} is {shown(value)}; expected {{a: ..., b: ...}} or a list of two, rail a first, each {expected} or null")


def _network(value: Any, where: str) -> IPv4Network:
    if not isinstance(value, str) or "/" not in value:
        raise FabricError(f'{where} is {shown(value)}; expected an IPv4 network in quotes, such as "192.168.0.0/24", or null')
    try:
        network = IPv4Network(str(value))
    except ValueError:
        raise FabricError(
            f"{where} is {shown(value)}; expected an IPv4 network with no host bits set, such as 192.168.0.0/24: correct it "
            "(RDMA tests choose their GID by IPv4, so IPv6 networks are no use here)"
        ) from None
    if not 8 <= network.prefixlen <= 31:
        raise FabricError(f"{where} is {network}; expected a prefix length from 8 to 31: it has to hold both ends of a cable")
    return network


def _addresses(value: Any, where: str, cable: Cable, networks: dict[str, IPv4Network | None]) -> dict[Plug, dict[str, IPv4Address | None]]:
    keys = {key: plug for plug in cable.plugs for key in (plug.node, str(plug))}
    if not isinstance(value, Mapping):
        raise FabricError(
            f"{where} is {shown(value)}; expected a mapping from each end ({', '.join(str(plug) for plug in cable.plugs)}) to its addresses"
        )
    addresses: dict[Plug, dict[str, IPv4Address | None]] = {}
    for key, entry in value.items():
        if key not in keys:
            raise FabricError(
                f"{where} names {shown(key)}{closest(key, keys)}; expected the cable's own ends, {' and '.join(str(plug) for plug in cable.plugs)}"
            )
        plug = keys[key]
        if plug in addresses:
            raise FabricError(f"{where} gives {plug} twice; name each end once")
        given = _by_rail(entry, f"{where}, {plug}", "an address such as 192.168.0.1")
        addresses[plug] = {rail: _address(given[rail], f"{where}, {plug} rail {rail}", networks[rail]) for rail in RAILS}
    for plug in cable.plugs:
        if plug not in addresses:
            raise FabricError(
                f"{where} gives no address for {plug}; expected both ends: add it, or remove addresses to derive them from the node numbers"
            )
    return addresses


def _address(value: Any, where: str, network: IPv4Network | None) -> IPv4Address | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise FabricError(f'{where} is {shown(value)}; expected an IPv4 address in quotes, such as "192.168.0.1", or null')
    if network is None:
        raise FabricError(
            f"{where} is {shown(value)}, but networks gives no network on that rail; expected null: add the network, or remove the address"
        )
    try:
        interface = IPv4Interface(str(value) if "/" in value else f"{value}/{network.prefixlen}")
    except ValueError:
        raise FabricError(f"{where} is {shown(value)}; expected an IPv4 address such as 192.168.0.1: correct it") from None
    if interface.network != network:
        raise FabricError(
            f"{where} is {shown(value)}, which is not in {network}; expected an address of that network: correct the address or the network"
        )
    return interface.ip
