# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the probe of the links hears on a cabling that a test describes: plugs such as ``spark1:0`` on wires."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

PORTS, RAILS = (0, 1), ("a", "b")


def interface(port: int, rail: str) -> str:
    """Return the name of an interface."""
    return f"enp1s0f{port}np{port}" if rail == "a" else f"enP2p1s0f{port}np{port}"


def mac(node: str, port: int, rail: str, nodes: Sequence[str]) -> str:
    """Return the MAC address of an interface."""
    return f"02:00:00:00:{nodes.index(node) + 1:02x}:{2 * port + RAILS.index(rail):02x}"


def neighbours(
    nodes: Sequence[str], wires: Iterable[Sequence[str]], down: Iterable[str] = (), deaf: Iterable[str] = (), off: Iterable[str] = ()
) -> dict[str, Any]:
    """Return ``fabric_neighbours`` by node.

    Args:
        nodes: Names, in order.
        wires: Plugs on one wire; one that begins with "switch" lets no frame to the nearest bridge through.
        down: Interfaces without carrier, as "spark1:0/a".
        deaf: Interfaces with carrier on which no frame passes, either way.
        off: Interfaces that are switched off.
    """
    facts: dict[str, Any] = {}
    wires = [tuple(wire) for wire in wires]
    plugged = {plug for wire in wires for plug in wire}
    mute = {*down, *deaf, *off}
    for node in nodes:
        interfaces = {}
        for port in PORTS:
            for rail in RAILS:
                plug, place = f"{node}:{port}", f"{node}:{port}/{rail}"
                wire = next((wire for wire in wires if plug in wire), ())
                heard = []
                for other in wire:
                    for letter in RAILS:
                        if other == "switch" or f"{other}/{letter}" in mute or place in mute or (other, letter) == (plug, rail):
                            continue
                        name, number = other.split(":")
                        heard.append({
                            "node": name, "interface": interface(int(number), letter), "port": int(number), "rail": letter,
                            "mac": mac(name, int(number), letter, nodes), "direct": wire[0] != "switch"})
                link = plug in plugged and place not in {*down, *off}
                interfaces[interface(port, rail)] = {
                    "port": port, "rail": rail, "mac": mac(node, port, rail, nodes), "admin_up": place not in set(off), "raised": False,
                    "carrier": None if place in set(off) else link, "state": "admin down, not probed" if place in set(off) else "probed",
                    "sent": 9, "error": None,
                    "heard": heard, "strangers": []}
        facts[node] = {"node": node, "complete": True, "seconds": 3.0, "interfaces": interfaces, "lldp": None, "lldp_unavailable": "lldpd is not installed"}
    return facts


def planned_wires(plan: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the wires that a plan asks for."""
    wires = [tuple(f"{end['node']}:{end['port']}" for end in (cable["a"], cable["b"])) for cable in plan["cables"] if cable["b"]]
    groups: dict[str, list[str]] = {}
    for cable in plan["cables"]:
        if not cable["b"]:
            groups.setdefault(str(cable["segments"]["a"]), []).append(f"{cable['a']['node']}:{cable['a']['port']}")
    return wires + [("switch", *plugs) for plugs in groups.values()]
