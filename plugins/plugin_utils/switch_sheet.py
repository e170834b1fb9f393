# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The switch and cabling sheet (switch.md, switch.html): what to ask before buying, with what the plan knows filled in."""

from __future__ import annotations

import math
import pathlib
from typing import Any

import jinja2

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import counted

HERE = pathlib.Path(__file__).resolve().parent
SPARE_SHARE = 0.1
FRAME_OVERHEAD_BYTES = 22
"""Ethernet header 14, VLAN tag 4, checksum 4: what a switch counts beside a netdev's MTU."""
BREAKOUT_GBPS = (400, 800)
ASK_VENDOR = "by the data sheet of the cable, often 30 to 100 m"
#: Reach by IEEE 802.3: 200G 802.3cd (CR4, SR4) and 802.3bs (DR4, FR4, LR4); 100G 802.3bj (CR4), 802.3bm (SR4), 802.3ba (LR4). No standard rules AOC.
REACH: dict[int, tuple[tuple[str, str, str], ...]] = {
    200: (
        ("DAC (passive copper)", "200GBASE-CR4", "3 m"),
        ("AOC", "by its maker", ASK_VENDOR),
        ("optics, multimode MPO-12", "200GBASE-SR4", "70 m on OM3, 100 m on OM4"),
        ("optics, single mode", "200GBASE-DR4, FR4, LR4", "500 m, 2 km, 10 km"),
    ),
    100: (
        ("DAC (passive copper)", "100GBASE-CR4", "5 m"),
        ("AOC", "by its maker", ASK_VENDOR),
        ("optics, multimode MPO-12", "100GBASE-SR4", "70 m on OM3, 100 m on OM4"),
        ("optics, single mode", "100GBASE-LR4", "10 km"),
    ),
}

LANES = {200: "four lanes of 50 Gb/s (PAM4)", 100: "four lanes of 25 Gb/s (NRZ), or two of 50 Gb/s (PAM4) where a port is split"}

Row = dict[str, str]
"""{item, known, ask}: ``known`` is what the plan says, empty where it says nothing; ``ask`` what to ask, empty where nothing is open."""


def switch_sheet(plan: dict[str, Any]) -> dict[str, Any]:
    """Return the sheet of a plan: {cluster, summary, sections: [{title, rows}], reach, cables, costs}.

    A plan without a switch gives the sheet of the switch that would replace its cables, one cable a node.
    """
    switched = [cable for cable in plan["cables"] if cable["switch"]]
    links = len(switched) or len(plan["nodes"])
    cables = _cables(plan, switched)
    spare_cables = max(1, math.ceil(SPARE_SHARE * len(cables)))
    speed = plan["link_gbps"]
    return {
        "cluster": plan["cluster"],
        "summary": _summary(plan, len(switched)),
        "sections": [
            {"title": "Ports", "rows": _ports(plan, switched, links)},
            {"title": "Speed and breakout", "rows": _speed(speed, links)},
            {"title": "RoCE", "rows": _roce(plan, links)},
            {"title": "Support and rework", "rows": _rework(plan, switched)},
        ],
        "speed": f"{speed:g}",
        "reach": [dict(zip(("kind", "standard", "reach"), row, strict=True)) for row in REACH.get(speed, ())],
        "cables": cables,
        "costs": [
            {"item": "switch", "quantity": "1", "note": "with licences that RoCE needs"},
            {"item": "spare switch, or power supply and fans", "quantity": "?", "note": "how long may the cluster stand still?"},
            {"item": f"cables of {speed:g} Gb/s", "quantity": f"{len(cables)}",
             "note": "with transceivers at both ends where optical; length and kind as above"},
            {"item": "spare cables", "quantity": f"{spare_cables}", "note": f"{SPARE_SHARE:.0%} of {len(cables)}, at least 1"},
            {"item": "breakout cables in place of these", "quantity": "?", "note": "see Speed and breakout"},
            {"item": "support", "quantity": "?", "note": "years, reaction time, and who mends firmware"},
            {"item": "rework", "quantity": "?", "note": "hours: rack, power, cooling, cabling, new addresses, measuring again"},
        ],
    }


def _row(item: str, known: str, ask: str = "") -> Row:
    return {"item": item, "known": known, "ask": ask}


def _summary(plan: dict[str, Any], switched: int) -> str:
    nodes, direct = counted(len(plan["nodes"]), "node"), len(plan["cables"]) - switched
    if not switched:
        return (
            f"The plan is a {plan['shape']} of {nodes} with {counted(direct, 'cable')} and no switch. "
            "This sheet is for a switch in its place, with one cable a node."
        )
    beside = f" and {counted(direct, 'cable')} from node to node" if direct else ""
    return f"The plan has {nodes} with {counted(switched, 'cable')} to the switch{beside}."


