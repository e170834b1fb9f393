# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The peers that one node probes on each of its segments, from the plan and what was observed. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.seen_nodes import SeenNode


def make_targets(plan: Mapping[str, Any], node: str, seen: Mapping[str, SeenNode]) -> list[dict[str, Any]]:
    """Return the targets of ``node``, as the module ``path_probe`` takes them.

    One for each other end of each segment. Peers that were not observed are left out: they are not tested, not
    failed. An interface without a planned address has no peers. Raises FabricError.
    """
    if node not in plan["nodes"]:
        raise FabricError(f"{node} is not in the plan; the plan's nodes are {', '.join(plan['nodes'])}")
    targets = []
    for interface in plan["nodes"][node]["interfaces"].values():
        for peer in interface["peers"]:
            if peer["node"] not in seen or not interface["address"] or not peer["address"]:
                continue
            found = seen[peer["node"]].interfaces.get(peer["interface"])
            targets.append({
                "segment": interface["segment"], "interface": interface["name"], "rail": interface["rail"], "cable": interface["cable"],
                "address": interface["address"], "mtu": interface["mtu"], "peer_node": peer["node"], "peer_interface": peer["interface"],
                "peer_address": peer["address"], "expected_mac": found.mac if found else None})
    return targets


def make_far(plan: Mapping[str, Any], node: str, seen: Mapping[str, SeenNode]) -> list[dict[str, Any]]:
    """Return the nodes to which no cable leads from ``node`` (the diagonals of a ring), with their fabric addresses.

    They shall not be reached over the fabric: a detour through the nodes between is no path for RDMA. Raises FabricError.
    """
    if node not in plan["nodes"]:
        raise FabricError(f"{node} is not in the plan; the plan's nodes are {', '.join(plan['nodes'])}")
    near = {peer["node"] for interface in plan["nodes"][node]["interfaces"].values() for peer in interface["peers"]}
    found = []
    for name, planned in plan["nodes"].items():
        addresses = [interface["address"] for interface in planned["interfaces"].values() if interface["address"]]
        if name != node and name not in near and name in seen and addresses:
            found.append({"node": name, "addresses": addresses})
    return found
