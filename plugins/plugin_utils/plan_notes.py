# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a plan has to say beside its data: legal choices that cost something or deserve a second look. None of them is an error."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.addressing import PRIVATE
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.interfaces import MANAGEMENT_INTERFACE, interface_name
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Inventory, Segment, Topology
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.nccl_environment import needs_routing, version_below
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rank_order import chains
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rates import RDMA_MTUS, rdma_mtu, wire_efficiency

HOME_NETWORKS = (IPv4Network("192.168.0.0/24"), IPv4Network("192.168.1.0/24"))
FULL_LINK_GBPS = 200
NCCL_PREFIX_LENGTH = 24

Note = tuple[str, str, str]
"""(id, subject, message)"""


def build_notes(
    inventory: Inventory, topology: Topology, segments: tuple[Segment, ...], tests: list[dict[str, Any]], least_nccl: str | None
) -> list[dict[str, str]]:
    """Return the notes as [{id, subject, message}], the graver matters of cabling first."""
    found = [
        *_unknown_variables(inventory),
        *_cabling(inventory, topology),
        *_not_tested(inventory, tests),
        *_addresses(segments),
        *_nccl(inventory, topology, segments, least_nccl),
        *_settings(inventory, topology, segments),
    ]
    return [{"id": f"plan.{name}", "subject": subject, "message": message} for name, subject, message in found]


def note_lines(plan: dict[str, Any]) -> list[str]:
    """Return the notes of a plan as lines to print."""
    return [f"Notes on the plan of {plan['cluster']}:", *(f"  {note['subject']}: {note['message']}" for note in plan["notes"])]


def _unknown_variables(inventory: Inventory) -> Iterator[Note]:
    for host, message in inventory.unknown:
        yield "unknown_variable", host, message


def _cabling(inventory: Inventory, topology: Topology) -> Iterator[Note]:
    order = [node.name for node in sorted(inventory.nodes, key=lambda node: node.number)]
    found = chains(topology.cables, order)
    for chain in found:
        if chain.closed and len(chain.steps) == 2:
            names = " and ".join(step.cable.name for step in chain.steps)
            yield (
                "two_cables",
                names,
                (
                    f"{chain.nodes[0]} and {chain.nodes[1]} are joined by two cables; they add no bandwidth, since both cages of a Spark "
                    f"share two PCIe x4 links"
                ),
            )
        elif not chain.closed and len(chain.steps) > 1:
            yield (
                "line",
                chain.nodes[0],
                (
                    f"{', '.join(chain.nodes)} form an open line; NCCL's ring would close between {chain.nodes[-1]} and {chain.nodes[0]}, "
                    f"which have no cable, and "
                    "collectives over all of them normally hang: close the ring with one more cable"
                ),
            )
    if topology.shape == "ring":
        equal = [cable.name for cable in topology.cables if cable.b is not None and cable.a.port == cable.b.port]
        if equal:
            yield (
                "ring_equal_ports",
                ", ".join(equal),
                (
                    "these cables join equal port numbers; rings of 4 and more run so in the field, but the usual cabling is port 0 to port "
                    "1 of the next node"
                ),
            )
    switch_nodes = {cable.a.node for cable in topology.cables if cable.b is None}
    if topology.shape == "graph" and switch_nodes:
        yield (
            "mixed",
            "cluster",
            "some cables go to a switch and some from node to node; only nodes that share a switch or a cable can reach each other",
        )
    parts = len(found) + bool(switch_nodes)
    if topology.shape == "graph" and not switch_nodes and parts > 1:
        yield (
            "not_connected",
            "cluster",
            f"the cables leave {parts} separate parts; each can be measured, but NCCL cannot run over all nodes together",
        )
    if inventory.settings.ring_order is not None and (inventory.settings.cables or topology.shape not in ("ring", "mesh")):
        yield (
            "ring_order_ignored",
            "fabric_ring_order",
            "fabric_ring_order is ignored: the order follows from the cables (it only shapes a mesh or ring that lists no cables)",
        )
    counts: dict[str, int] = {}
    for cable in topology.cables:
        if cable.b is None:
            counts[cable.a.node] = counts.get(cable.a.node, 0) + 1
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        yield (
            "two_switch_ports",
            ", ".join(twice),
            "two cables from a node to the switch add no bandwidth, since both cages of a Spark share two PCIe x4 links",
        )
    if counts and len(twice) == 1 and len(counts) > 1:
        yield "lonely_port", twice[0], "only this node has a second cable to the switch; its second port has no partner and is not measured"


def _not_tested(inventory: Inventory, tests: list[dict[str, Any]]) -> Iterator[Note]:
    tested = {test[end] for test in tests for end in ("client", "server")}
    lonely = [node.name for node in inventory.nodes if node.name not in tested]
    if lonely:
        yield (
            "not_tested",
            ", ".join(lonely),
            (
                "no test measures anything here: on no network of these nodes does another node have an address; check their entries in "
                "fabric_cables and fabric_ports"
            ),
        )


