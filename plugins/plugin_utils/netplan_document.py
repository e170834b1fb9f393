# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The netplan document of a node: what stands under ``network:`` in its 40-cx7.yaml."""

from __future__ import annotations

from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.interfaces import RAILS, interface_name
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Member, Node, Segment, Settings, Topology


def build_netplan(node: Node, settings: Settings, topology: Topology, segments: tuple[Segment, ...]) -> dict[str, Any]:
    """Return the document with the node's interfaces by port, rail a before rail b.

    Interfaces of cables with explicit networks are left out: they are validated as they are. ``ethernets`` is empty when nothing is left.
    The renderer stands at each interface, since a file-wide one would also take over the node's other interfaces.
    """
    managed = {
        (member.plug.port, member.rail): (member, segment)
        for segment in segments
        if segment.managed
        for member in segment.members
        if member.plug.node == node.name
    }
    return {
        "version": 2,
        "ethernets": {
            interface_name(port, rail): _interface(*managed[(port, rail)], settings)
            for port, _cable in topology.cables_of(node.name)
            for rail in RAILS
            if (port, rail) in managed
        },
    }


def _interface(member: Member, segment: Segment, settings: Settings) -> dict[str, Any]:
    document: dict[str, Any] = {}
    if settings.netplan_renderer != "auto":
        document["renderer"] = settings.netplan_renderer
    document.update({"dhcp4": False, "dhcp6": False, "link-local": []})
    if settings.netplan_optional:
        document["optional"] = True
    prefix = segment.network.prefixlen if segment.network is not None else None
    document.update({"mtu": settings.mtu, "addresses": [f"{member.address}/{prefix}"]})
    return document
