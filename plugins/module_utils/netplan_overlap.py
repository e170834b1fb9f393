# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the planned networks that a node already uses elsewhere. Pure functions of addresses and routes."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_tree import Planned

# 0.0.0.0/0, and the two halves by which VPN clients replace it, lead everywhere: they are no network of their own.
LEAST_PREFIX = 2


def _network(text: str) -> ipaddress.IPv4Network | None:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
    return network if isinstance(network, ipaddress.IPv4Network) else None


def overlaps(
    planned: t.Sequence[Planned],
    addresses: t.Mapping[str, t.Sequence[str]],
    routes: t.Sequence[t.Mapping[str, t.Any]],
) -> list[str]:
    """Return one text for each planned network that overlaps an address or route on an interface outside the plan.

    Args:
        planned: The planned interfaces.
        addresses: ``{interface: ["10.77.0.11/24", …]}``, IPv4.
        routes: As ``iproute.parse_routes`` gives them.
    """
    inside = {interface.name for interface in planned}
    used: dict[tuple[str, str], str] = {}
    for name, entries in addresses.items():
        for entry in entries:
            if name not in inside and name != "lo":
                used[(name, str(_network(entry)))] = f"address {entry} of {name}"
    for route in routes:
        network = _network(str(route["dst"]))
        if network is not None and route["dev"] not in inside and network.prefixlen >= LEAST_PREFIX:
            used.setdefault((str(route["dev"]), str(network)), f"route {network} on {route['dev']}")
    problems = []
    for interface in planned:
        network = _network(interface.address or "")
        for (_name, text), what in used.items():
            other = _network(text)
            if network is not None and other is not None and network.overlaps(other):
                problems.append(f"{interface.name}: planned network {network} overlaps the {what}")
    return problems
