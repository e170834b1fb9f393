# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cabling sheet (cables.md): what to plug where, for the person with the cables in hand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.interfaces import PORT_PLACES, RAILS
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import counted

MOST_PEERS = 4


def cabling_sheet(plan: dict[str, Any]) -> str:
    """Return the sheet of a plan as Markdown."""
    return "\n".join([*_head(plan), "", *_cables(plan), "", *_interfaces(plan), "", *_ranks(plan), *_notes(plan)]) + "\n"


def _head(plan: dict[str, Any]) -> list[str]:
    shape = plan["topology"] if plan["topology"] == plan["shape"] else f"{plan['topology']} (a {plan['shape']})"
    return [
        f"# Cabling of {plan['cluster']}",
        "",
        f"Topology {shape}, {counted(len(plan['nodes']), 'node')}, {counted(len(plan['cables']), 'cable')}, MTU {plan['mtu']}, "
        f"links of {plan['link_gbps']:g} Gb/s.",
        "",
        f"Seen from the back of a Spark, port 0 is the QSFP cage {PORT_PLACES[0]}, port 1 the {PORT_PLACES[1]}. One cable carries both rails.",
    ]


def _table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    heading = list(titles)
    return [f"| {' | '.join(heading)} |", f"|{'---|' * len(heading)}", *(f"| {' | '.join(row)} |" for row in rows)]


def _end(end: dict[str, Any] | None) -> str:
    return "the switch" if end is None else f"{end['node']} port {end['port']}"


def _cables(plan: dict[str, Any]) -> list[str]:
    rows = []
    for number, cable in enumerate(plan["cables"], start=1):
        networks = [plan["segments"][cable["segments"][rail]]["network"] or "no IPv4" for rail in RAILS]
        rows.append([str(number), _end(cable["a"]), _end(cable["b"]), *networks, "" if cable["managed"] else "kept as it is"])
    return ["## Cables", "", *_table(["cable", "from", "to", "rail a", "rail b", ""], rows)]


def _interfaces(plan: dict[str, Any]) -> list[str]:
    rows = []
    for node in plan["nodes"].values():
        for interface in node["interfaces"].values():
            address = f"{interface['address']}/{interface['prefix']}" if interface["address"] else "no IPv4"
            peers = [f"{peer['node']} {peer['address']}" for peer in interface["peers"][:MOST_PEERS]]
            if len(interface["peers"]) > MOST_PEERS:
                peers.append("...")
            rows.append(
                [
                    node["name"],
                    f"{interface['port']}",
                    interface["rail"],
                    interface["name"],
                    interface["rdma_device"],
                    address,
                    ", ".join(peers),
                ]
            )
    return ["## Interfaces", "", *_table(["node", "port", "rail", "interface", "RDMA device", "address", "reaches"], rows)]


def _ranks(plan: dict[str, Any]) -> list[str]:
    least = plan["nccl"]["least_version"]
    return [
        "## NCCL",
        "",
        f"Rank order: {', '.join(plan['rank_order'])}. Least version: {least or 'any'}. The hostfile uses management addresses.",
    ]


def _notes(plan: dict[str, Any]) -> list[str]:
    if not plan["notes"]:
        return []
    return ["", "## Notes", "", *(f"* {note['subject']}: {note['message']}" for note in plan["notes"])]
