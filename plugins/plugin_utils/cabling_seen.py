# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cabling as it is: from what every interface heard to ports, cables and switches. Pure functions.

Ports that hear each other are on one wire. Two of them are the ends of a cable; three and more share a switch. Of two, frames to the
address that no switch forwards tell a cable from a switch with two nodes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.interfaces import PORTS
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Cable, Plug

PROBED = "probed"


@dataclasses.dataclass(frozen=True, slots=True)
class SeenRail:
    """What one interface of a port heard; ``heard`` are (plug, rail) of its senders, ``direct`` those that are on the same cable."""

    interface: str
    state: str
    carrier: bool | None
    raised: bool
    heard: frozenset[tuple[Plug, str]]
    direct: frozenset[Plug]
    strangers: tuple[str, ...]
    error: str | None

    @property
    def speaks(self) -> bool:
        """Tell whether this interface was heard if anybody was there: it was probed and its link is up."""
        return self.state == PROBED and self.carrier is not False


@dataclasses.dataclass(frozen=True, slots=True)
class SeenPort:
    """Both rails of a port, by letter, and what lldpd says of it: plugs of the cluster, and others in words."""

    plug: Plug
    rails: dict[str, SeenRail]
    lldp_plugs: frozenset[Plug]
    lldp_others: tuple[str, ...]
    lldp_switch: bool

    @property
    def hears(self) -> frozenset[Plug]:
        """The ports that any of its rails hears."""
        return frozenset(plug for rail in self.rails.values() for plug, _rail in rail.heard)

    @property
    def speaks(self) -> bool:
        """Tell whether any of its rails is heard if somebody is there."""
        return any(rail.speaks for rail in self.rails.values())

    @property
    def strangers(self) -> tuple[str, ...]:
        """Machines of other clusters that it hears, in words."""
        return tuple(dict.fromkeys(name for rail in self.rails.values() for name in rail.strangers))

    @property
    def why_silent(self) -> str:
        """Say why a port that hears nobody may do so."""
        states = {rail.state for rail in self.rails.values()}
        if states and PROBED not in states:
            return next(iter(sorted(states)))
        if all(rail.carrier is False for rail in self.rails.values() if rail.state == PROBED):
            return "no link"
        return "link is up, hears nobody"


@dataclasses.dataclass(frozen=True, slots=True)
class Wire:
    """Ports that hear each other. ``switch`` tells that something stands between them."""

    plugs: tuple[Plug, ...]
    switch: bool


@dataclasses.dataclass(frozen=True, slots=True)
class SeenCabling:
    """All ports of the probed nodes, and the wires between them, in the order of the nodes."""

    nodes: tuple[str, ...]
    ports: dict[Plug, SeenPort]
    wires: tuple[Wire, ...]

    def wire(self, plug: Plug) -> Wire | None:
        """Return the wire of a port, ``None`` when it hears nobody."""
        return next((wire for wire in self.wires if plug in wire.plugs), None)

    def partner(self, plug: Plug) -> Plug | None:
        """Return the one port at the other end of a wire with two ends."""
        wire = self.wire(plug)
        return next(other for other in wire.plugs if other != plug) if wire is not None and len(wire.plugs) == 2 else None

    def cables(self) -> tuple[Cable, ...]:
        """Return the wires as cables of the model: a switch has one cable to each of its ports."""
        found: list[Cable] = []
        for wire in self.wires:
            if wire.switch:
                found.extend(Cable(plug, None) for plug in wire.plugs)
            elif wire.plugs[0].node != wire.plugs[1].node:
                found.append(Cable(*wire.plugs))
        return tuple(found)


def seen_cabling(neighbours: Mapping[str, Mapping[str, Any]]) -> SeenCabling:
    """Return the cabling from the facts ``fabric_neighbours``, by node in the order of the inventory."""
    place = {node: number for number, node in enumerate(neighbours)}
    owners: dict[str, Plug] = {}
    for node, fact in neighbours.items():
        for interface in fact["interfaces"].values():
            owners[str(interface.get("mac", "")).lower()] = Plug(node, interface["port"])
    clusters = set(neighbours)
    ports: dict[Plug, SeenPort] = {}
    for node, fact in neighbours.items():
        for port in PORTS:
            mine = {name: one for name, one in fact["interfaces"].items() if one["port"] == port}
            if mine:
                ports[Plug(node, port)] = _port(Plug(node, port), mine, fact.get("lldp") or [], owners, clusters)
    return SeenCabling(tuple(neighbours), ports, tuple(_wires(ports, place)))


def _port(plug: Plug, interfaces: Mapping[str, Mapping[str, Any]], lldp: Iterable[Mapping[str, Any]], owners: Mapping[str, Plug],
          nodes: set[str]) -> SeenPort:
    witnesses = [entry for entry in lldp if entry.get("interface") in interfaces]
    known = {owners[str(entry["mac"]).lower()] for entry in witnesses if str(entry.get("mac")).lower() in owners}
    others = [entry for entry in witnesses if str(entry.get("mac")).lower() not in owners]
    rails = {str(one["rail"]): _rail(plug, name, one, nodes) for name, one in sorted(interfaces.items(), key=lambda item: str(item[1]["rail"]))}
    names = dict.fromkeys(f"{entry.get('system') or 'unnamed'} {entry.get('port') or ''}".strip() for entry in others)
    return SeenPort(
        plug, rails, frozenset(known - {plug}), tuple(names),
        any(entry.get("bridge") for entry in others))


def _rail(plug: Plug, name: str, one: Mapping[str, Any], nodes: set[str]) -> SeenRail:
    heard, direct = set(), set()
    for entry in one.get("heard") or []:
        if entry.get("node") not in nodes or entry.get("port") not in PORTS:
            continue
        sender = Plug(str(entry["node"]), int(entry["port"]))
        if sender == plug:
            continue  # the twin, which shares the wire
        heard.add((sender, str(entry.get("rail"))))
        if entry.get("direct"):
            direct.add(sender)
    # Frames of a run that was broken off may still be in the air; they come from this very cluster and say nothing.
    strangers = dict.fromkeys(
        f"{entry.get('node')} of cluster {entry.get('cluster')}" for entry in one.get("strangers") or [] if entry.get("node") not in nodes)
    return SeenRail(
        name, str(one.get("state")), one.get("carrier"), bool(one.get("raised")), frozenset(heard), frozenset(direct), tuple(strangers), one.get("error"))


def _wires(ports: Mapping[Plug, SeenPort], place: Mapping[str, int]) -> list[Wire]:
    """Join ports of which at least one hears the other."""
    joined: dict[Plug, set[Plug]] = {plug: set() for plug in ports}
    for plug, port in ports.items():
        for other in port.hears:
            if other in joined:
                joined[plug].add(other)
                joined[other].add(plug)
    wires, seen = [], set()
    for start in ports:
        if start in seen or not joined[start]:
            continue
        group, waiting = {start}, [start]
        while waiting:
            for other in joined[waiting.pop()] - group:
                group.add(other)
                waiting.append(other)
        seen |= group
        plugs = tuple(sorted(group, key=lambda plug: (place[plug.node], plug.port)))
        direct = any(other in rail.direct for plug in plugs for rail in ports[plug].rails.values() for other in plugs)
        wires.append(Wire(plugs, len(plugs) > 2 or not direct))
    return wires
