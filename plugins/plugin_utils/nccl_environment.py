# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NCCL's environment on each node, with a reason for each value, and the least NCCL version that understands it."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.interfaces import MANAGEMENT_INTERFACE, RAILS, interface_name, rdma_device
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Inventory, Node, Segment, Topology

ROUTING_VERSION = "2.30.7"
SOCKET_VARIABLES = (
    ("NCCL_SOCKET_IFNAME", "NCCL's bootstrap"),
    ("UCX_NET_DEVICES", "UCX under MPI"),
    ("OMPI_MCA_btl_tcp_if_include", "MPI's TCP transport"),
    ("GLOO_SOCKET_IFNAME", "Gloo, which frameworks use beside NCCL"),
)
SWITCHLESS = ("mesh", "ring", "graph")
PROFILES: dict[str, tuple[tuple[str, str, str], ...]] = {
    "upstream": (),
    "runtime_connect": (
        ("NCCL_RUNTIME_CONNECT", "1", "connects only what an algorithm uses, so that no tree is set up between nodes without a cable"),
        ("NCCL_CUMEM_ENABLE", "1", "NCCL 2.30.7 connects at run time only with cuMem"),
    ),
    "switchless_ring": (
        ("NCCL_SWITCHLESS_RING_ONLY", "1", "patched NCCL only: no connections beside the ring; stock libraries ignore it silently"),
        ("NCCL_MIN_NCHANNELS", "4", "one stream reaches a fraction of a cable, four fill it"),
        ("NCCL_MAX_NCHANNELS", "4", "keeps the channels at the number that the ring profile was measured with"),
    ),
}


def needs_routing(topology: Topology, segments: tuple[Segment, ...]) -> bool:
    """Tell whether NCCL has to choose a NIC by its peer's network.

    It has to wherever nodes reach different peers over different ports; on a pair or switch with two ports a node, only when the k-th
    port of one node does not meet the k-th of the other, since NCCL pairs NICs by their place in the list.
    """
    if topology.shape in SWITCHLESS:
        return True
    places = {plug: place for node in topology.rank_order for place, plug in enumerate(_plugs(topology, node))}
    return any(len({places[member.plug] for member in segment.members}) > 1 for segment in segments)


def _plugs(topology: Topology, node: str) -> list[Any]:
    return [next(plug for plug in cable.plugs if plug.node == node) for _port, cable in topology.cables_of(node)]


def least_version(topology: Topology, segments: tuple[Segment, ...]) -> str | None:
    """Return the least NCCL version: older ones ignore the routing variable silently; None where any will do."""
    return ROUTING_VERSION if needs_routing(topology, segments) else None


def build_environment(
    node: Node, inventory: Inventory, topology: Topology, segments: tuple[Segment, ...], routed: bool
) -> list[dict[str, Any]]:
    """Return NCCL's environment on a node as [{name, value, reason, follows}].

    ``routed`` is the answer of needs_routing. ``follows`` is ``management.interface`` where the value is the management interface, which
    the node itself knows best, else None. Raises FabricError when ``fabric_nccl_bootstrap`` does not fit the shape.
    """
    settings = inventory.settings
    ports = [port for port, _cable in topology.cables_of(node.name)]
    devices = [rdma_device(port, rail) for port in ports for rail in RAILS]
    entries = [_entry("NCCL_IB_HCA", ",".join(devices), f"both rails of {_ports_said(ports)}; one rail alone halves the bandwidth")]
    entries.append(_entry("NCCL_IB_DISABLE", "0", "RDMA is wanted; without it NCCL falls back to TCP"))
    entries.extend(_bootstrap(node, inventory, topology, segments))
    if routed:
        entries.append(
            _entry(
                "NCCL_IB_SUBNET_AWARE_ROUTING", "1", f"chooses the NIC whose network holds the peer; needs NCCL {ROUTING_VERSION} or later"
            )
        )
        entries.append(
            _entry("NCCL_IB_MERGE_NICS", "0", "keeps the ports apart, since they lead to different nodes; some rings run with 1")
        )
        entries.append(_entry("NCCL_NET_PLUGIN", "none", "NCCL's own RDMA transport; a plugin found by chance would not know the routing"))
    if topology.shape in ("ring", "graph"):
        entries.append(_entry("NCCL_ALGO", "Ring", "only neighbours have a cable; a tree would need cables that are not there"))
    profile = PROFILES[settings.nccl_profile]
    entries.extend(_entry(name, value, f"{reason} (fabric_nccl_profile: {settings.nccl_profile})") for name, value, reason in profile)
    return _overridden(entries, settings.nccl_environment)


def _ports_said(ports: list[int]) -> str:
    return f"port {ports[0]}" if len(ports) == 1 else "ports 0 and 1"


def _entry(name: str, value: str, reason: str, follows: str | None = None) -> dict[str, Any]:
    return {"name": name, "value": value, "reason": reason, "follows": follows}


def _bootstrap(node: Node, inventory: Inventory, topology: Topology, segments: tuple[Segment, ...]) -> list[dict[str, Any]]:
    if inventory.settings.nccl_bootstrap == "fabric":
        interface = _fabric_bootstrap(node, topology, segments)
        return [_entry(name, interface, f"{use} on rail a of the fabric (fabric_nccl_bootstrap: fabric)") for name, use in SOCKET_VARIABLES]
    if node.management_interface is None:
        interface, why = (
            MANAGEMENT_INTERFACE,
            "the management network; the Spark's RJ45 port is assumed, since fabric_management_interface is not set",
        )
    else:
        interface, why = node.management_interface, "the management network, which every node reaches (fabric_management_interface)"
    return [_entry(name, interface, f"{use} on {why}", "management.interface") for name, use in SOCKET_VARIABLES]


def _fabric_bootstrap(node: Node, topology: Topology, segments: tuple[Segment, ...]) -> str:
    if topology.shape in SWITCHLESS:
        raise FabricError(
            f"fabric_nccl_bootstrap is fabric (host {node.name}), but on a {topology.shape} no fabric network reaches every node, and ranks would wait for "
            "each other until they time out: set it to management (fabric is for pair and switch)"
        )
    addressed = {member.plug for segment in segments for member in segment.members if member.rail == "a" and member.address is not None}
    plugs = [plug for plug in _plugs(topology, node.name) if plug in addressed]
    if not plugs:
        raise FabricError(
            f"fabric_nccl_bootstrap is fabric, but rail a of {node.name} has no address in fabric_cables: set it to management, or give rail a an address"
        )
    return interface_name(plugs[0].port, "a")


def _overridden(entries: list[dict[str, Any]], wanted: dict[str, str | None]) -> list[dict[str, Any]]:
    """Return the entries with those of ``fabric_nccl_environment`` in their place, added at the end, or (null) left out."""
    names = {entry["name"] for entry in entries}
    result = []
    for entry in entries:
        value = wanted.get(entry["name"])
        if entry["name"] not in wanted:
            result.append(entry)
        elif value is not None:
            result.append(_entry(entry["name"], value, f"set by fabric_nccl_environment in place of {entry['value']}"))
    added = [(name, value) for name, value in wanted.items() if name not in names]
    result.extend(_entry(name, value, "set by fabric_nccl_environment") for name, value in added if value is not None)
    return result


def version_below(version: str, least: str) -> bool:
    """Tell whether an NCCL version such as ``v2.28.9-1`` is older than the least one."""

    def parts(text: str) -> list[int]:
        return [int(number) for number in re.findall(r"[0-9]+", text)[:3]]

    given, wanted = parts(version), parts(least)
    return given < wanted[: len(given)] if len(given) < len(wanted) else given < wanted
