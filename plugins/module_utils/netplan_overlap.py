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


def default_routes(planned: t.Iterable[Planned], routes: t.Iterable[t.Mapping[str, t.Any]]) -> list[tuple[str, str]]:
    """Return ``(interface, "via GATEWAY")`` of default routes on planned interfaces."""
    names = {interface.name for interface in planned}
    return [(str(route["dev"]), f"via {route['gateway']}" if route["gateway"] else "direct") for route in routes
            if route["dst"] in ("default", "0.0.0.0/0") and route["dev"] in names]


def overlaps(
    planned: t.Sequence[Planned],
    addresses: t.Mapping[str, t.Sequence[str]],
    routes: t.Sequence[t.Mapping[str, t.Any]],
    networks: t.Sequence[str] = (),
    going: t.Container[str] = (),
) -> list[str]:
    """Return one text for each planned network that overlaps an address or route on an interface outside the plan.

    Args:
        planned: The planned interfaces.
        addresses: ``{interface: ["10.77.0.11/24", …]}``, IPv4.
        routes: As ``iproute.parse_routes`` gives them.
        networks: Every network of the plan: those of other nodes' cables must not be in use here either.
        going: Interfaces that go with the change (a bond that is adopted).
    """
    inside = {interface.name for interface in planned}
    used: dict[tuple[str, str], str] = {}
    for name, entries in addresses.items():
        for entry in entries:
            network = _network(entry)
            if network is not None and name not in inside and name not in going and not network.is_loopback:
                used[(name, str(network))] = f"address {entry} of {name}"
    for route in routes:
        network = _network(str(route["dst"]))
        if network is not None and route["dev"] not in inside and route["dev"] not in going and network.prefixlen >= LEAST_PREFIX:
            used.setdefault((str(route["dev"]), str(network)), f"route {network} on {route['dev']}")
    wanted = {str(_network(interface.address)): interface.name for interface in planned if interface.address}
    for text in networks:
        wanted.setdefault(text, "a cable of other nodes")
    problems = []
    for text, owner in wanted.items():
        network = _network(text)
        for (_name, other_text), what in used.items():
            other = _network(other_text)
            if network is not None and other is not None and network.overlaps(other):
                problems.append(f"{owner}: planned network {network} overlaps the {what}")
    return problems
