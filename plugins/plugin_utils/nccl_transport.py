# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Did the data take the planned wires? The ranks' log records and byte counters of one run against the plan. Pure.

A hop is what one node sends to, or receives from, another. The channel line names the device that NCCL chose first; where that does not lead to the peer,
routing by network has put another one in its place, and the log lists the replacements. No line is no proof: the hop is then unknown.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

#: A port that moved fewer bytes in a run says nothing about how they were shared between its rails.
LEAST_BYTES = 64 * 2**20
#: Least share of a port's bytes, percent, that each of its rails should carry.
SHARE_WARN, SHARE_FAIL = 35.0, 20.0


@dataclasses.dataclass(slots=True)
class Proof:
    """What one run proves, as texts by kind; empty everywhere is a proof that all is as planned."""

    wanted: str
    silent: list[str] = dataclasses.field(default_factory=list)
    other_network: list[str] = dataclasses.field(default_factory=list)
    unproven: list[str] = dataclasses.field(default_factory=list)
    wrong_hop: list[str] = dataclasses.field(default_factory=list)
    missing_twin: list[str] = dataclasses.field(default_factory=list)
    unplanned: list[str] = dataclasses.field(default_factory=list)
    merged: list[str] = dataclasses.field(default_factory=list)
    gids: list[str] = dataclasses.field(default_factory=list)
    elsewhere: list[str] = dataclasses.field(default_factory=list)
    shares: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    used: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    @property
    def proven(self) -> bool:
        """Tell whether every rank is known to have used the wanted network."""
        return not (self.silent or self.other_network or self.elsewhere)


def wanted_network(environment: Iterable[Mapping[str, Any]]) -> str:
    """Return the network that an environment asks for: ``IB`` (which RoCE is to NCCL), or what it sets instead."""
    values = {entry["name"]: entry["value"] for entry in environment}
    if values.get("NCCL_NET"):
        return str(values["NCCL_NET"])
    return "Socket" if values.get("NCCL_IB_DISABLE") == "1" else "IB"


