# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ways to split a model: which suit a cluster, how each communicates, and whether the measurements cover that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, shown
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.sizing_number import positive_whole

TOPOLOGIES = ("pair", "mesh", "ring", "switch")
# The collectives (as nccl-tests names them) that each way uses between nodes, and its pattern in words.
PATTERNS: dict[str, tuple[tuple[str, ...], str]] = {
    "data": ((), "replicas answer requests of their own; nothing is exchanged for a token"),
    "tensor": (("all_reduce",), "small messages in every layer of every token; latency counts"),
    "pipeline": (("sendrecv",), "activations go from stage to stage; little traffic, latency once a stage"),
    "expert": (("alltoall",), "tokens go to the experts' nodes and back in every expert layer; uneven load fills single links"),
}


def tensor_advice(nodes: int, topology: str) -> str:
    """Return advice on splitting over so many nodes, one GPU a node."""
    if nodes == 1:
        return "one node: no split between nodes"
    if nodes & (nodes - 1):
        smaller = 1 << (nodes.bit_length() - 1)
        three = " of three nodes" if nodes == 3 else ""
        return f"{nodes} is no power of two: use pipeline or data parallelism on this {topology}{three}, or tensor parallelism over {smaller} of the nodes"
    return f"tensor parallelism over {nodes} nodes suits: {nodes} is a power of two"


def size_parallel(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return advice for ``nodes`` on ``topology``, and each way's pattern with what of it ``measured`` (collectives) covers."""
    nodes = positive_whole(request, "nodes")
    topology = request.get("topology")
    if topology not in TOPOLOGIES:
        raise FabricError(f"topology is {shown(topology)}: expected one of {', '.join(TOPOLOGIES)}")
    measured = request.get("measured", [])
    known = {collective for needs, _pattern in PATTERNS.values() for collective in needs}
    if not isinstance(measured, list) or not all(isinstance(name, str) and name in known for name in measured):
        raise FabricError(f"measured is {shown(measured)}: expected a list of {', '.join(sorted(known))}")
    ways = {}
    for way, (needs, pattern) in PATTERNS.items():
        missing = [name for name in needs if name not in measured]
        ways[way] = {"pattern": pattern, "needs": list(needs), "not_measured": missing}
    return {"advice": tensor_advice(nodes, topology), "ways": ways}
