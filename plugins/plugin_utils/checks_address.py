# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses as they are: in the right place, once in the cluster, one network an interface, and with a GID."""

from __future__ import annotations

import collections
import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any


def interface_networks(addresses: Iterable[str]) -> list[ipaddress.IPv4Interface]:
    """Return the IPv4 addresses of an interface with their networks; what is no address is left out."""
    found = []
    for text in addresses:
        try:
            found.append(ipaddress.IPv4Interface(text))
        except ValueError:
            continue
    return found


def shared_networks(node_facts: Mapping[str, Any], interface: str, planned: Mapping[str, Any]) -> list[str]:
    """Name the other interfaces of a node that have an address in a network of this one, with the network.

    Two interfaces in one network make the kernel send everything through the first of them, whatever address a program
    binds to, and ping does not show it. A planned address counts with its planned prefix: a wrong one is told by itself,
    and what reaches over its neighbours' networks takes nothing from their longer prefixes.
    """
    interfaces = node_facts.get("interfaces") or {}
    mine = as_planned((interfaces.get(interface) or {}).get("addresses") or [], planned.get(interface) or {})
    found = []
    for other, facts in interfaces.items():
        if other == interface:
            continue
        for theirs in as_planned(facts.get("addresses") or [], planned.get(other) or {}):
            if any(own.network.overlaps(theirs.network) for own in mine):
                found.append(f"{other} ({theirs.with_prefixlen})")
                break
    return found


def as_planned(addresses: Iterable[str], planned: Mapping[str, Any]) -> list[ipaddress.IPv4Interface]:
    """Return the addresses of an interface with their networks, the planned one with the planned prefix."""
    return [
        ipaddress.IPv4Interface(f"{found.ip}/{planned['prefix']}") if planned.get("prefix") and str(found.ip) == planned.get("address") else found
        for found in interface_networks(addresses)
    ]


def prefix_of(live: Mapping[str, Any], planned: str | None) -> int | None:
    """Return the prefix length of an interface's planned address, None when it is not there."""
    return next((found.network.prefixlen for found in interface_networks(live.get("addresses") or []) if str(found.ip) == planned), None)


def duplicate_owners(nodes: Mapping[str, Any], plan: Mapping[str, Any]) -> dict[tuple[str, str], list[str]]:
    """Find addresses that two interfaces of the fabric hold.

    :return: (node, interface) to the other owners in words. Only the interface that the plan does not give the address to is
        listed, so that one duplicate makes one finding; where the plan names none of them, all but the first are.
    """
    owners: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
    for node, planned in plan["nodes"].items():
        facts = nodes.get(node) or {}
        for interface in planned["interfaces"]:
            live = (facts.get("interfaces") or {}).get(interface) or {}
            for address in interface_networks(live.get("addresses") or []):
                owners[str(address.ip)].append((node, interface))
    found: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for address, holders in owners.items():
        if len(holders) < 2:
            continue
        rightful = [holder for holder in holders if plan["nodes"][holder[0]]["interfaces"][holder[1]].get("address") == address]
        keeper = (rightful or holders)[0]
        for holder in holders:
            if holder != keeper:
                found[holder].append(f"{address} is also on {keeper[0]} {keeper[1]}")
    return dict(found)


def has_address(live: Mapping[str, Any], planned: str | None) -> bool | None:
    """Tell whether an interface holds its planned address; None when the plan has none or the interface does not tell."""
    if planned is None or live.get("addresses") is None:
        return None
    return any(str(address.ip) == planned for address in interface_networks(live["addresses"]))


def has_gid(rdma: Mapping[str, Any], planned: str | None) -> bool | None:
    """Tell whether an RDMA device has a RoCE v2 GID of the planned address.

    Which index it has does not matter: indices drift and differ by device.
    """
    if planned is None or rdma.get("gids") is None:
        return None
    return any(gid.get("ipv4") == planned and gid.get("type") == "RoCE v2" for gid in rdma["gids"])


def gid_texts(rdma: Mapping[str, Any]) -> list[str]:
    """Return the GIDs of a device in words."""
    return [f"{gid.get('index')}: {gid.get('ipv4') or gid.get('gid')} ({gid.get('type')})" for gid in rdma.get("gids") or []]