def _addresses(segments: tuple[Segment, ...]) -> Iterator[Note]:
    for segment in segments:
        for member in segment.members:
            if member.address is None:
                yield (
                    "rail_without_address",
                    f"{member.plug} rail {segment.rail}",
                    (
                        f"{interface_name(member.plug.port, segment.rail)} of {member.plug.node} has no IPv4 address in the plan; such "
                        f"pairs reach full rate when "
                        "the MTU is right, but the rail's own tests are skipped"
                    ),
                )
        network = segment.network
        if network is None:
            continue
        if not any(network.subnet_of(private) for private in PRIVATE):
            yield "unusual_network", segment.name, f"{network} is not of RFC 1918; it is accepted because fabric_cables gives it"
        if any(network.overlaps(home) for home in HOME_NETWORKS):
            yield (
                "home_network",
                segment.name,
                f"{network} is the usual network of home routers; see that no node routes it elsewhere, or renumber the cable",
            )
        if network.prefixlen > NCCL_PREFIX_LENGTH and any(_alike(segment, other) for other in segments):
            yield (
                "long_prefix",
                segment.name,
                (
                    f"{network} shares a /24 with another segment; NCCL compares the first {NCCL_PREFIX_LENGTH} bits "
                    f"(NCCL_IB_SUBNET_PREFIX_LEN) whatever the mask, and "
                    f"takes the two for one: use separate /24s, or set fabric_nccl_environment: {{NCCL_IB_SUBNET_PREFIX_LEN: {network.prefixlen}}}"
                ),
            )


def _alike(segment: Segment, other: Segment) -> bool:
    if other.name == segment.name or other.network is None or segment.network is None:
        return False
    return other.network.overlaps(segment.network.supernet(new_prefix=NCCL_PREFIX_LENGTH))


def _nccl(inventory: Inventory, topology: Topology, segments: tuple[Segment, ...], least: str | None) -> Iterator[Note]:
    settings = inventory.settings
    if topology.shape in ("ring", "graph") and settings.nccl_profile == "upstream":
        yield (
            "ring_trees",
            "cluster",
            (
                "nodes without a cable between them cannot connect NCCL's trees; some upstream builds run such rings with NCCL_ALGO=Ring, others die in "
                "ncclTransportTreeConnect: then set fabric_nccl_profile to runtime_connect, or bring a patched library and set switchless_ring"
            ),
        )
    if topology.shape in ("pair", "switch") and needs_routing(topology, segments):
        yield (
            "crossed_ports",
            "cluster",
            (
                f"ports of one place in the nodes' lists do not meet each other, so NCCL has to choose NICs by network: NCCL {least} or later is needed"
            ),
        )
    if least is not None and settings.nccl_version is not None and version_below(settings.nccl_version, least):
        yield (
            "nccl_too_old",
            "fabric_nccl_version",
            (
                f"fabric_nccl_version is {settings.nccl_version}, but a {topology.shape} needs {least} or later: older ones ignore "
                f"NCCL_IB_SUBNET_AWARE_ROUTING silently"
            ),
        )
    if settings.nccl_environment.get("NCCL_IB_GID_INDEX") is not None:
        yield (
            "gid_index_pinned",
            "fabric_nccl_environment",
            (
                "NCCL_IB_GID_INDEX is pinned; the index differs by device and moves when links or addresses change: leave it out and let NCCL choose"
            ),
        )
    if any(node.management_interface is None for node in inventory.nodes) and settings.nccl_bootstrap == "management":
        missing = [node.name for node in inventory.nodes if node.management_interface is None]
        yield (
            "management_interface_assumed",
            ", ".join(missing),
            (f"fabric_management_interface is not set; the NCCL environment of the offline plan assumes {MANAGEMENT_INTERFACE}"),
        )


def _settings(inventory: Inventory, topology: Topology, segments: tuple[Segment, ...]) -> Iterator[Note]:
    settings = inventory.settings
    payload = rdma_mtu(settings.mtu)
    if payload < RDMA_MTUS[-1]:
        lost = 100 * (1 - wire_efficiency(payload) / wire_efficiency(RDMA_MTUS[-1]))
        yield (
            "small_mtu",
            "fabric_mtu",
            f"MTU {settings.mtu} allows an RDMA MTU of {payload}; that costs {lost:.0f} % of a cable against 4096, which needs 4192 or more (9000 is usual)",
        )
    elif any(cable.b is None for cable in topology.cables):
        yield (
            "switch_mtu",
            "fabric_mtu",
            f"the switch has to pass frames of MTU {settings.mtu} on every port that a Spark uses; the path checks prove it",
        )
    if settings.link_gbps < FULL_LINK_GBPS:
        yield "slow_link", "fabric_link_gbps", f"links are declared as {settings.link_gbps:g} Gb/s; a Spark's port can do {FULL_LINK_GBPS}"
    if settings.subnet_pool is not None and not any(segment.managed for segment in segments):
        yield "pool_unused", "fabric_subnet_pool", "fabric_subnet_pool is not used, since every cable gives its own networks"
    shared: dict[str, list[str]] = {}
    for node in inventory.nodes:
        shared.setdefault(node.management_address, []).append(node.name)
    for address, names in shared.items():
        if len(names) > 1:
            yield (
                "management_shared",
                ", ".join(names),
                (
                    f"these nodes have the same management address, {address}; the offline hostfile cannot tell them apart: set "
                    f"fabric_management_address on each"
                ),
            )
