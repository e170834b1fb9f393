# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan: everything that follows from the inventory alone, as plain data.

``make_plan`` is the one place where inventory, topology, addresses, tests and environment come together. Its result holds only
texts, numbers, truth values, null, lists and mappings, and the same inventory always gives the same plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.addressing import build_segments
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.interfaces import RAILS, interface_name, pci_address, rdma_device
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inventory import read_inventory
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Cable, Inventory, Member, Node, Plug, Segment, Settings, Topology
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.nccl_environment import build_environment, least_version, needs_routing
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.netplan_document import build_netplan
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan_notes import build_notes
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rates import rates_document, rdma_mtu
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rules import RuleError, load_rules
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.test_list import build_further_tests, build_tests
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.topology import build_topology
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.variables import PREFIX

PLAN_VERSION = 1
COPIED_SETTINGS = (
    "mtu",
    "link_gbps",
    "control_port",
    "test_port_base",
    "test_seconds",
    "test_repeats",
    "netplan_optional",
    "netplan_renderer",
    "force_busy",
    "drift_fails",
    "fail_on",
    "rules",
)
INPUTS = ("cables", "rules", "rail_gbps", "rail_bidirectional_gbps")
"""Settings whose content stands in the plan in another form; ``settings`` does not repeat them."""


def make_plan(hosts: Mapping[str, Mapping[str, Any]], group: str = "spark") -> dict[str, Any]:
    """Return the plan of a cluster.

    ``hosts`` maps each host, in the order of the inventory's group of that name, to its variables: ``fabric_*``, ``ansible_host``, ``ansible_port``,
    ``ansible_connection`` and ``ansible_user``; others are ignored. Raises FabricError, and nothing else, when they make no plan.
    """
    inventory = read_inventory(hosts, group)
    _check_rules(inventory.settings)
    topology = build_topology(inventory)
    segments = build_segments(inventory, topology)
    tests, rounds = build_tests(inventory, topology, segments)
    further, further_rounds = build_further_tests(inventory, topology, segments, rounds)
    settings = inventory.settings
    least = least_version(topology, segments)
    return {
        "plan_version": PLAN_VERSION,
        "cluster": settings.cluster_name,
        "topology": settings.topology,
        "shape": topology.shape,
        **{name: getattr(settings, name) for name in COPIED_SETTINGS},
        "rdma_mtu": rdma_mtu(settings.mtu),
        "nodes": _nodes(inventory, topology, segments),
        "cables": [_cable(cable, segments) for cable in topology.cables],
        "segments": {segment.name: _segment(segment) for segment in segments},
        "networks": [str(segment.network) for segment in segments if segment.managed and segment.network is not None],
        "rank_order": list(topology.rank_order),
        "hostfile": [{"node": name, "address": inventory.node(name).management_address, "slots": 1} for name in topology.rank_order],
        "nccl": {"least_version": least, "bootstrap": settings.nccl_bootstrap, "profile": settings.nccl_profile},
        "expected": rates_document(settings),
        "tests": tests,
        "rounds": rounds,
        "further_tests": further,
        "further_rounds": further_rounds,
        "settings": _settings(settings),
        "notes": build_notes(inventory, topology, segments, tests, least),
    }


def _check_rules(settings: Settings) -> None:
    """Refuse rules that could not judge, before anything is cabled, provisioned or measured by this plan."""
    if settings.rules:
        try:
            load_rules(settings.rules)
        except RuleError as error:
            raise RuleError(f"{error} It stands in fabric_rules: correct it there, or remove it.") from None


def _settings(settings: Settings) -> dict[str, Any]:
    """Return every effective group variable under its full name."""
    values = {PREFIX + field.name: getattr(settings, field.name) for field in fields(Settings) if field.name not in INPUTS}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _nodes(inventory: Inventory, topology: Topology, segments: tuple[Segment, ...]) -> dict[str, Any]:
    interfaces: dict[str, dict[tuple[int, str], dict[str, Any]]] = {node.name: {} for node in inventory.nodes}
    cable_of = {plug: cable.name for cable in topology.cables for plug in cable.plugs}
    for segment in segments:
        peers = [_peer(member) for member in segment.members if member.address is not None]
        for member in segment.members:
            interfaces[member.plug.node][(member.plug.port, member.rail)] = _interface(
                member, segment, cable_of[member.plug], peers, inventory.settings
            )
    routed = needs_routing(topology, segments)
    return {node.name: _node(node, interfaces[node.name], inventory, topology, segments, routed) for node in inventory.nodes}


def _node(
    node: Node,
    interfaces: dict[tuple[int, str], dict[str, Any]],
    inventory: Inventory,
    topology: Topology,
    segments: tuple[Segment, ...],
    routed: bool,
) -> dict[str, Any]:
    return {
        "name": node.name,
        "number": node.number,
        "management": {"address": node.management_address, "interface": node.management_interface},
        "ports": sorted({port for port, _rail in interfaces}),
        "local": node.local,
        "ssh_user": node.ssh_user,
        "foreign_netplan": node.foreign_netplan,
        "interfaces": {interface["name"]: interface for _place, interface in sorted(interfaces.items())},
        "netplan": build_netplan(node, inventory.settings, topology, segments),
        "nccl_environment": build_environment(node, inventory, topology, segments, routed),
    }


def _peer(member: Member) -> dict[str, Any]:
    return {
        "node": member.plug.node,
        "interface": interface_name(member.plug.port, member.rail),
        "rail": member.rail,
        "address": str(member.address),
    }


def _interface(member: Member, segment: Segment, cable: str, peers: list[dict[str, Any]], settings: Settings) -> dict[str, Any]:
    port, rail = member.plug.port, member.rail
    addressed = member.address is not None and segment.network is not None
    return {
        "name": interface_name(port, rail),
        "port": port,
        "rail": rail,
        "rdma_device": rdma_device(port, rail),
        "pci_address": pci_address(port, rail),
        "cable": cable,
        "segment": segment.name,
        "managed": segment.managed,
        "address": str(member.address) if addressed else None,
        "prefix": segment.network.prefixlen if addressed and segment.network is not None else None,
        "mtu": settings.mtu,
        "peers": [dict(peer) for peer in peers if peer["address"] != str(member.address)] if addressed else [],
    }


def _end(plug: Plug | None) -> dict[str, Any] | None:
    return None if plug is None else {"node": plug.node, "port": plug.port}


def _cable(cable: Cable, segments: tuple[Segment, ...]) -> dict[str, Any]:
    return {
        "name": cable.name,
        "a": _end(cable.a),
        "b": _end(cable.b),
        "switch": cable.b is None,
        "managed": cable.explicit is None,
        "segments": {
            rail: next(segment.name for segment in segments if segment.rail == rail and cable.name in segment.cables) for rail in RAILS
        },
    }


def _segment(segment: Segment) -> dict[str, Any]:
    return {
        "name": segment.name,
        "rail": segment.rail,
        "network": None if segment.network is None else str(segment.network),
        "cables": list(segment.cables),
        "members": [
            {
                "node": member.plug.node,
                "interface": interface_name(member.plug.port, member.rail),
                "address": None if member.address is None else str(member.address),
            }
            for member in segment.members
        ],
    }