def _ports(plan: dict[str, Any], switched: list[dict[str, Any]], links: int) -> list[Row]:
    nodes = len(plan["nodes"])
    served = len({cable["a"]["node"] for cable in switched}) or nodes
    second = "every node has it already" if links >= 2 * served else f"{2 * served - links} more, {2 * served} in all"
    return [
        _row("ports for the nodes", f"{links}", "" if switched else "would every node get one port?"),
        _row(
            "redundancy: a second cable a node, to a second switch",
            f"{second}; it adds no bandwidth, since both cages of a Spark share two PCIe x4 links",
            "is one switch allowed to stop the cluster? What would move the traffic over?",
        ),
        _row("storage", "", "is storage reached over this switch: how many ports, at what speed, apart from RoCE by VLAN and queue?"),
        _row("uplinks and a port to measure from", "", "how many?"),
        _row("a spare port", "1", "how many nodes will be added, and when?"),
        _row("least ports in all", f"{links + 1} and those for storage, redundancy and uplinks", ""),
        _row("management network", f"{counted(nodes, 'port')} of another switch (RJ45)", "is there one, and does it hold the switch's own management port?"),
    ]


def _speed(speed: float, links: int) -> list[Row]:
    breakout = [f"{counted(math.ceil(links * speed / port), 'port')} of {port}G as {port / speed:g} x {speed:g}G" for port in BREAKOUT_GBPS if speed in LANES]
    return [
        _row("speed of a port", f"{speed:g} Gb/s (fabric_link_gbps)", "may it be set by hand, with autonegotiation off? Which FEC?"),
        _row(
            f"single port at {speed:g}G",
            LANES.get(speed, ""),
            f"which firmware of the switch drives one port at {speed:g}G to a ConnectX-7, and which firmware of the ConnectX-7 was it tried with?",
        ),
        _row("breakout", "; or ".join(breakout), "which ports may be split, which ones go out of use then, and does changing it stop their neighbours?"),
        _row("switching capacity", f"{2 * links * speed:g} Gb/s, both ways, for the nodes alone", "does it forward all ports at line rate at this MTU?"),
    ]


def _roce(plan: dict[str, Any], links: int) -> list[Row]:
    mtu = plan["mtu"]
    segments = {segment for cable in plan["cables"] if cable["switch"] for segment in cable["segments"].values()}
    return [
        _row("MTU", f"{mtu} on the nodes (RoCE {plan['rdma_mtu']}); frames of {mtu + FRAME_OVERHEAD_BYTES} bytes on every port",
             "what is the largest frame, and does the number count headers?"),
        _row(
            "networks",
            f"{counted(len(segments), 'network')}, each of one layer-2 domain" if segments else "2 with one cable a node, a network for each rail",
            "one VLAN or bridge for all, forwarded in hardware?",
        ),
        _row("PFC", "", "on which priority, with what headroom, is there a watchdog for storms, and do the NICs trust DSCP or PCP alike?"),
        _row("ECN", "", "marking thresholds of each queue at this speed; DCQCN on the NICs as their maker says?"),
        _row("PFC, ECN, priority, MTU and queues together", "", "is there a set that the switch's and the NIC's maker both document?"),
        _row("buffers", f"at worst {links - 1} senders to one port at {plan['link_gbps']:g} Gb/s each" if links > 1 else "",
             "how large is the buffer, shared or of each port, and how much of it may one port take?"),
        _row("queues", "", "how many lossless ones, how scheduled against storage, with counters of drops, pauses and marks for each port and queue?"),
    ]


def _rework(plan: dict[str, Any], switched: list[dict[str, Any]]) -> list[Row]:
    direct = len(plan["cables"]) - len(switched)
    rework = "none for the cables in the plan" if switched else f"{counted(direct, 'cable')} out, {len(plan['nodes'])} in; all fabric addresses change"
    return [
        _row("rework of this cluster", rework, "when may it stand still, and how does one go back?"),
        _row("power, cooling, noise, depth of the rack", "", "what does the room allow?"),
        _row("support", "", "for how long are firmware and replacement promised, and does the maker support RoCE on this model?"),
        _row("trial", "", "may it be returned if RDMA and NCCL do not reach what was measured for?"),
    ]


def _cables(plan: dict[str, Any], switched: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return a line for each cable to buy: those of the plan, or one a node where a switch would replace them."""
    if not switched:
        return [{"from": f"{name} port {node['ports'][-1]}", "to": "the switch"} for name, node in plan["nodes"].items()]
    ends = [(cable["a"], cable["b"]) for cable in plan["cables"]]
    return [{"from": f"{a['node']} port {a['port']}", "to": "the switch" if b is None else f"{b['node']} port {b['port']}"} for a, b in ends]


def switch_documents(plan: dict[str, Any]) -> dict[str, str]:
    """Return switch.md and switch.html, name to content; the page needs no network and no script."""
    sheet = switch_sheet(plan)
    loader = jinja2.FileSystemLoader([HERE / "plan_templates", HERE / "report_templates"])
    environment = jinja2.Environment(
        loader=loader,
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        keep_trailing_newline=True,
    )
    return {name: environment.get_template(f"{name}.j2").render(sheet) for name in ("switch.md", "switch.html")}
