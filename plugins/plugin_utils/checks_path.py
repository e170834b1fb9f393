# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Pings, routes and neighbours: does what leaves an interface arrive at the right one, at full size?"""

from __future__ import annotations

import collections
from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils.path_prober import FAR
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import RailKey
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.localise import Observation, blame

#: Bytes of IPv4 and ICMP header in a ping: `ping -s SIZE` at the MTU has SIZE = MTU - 28.
PING_HEADER_BYTES = 28


def mac_owners(nodes: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return the owner (node, interface) of every MAC address in the cluster."""
    owners = {}
    for node, facts in nodes.items():
        for interface, live in ((facts or {}).get("interfaces") or {}).items():
            if live.get("mac"):
                owners[str(live["mac"]).lower()] = (node, interface)
    return owners


def planned_pairs(plan: Mapping[str, Any], excluded: Mapping[str, str]) -> list[dict[str, Any]]:
    """List every (interface, peer interface) that a path probe should have looked at."""
    pairs = []
    for node, planned in plan["nodes"].items():
        if node in excluded:
            continue
        for interface in planned["interfaces"].values():
            if not interface.get("address"):
                continue
            for peer in interface.get("peers") or []:
                if peer["node"] in excluded or not peer.get("address"):
                    continue
                far = plan["nodes"][peer["node"]]["interfaces"][peer["interface"]]
                pairs.append(
                    {
                        "name": f"{node} {interface['name']} -> {peer['node']} {peer['interface']}",
                        "way": f"{node} -> {peer['node']}",
                        "node": node,
                        "interface": interface["name"],
                        "rail": interface["rail"],
                        "cable": interface["cable"],
                        "peer_node": peer["node"],
                        "peer_interface": peer["interface"],
                        "peer_cable": far["cable"],
                        "mtu": interface.get("mtu"),
                    }
                )
    return pairs


def rail_paths(data: Mapping[str, Any], excluded: Mapping[str, str]) -> dict[RailKey, dict[str, Any]]:
    """Return the ``path`` facts of every rail that has a pair to look at."""
    owners = mac_owners(data["nodes"])
    probed = {}
    for node, entries in data["paths"].items():
        for entry in entries or []:
            if entry.get("kind") == FAR:
                continue
            probed[(node, entry["interface"], entry["peer_node"], entry["peer_interface"])] = entry
    seen = []
    for pair in planned_pairs(data["plan"], excluded):
        seen.append(observe(pair, probed.get((pair["node"], pair["interface"], pair["peer_node"], pair["peer_interface"])), data, owners))
    observations = [Observation(one["name"], f"{one['cable']}/{one['rail']}", f"{one['peer_cable']}/{one['rail']}", one["bad"], both_ways=True) for one in seen]
    blamed = blame(observations)
    rails: dict[RailKey, list[dict[str, Any]]] = collections.defaultdict(list)
    for one in seen:
        culprit = blamed.get(one["name"])
        for cable in dict.fromkeys((one["cable"], one["peer_cable"])):
            if culprit is None or culprit.cable == f"{cable}/{one['rail']}":
                rails[(cable, one["rail"])].append(one)
            else:
                rails.setdefault((cable, one["rail"]), [])
    return {key: path_facts(ones) for key, ones in rails.items()}


def far_facts(data: Mapping[str, Any], node: str) -> dict[str, Any]:
    """Return the ``far`` facts of a node: how many addresses without a cable were ``asked``, and which are routed ``over_fabric``, in words."""
    records = [entry for entry in data["paths"].get(node) or [] if entry.get("kind") == FAR]
    fabric = data["plan"]["nodes"][node]["interfaces"]
    over = []
    for entry in records:
        if entry.get("route_interface") in fabric:
            through = f" through {entry['gateway']}" if entry.get("gateway") else ""
            over.append(f"{entry['peer_node']} {entry['peer_address']} by {entry['route_interface']}{through}")
    return {"asked": len(records), "over_fabric": over}


def observe(pair: dict[str, Any], entry: Mapping[str, Any] | None, data: Mapping[str, Any], owners: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
    """Return what one probe says about one pair of interfaces."""
    seen = {**pair, "small": None, "full": None, "largest_mtu": None, "missing": "", "route": "", "neighbour": ""}
    name = pair["name"]
    if entry is None:
        return {**seen, "missing": f"{name}: the path probe of {pair['node']} has no result for it", "bad": True}
    sent = entry.get("sent") or 0
    if not sent:
        return {**seen, "missing": f"{name}: {entry.get('error') or 'no ping was sent'}", "bad": True}
    small, full = entry.get("small_received"), entry.get("received")
    seen["small"] = None if small is None else min(100.0, 100.0 * small / sent)
    seen["full"] = None if full is None else min(100.0, 100.0 * full / sent)
    seen["largest_mtu"] = entry.get("largest_mtu")
    if entry.get("mtu"):
        seen["mtu"] = entry["mtu"]
    route = entry.get("route_interface")
    if route is not None and route != pair["interface"]:
        seen["route"] = f"{name}: packets leave by {route}"
    seen["neighbour"] = wrong_neighbour(pair, entry, data["nodes"], owners)
    seen["bad"] = bool(seen["route"] or seen["neighbour"]) or seen["small"] != 100.0 or seen["full"] != 100.0
    return seen


def wrong_neighbour(pair: Mapping[str, Any], entry: Mapping[str, Any], nodes: Mapping[str, Any], owners: Mapping[str, tuple[str, str]]) -> str:
    """Say whose MAC address the neighbour entry holds when it is not the peer interface's; empty when all is well or nothing is known."""
    found = entry.get("neighbour_mac")
    peer = ((nodes.get(pair["peer_node"]) or {}).get("interfaces") or {}).get(pair["peer_interface"]) or {}
    wanted = peer.get("mac") or entry.get("expected_mac")
    if not found or not wanted or str(found).lower() == str(wanted).lower():
        return ""
    owner = owners.get(str(found).lower())
    whose = "which belongs to no known interface" if owner is None else f"which is {owner[0]} {owner[1]}"
    return f"{pair['name']}: the neighbour entry holds {found}, {whose}, instead of {wanted}"


def path_facts(ones: list[dict[str, Any]]) -> dict[str, Any]:
    """Sum up the probes put down to one rail."""
    missing = [one["missing"] for one in ones if one["missing"]]
    answered = [one for one in ones if not one["missing"]]
    small = [one for one in answered if one["small"] is not None]
    full = [one for one in answered if one["full"] is not None]
    largest = [one["largest_mtu"] for one in full if one["full"] < 100.0 and one["largest_mtu"] is not None]
    sizes = [one["mtu"] for one in answered if one["mtu"]]
    return {
        "probes": len(ones),
        "missing": missing,
        "wrong_route": [one["route"] for one in answered if one["route"]],
        "wrong_neighbour": [one["neighbour"] for one in answered if one["neighbour"]],
        "small_percent": min((one["small"] for one in small), default=None),
        "full_percent": min((one["full"] for one in full), default=None),
        "lost": [one["way"] for one in small if one["small"] < 100.0],
        "full_lost": [one["way"] for one in full if one["full"] < 100.0],
        "largest_mtu": min(largest, default=None),
        "size": max(sizes, default=None),
        "ping_size": max(sizes, default=PING_HEADER_BYTES) - PING_HEADER_BYTES,
    }
