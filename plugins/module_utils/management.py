# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the management interface of a node: the one that must never be in the plan.

Order: what the inventory names; the address that the controller's ssh connection reached; the interface in the network of
the other nodes' management addresses; the default route. The first that gives an answer wins, and it is said which.
"""

from __future__ import annotations

import ipaddress
import os
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree

Addresses = t.Mapping[str, t.Sequence[str]]


def parent_process(tree: Tree, pid: int) -> int:
    """Return the parent's process number; 0 at the top or when unknown."""
    stat = tree.text("proc", str(pid), "stat") or ""
    # The second field is the program's name in brackets and may hold blanks and brackets itself.
    fields = stat.rpartition(")")[2].split()
    try:
        return int(fields[1])
    except (IndexError, ValueError):
        return 0


def ssh_server_address(tree: Tree, pid: int) -> str | None:
    """Return the address of this node that the ssh client connected to, from SSH_CONNECTION of a process or its ancestors.

    sudo drops the variable, so the module's own environment often lacks it; the shell that sshd started has it.
    """
    seen = 0
    while pid > 1 and seen < 32:
        for entry in (tree.text("proc", str(pid), "environ") or "").split("\0"):
            name, _equals, value = entry.partition("=")
            fields = value.split()
            if name == "SSH_CONNECTION" and len(fields) == 4:
                return fields[2].partition("%")[0].removeprefix("::ffff:")
        pid = parent_process(tree, pid)
        seen += 1
    return None


def _interface_with(address: str | None, addresses: Addresses) -> tuple[str, str] | None:
    try:
        wanted = ipaddress.ip_address(address or "")
    except ValueError:
        return None
    for name, entries in addresses.items():
        for entry in entries:
            if ipaddress.ip_interface(entry).ip == wanted:
                return name, entry
    return None


def _first_address(entries: t.Sequence[str]) -> str | None:
    return next((entry for entry in entries if not ipaddress.ip_interface(entry).ip.is_link_local), None)


def _in_network_of(peers: t.Sequence[str], addresses: Addresses) -> tuple[str, str] | None:
    for name, entries in addresses.items():
        for entry in entries:
            network = ipaddress.ip_interface(entry).network
            for peer in peers:
                try:
                    inside = ipaddress.ip_address(peer) in network
                except ValueError:
                    continue  # a host name
                if inside:
                    return name, entry
    return None


def default_route_interface(routes: t.Sequence[t.Mapping[str, t.Any]]) -> str | None:
    """Return the interface of the default route with the least metric."""
    defaults = [route for route in routes if route["dst"] in ("default", "0.0.0.0/0") and route.get("table", "main") == "main"]
    best = min(defaults, key=lambda route: route.get("metric") or 0, default=None)
    return str(best["dev"]) if best else None


def _answer(interface: str, entry: str | None, source: str) -> dict[str, t.Any]:
    parsed = ipaddress.ip_interface(entry) if entry else None
    return {
        "interface": interface,
        "address": str(parsed.ip) if parsed else None,
        "prefix": parsed.network.prefixlen if parsed else None,
        "source": source,
    }


def find_management(
    addresses: Addresses,
    routes: t.Sequence[t.Mapping[str, t.Any]],
    *,
    interface: str | None = None,
    address: str | None = None,
    ssh_address: str | None = None,
    peers: t.Sequence[str] = (),
) -> dict[str, t.Any] | None:
    """Return ``{"interface", "address", "prefix", "source"}``, or ``None`` when nothing tells.

    Args:
        addresses: ``{interface: ["10.77.0.11/24", …]}``, IPv4 first.
        routes: As ``iproute.parse_routes`` gives them.
        interface: The interface that the inventory names.
        address: The address that the inventory names; it may be a host name or lie before a NAT, then it tells nothing.
        ssh_address: The address that the ssh connection reached; ``None`` on the controller itself.
        peers: Management addresses of the other nodes.
    """
    hit = _interface_with(address, addresses)
    if interface:
        entries = addresses.get(interface, ())
        own = hit[1] if hit and hit[0] == interface else _first_address(entries)
        return _answer(interface, own, "configured")
    if hit:
        return _answer(*hit, "address")
    hit = _interface_with(ssh_address, addresses)
    if hit:
        return _answer(*hit, "ssh")
    hit = _in_network_of(peers, addresses)
    if hit:
        return _answer(*hit, "peers")
    name = default_route_interface(routes)
    if name:
        return _answer(name, _first_address(addresses.get(name, ())), "default_route")
    return None


def own_process() -> int:
    """Return the module's process number, where the walk to sshd begins."""
    return os.getpid()
