# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parity: what is the same on all nodes and at both ends of a cable, and what is not. Read and compared only, never set.

Each difference is told once, with the value that most nodes have. Where two values are equally frequent, none of them is the majority.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
from typing import Any

SOFTWARE = ("system", "release", "kernel")
#: Facts of an interface that have to be equal at both ends of a cable.
FLOW_FACTS = {"pfc_priorities": "priorities with PFC", "trust": "trust", "ecn_priorities": "priorities with ECN", "pause": "pause", "fec": "FEC"}


def node_values(facts: Mapping[str, Any], fabric: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return what is compared of a node: ``software`` (system, kernel, tools) and ``hardware`` (driver and firmware of its network chip, machine)."""
    live = facts.get("interfaces") or {}
    mine = [live[name] for name in fabric if name in live]
    machine, release = facts.get("machine") or {}, facts.get("dgx_release") or {}
    software = {"system": (facts.get("os") or {}).get("pretty"), "release": release.get("version"), "kernel": facts.get("kernel"), **(facts.get("tools") or {})}
    hardware = {"firmware of the machine": machine.get("firmware"), "architecture": facts.get("architecture")}
    for thing, name in (("driver", "network driver"), ("firmware", "network firmware")):
        hardware[name] = ", ".join(sorted({str(one[thing]) for one in mine if one.get(thing)}))
    return {"software": {thing: str(value) for thing, value in software.items() if value},
            "hardware": {thing: str(value) for thing, value in hardware.items() if value}}


def differences(values: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return what differs between nodes, in words; ``values`` maps each node to its values by name. Who does not tell is left out."""
    texts = []
    for thing in dict.fromkeys(name for mine in values.values() for name in mine):
        by_value: dict[str, list[str]] = collections.defaultdict(list)
        for node, mine in values.items():
            if thing in mine:
                by_value[mine[thing]].append(node)
        if len(by_value) > 1:
            texts.append(f"{thing}: {difference_text(by_value)}")
    return texts


def difference_text(by_value: Mapping[str, list[str]]) -> str:
    """Return "spark3 has 6.11, the other 3 have 6.17", or all values where none is the majority."""
    ordered = sorted(by_value.items(), key=lambda item: -len(item[1]))
    (most, holders), rest = ordered[0], ordered[1:]
    if len(holders) == len(rest[0][1]):
        return "; ".join(f"{_names(nodes)} {'has' if len(nodes) == 1 else 'have'} {value}" for value, nodes in ordered)
    told = ", ".join(f"{_names(nodes)} {'has' if len(nodes) == 1 else 'have'} {value}" for value, nodes in rest)
    return f"{told}, the other {len(holders)} {'has' if len(holders) == 1 else 'have'} {most}"


def _names(nodes: list[str]) -> str:
    return ", ".join(nodes) if len(nodes) <= 6 else f"{', '.join(nodes[:6])} and {len(nodes) - 6} more"


def parity_facts(nodes: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``parity`` facts of the cluster: texts of what differs, by kind; ``compared`` is the number of nodes."""
    values = {node: node_values(facts, plan["nodes"][node]["interfaces"]) for node, facts in nodes.items() if facts and node in plan["nodes"]}
    return {"compared": len(values), **{kind: differences({node: mine[kind] for node, mine in values.items()}) for kind in ("software", "hardware")}}


def end_values(live: Mapping[str, Any]) -> dict[str, str]:
    """Return what has to be equal at both ends of a cable, of one interface; what the driver does not tell is left out."""
    found = {**(live.get("flow_control") or {}), "fec": live.get("fec")}
    return {name: _value_text(found[key]) for key, name in FLOW_FACTS.items() if found.get(key) is not None}


def _value_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(str(entry) for entry in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {'on' if entry else 'off'}" for key, entry in value.items())
    return str(value)


def uneven_ends(ends: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return what differs between the ends of one rail of a cable; ``ends`` maps "spark1 enp1s0f0np0" to the interface's facts."""
    return differences({end: end_values(live) for end, live in ends.items()})


def pfc_without_ecn(live: Mapping[str, Any]) -> list[int] | None:
    """Return the priorities that have PFC and not ECN; ``None`` where the driver does not tell one of the two."""
    flow = live.get("flow_control") or {}
    if flow.get("pfc_priorities") is None or flow.get("ecn_priorities") is None:
        return None
    return [priority for priority in flow["pfc_priorities"] if priority not in flow["ecn_priorities"]]