class Wires:
    """The plan's devices of a node: where each leads to."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self.devices: dict[str, dict[str, dict[str, Any]]] = {}
        members = {name: [member["node"] for member in segment["members"]] for name, segment in plan["segments"].items()}
        for node, planned in plan["nodes"].items():
            self.devices[node] = {
                interface["rdma_device"]: {
                    "port": interface["port"], "rail": interface["rail"], "cable": interface["cable"],
                    "peers": [other for other in members.get(interface["segment"], []) if other != node],
                }
                for interface in planned["interfaces"].values()
            }

    def reaches(self, node: str, device: str, peer: str) -> bool:
        """Tell whether a device of a node leads to a peer."""
        return peer in (self.devices[node].get(device) or {"peers": []})["peers"]

    def towards(self, node: str, peer: str) -> list[str]:
        """Return the devices of a node that lead to a peer."""
        return [device for device, place in self.devices[node].items() if peer in place["peers"]]


def prove(plan: Mapping[str, Any], run: Mapping[str, Any]) -> Proof:
    """Return what the records of one run prove."""
    records = run.get("rank_records") or []
    nodes = [record["node"] for record in records]
    wires = Wires(plan)
    proof = Proof(wanted=wanted_network(plan["nodes"][nodes[0]]["nccl_environment"]) if nodes else "IB")
    for record in records:
        node, log = record["node"], record.get("log")
        used: set[str] = set()
        networks = networks_of(log)
        if not networks:
            proof.silent.append(f"{node} ({'its log names no network' if log else 'no NCCL log came from it'})")
        elif networks != {proof.wanted}:
            without = " (it found no RDMA device)" if log and log.get("no_device") else ""
            proof.other_network.append(f"{node} used {', '.join(sorted(networks))}{without}")
        elif proof.wanted == "IB":
            used = hops(record, nodes, wires, proof)
        proof.used[node] = sorted(used)
        proof.gids.extend(f"{node} {device}" for device in record.get("gids_changed") or [])
        if proof.wanted == "IB":
            count_bytes(record, wires, proof)
    return proof


def networks_of(log: Mapping[str, Any] | None) -> set[str]:
    """Return the networks that a rank said it chose, and those that its channels use."""
    if not log:
        return set()
    chosen = set(log.get("networks") or [])
    return chosen | {str(channel["via"])[4:] for channel in log.get("channels") or [] if str(channel["via"]).startswith("NET/")}


def hops(record: Mapping[str, Any], nodes: list[str], wires: Wires, proof: Proof) -> set[str]:
    """Judge each hop of one rank; return the devices that it used."""
    node, log = record["node"], record["log"]
    mine = nodes.index(node)
    used_for: dict[str, set[str]] = {}
    replaced: dict[int, list[int]] = {}
    for before, after in log.get("overrides") or []:
        replaced.setdefault(before, []).append(after)
    members = {int(index): list(names) for index, names in (log.get("devices") or {}).items()}
    for names in members.values():
        if len({wires.devices[node].get(name, {}).get("cable") for name in names}) > 1:
            proof.merged.append(f"{node} joins {' and '.join(names)}")
    for channel in log.get("channels") or []:
        ends = (channel["source"], channel["target"])
        if mine not in ends or not all(0 <= end < len(nodes) for end in ends) or not str(channel["via"]).startswith("NET/"):
            continue
        peer = nodes[ends[1] if ends[0] == mine else ends[0]]
        candidates = [channel["device"], *replaced.get(channel["device"], [])]
        listed = [members[index] for index in candidates if index in members]
        fitting = next((names for names in listed if names and all(wires.reaches(node, name, peer) for name in names)), None)
        way = f"{node} to {peer}" if ends[0] == mine else f"{node} from {peer}"
        if fitting is not None:
            used_for.setdefault(peer, set()).update(fitting)
        elif not listed:
            proof.unproven.append(f"{way}: the log does not list device {channel['device']}")
        else:
            names = listed[0]
            unknown = [name for name in names if name not in wires.devices[node]]
            if unknown:
                proof.unplanned.append(f"{way}: {', '.join(unknown)}")
            else:
                leads = sorted({other for name in names for other in wires.devices[node][name]["peers"]})
                proof.wrong_hop.append(f"{way} over {'+'.join(names)}, which leads to {', '.join(leads) or 'nobody'}")
            used_for.setdefault(peer, set()).update(names)
    neighbours = {nodes[(mine + 1) % len(nodes)], nodes[mine - 1]} - {node}
    for peer in sorted(neighbours - set(used_for)):
        proof.unproven.append(f"{node} and {peer}: no channel line")
    for peer, used in used_for.items():
        missing = [device for device in wires.towards(node, peer) if device not in used]
        if missing and used & set(wires.towards(node, peer)):
            proof.missing_twin.append(f"{node} and {peer}: {', '.join(sorted(used))} without {', '.join(missing)}")
    return set().union(*used_for.values()) if used_for else set()


def count_bytes(record: Mapping[str, Any], wires: Wires, proof: Proof) -> None:
    """Take the devices' byte counters as evidence of their own: how a port's bytes were shared, and whether other interfaces carried the data."""
    node, moved = record["node"], record.get("bytes") or {}
    devices = moved.get("devices") or {}
    for key, way in (("tx_bytes", "sent"), ("rx_bytes", "received")):
        by_cable: dict[str, dict[str, int]] = {}
        for device, place in wires.devices[node].items():
            if device in devices:
                by_cable.setdefault(place["cable"], {})[device] = int(devices[device][key])
        for cable, counted in by_cable.items():
            total = sum(counted.values())
            if total >= LEAST_BYTES and len(counted) > 1:
                share = {device: round(100.0 * value / total, 1) for device, value in counted.items()}
                proof.shares.append({"node": node, "cable": cable, "way": way, "bytes": total, "share_percent": share, "least_percent": min(share.values())})
    fabric_interfaces = {entry.get("interface") for device, entry in devices.items() if device in wires.devices[node]}
    fabric = sum(int(entry["tx_bytes"]) for device, entry in devices.items() if device in wires.devices[node])
    others = {
        name: int(entry["tx_bytes"]) for name, entry in (moved.get("interfaces") or {}).items()
        if name not in fabric_interfaces and int(entry["tx_bytes"]) >= LEAST_BYTES
    }
    if devices and others and max(others.values()) > fabric:
        name = max(others, key=lambda other: others[other])
        proof.elsewhere.append(f"{node} sent {others[name] / 1e9:.2f} GB over {name} and {fabric / 1e9:.2f} GB over the fabric's RDMA devices")
