# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Parse what ``ip -j`` prints: addresses, routes, neighbours. Pure functions of text.

Filtered output may hold empty objects between the entries, and ``ip -j neigh`` of iproute2 6.1 leaves the interface out
when the command named it: neither is an error.
"""

from __future__ import annotations

import json
import typing as t


class IprouteError(ValueError):
    """The text is not the JSON that ``ip -j`` prints."""


def _objects(text: str, what: str) -> list[dict[str, t.Any]]:
    if not text.strip():
        return []
    try:
        data = json.loads(text)
    except ValueError as exc:
        raise IprouteError(f"ip -j {what}: expected a JSON list, got {text.strip()[:80]!r} ({exc})") from exc
    if not isinstance(data, list):
        raise IprouteError(f"ip -j {what}: expected a JSON list, got {type(data).__name__}")
    return [entry for entry in data if isinstance(entry, dict) and entry]


def parse_addresses(text: str) -> dict[str, dict[str, list[str]]]:
    """Return ``{interface: {"inet": ["192.168.177.11/24"], "inet6": [...]}}`` from ``ip -j addr``."""
    found: dict[str, dict[str, list[str]]] = {}
    for link in _objects(text, "addr"):
        name = str(link.get("ifname", "")).partition("@")[0]
        if not name:
            continue
        families = found.setdefault(name, {"inet": [], "inet6": []})
        for entry in link.get("addr_info", []):
            family = entry.get("family")
            if family in families and "local" in entry and "prefixlen" in entry:
                families[family].append(f"{entry['local']}/{entry['prefixlen']}")
    return found


def dynamic_addresses(text: str) -> dict[str, list[str]]:
    """Return ``{interface: addresses}`` of those with a lifetime, as a DHCP client sets them, from ``ip -j addr``."""
    found: dict[str, list[str]] = {}
    for link in _objects(text, "addr"):
        entries = [f"{entry['local']}/{entry['prefixlen']}" for entry in link.get("addr_info", [])
                   if entry.get("dynamic") and "local" in entry and "prefixlen" in entry]
        if entries:
            found[str(link.get("ifname", "")).partition("@")[0]] = entries
    return found


# Entries of these types describe the node's own addresses or nowhere; they lead to no interface.
_NOT_TO_A_NETWORK = ("local", "broadcast", "anycast", "multicast", "unreachable", "blackhole", "prohibit", "throw")


def parse_routes(text: str) -> list[dict[str, t.Any]]:
    """Return ``[{"dst", "dev", "gateway", "metric", "table"}]`` from ``ip -j route`` (any tables); unset values are ``None``.

    A route over several next hops gives one entry for each. ``dst`` is "default" or a network or host in CIDR notation.
    """
    routes = []
    for entry in _objects(text, "route"):
        if entry.get("type") in _NOT_TO_A_NETWORK or "dst" not in entry:
            continue
        destination = str(entry["dst"])
        if destination != "default" and "/" not in destination:
            destination += "/128" if ":" in destination else "/32"
        for hop in entry.get("nexthops") or [entry]:
            if hop.get("dev"):
                routes.append({
                    "dst": destination,
                    "dev": str(hop["dev"]),
                    "gateway": hop.get("gateway"),
                    "metric": entry.get("metric"),
                    "table": str(entry.get("table", "main")),
                })
    return routes


def parse_neighbours(text: str) -> list[dict[str, t.Any]]:
    """Return ``[{"address", "interface", "mac", "state"}]`` from ``ip -j neigh``; ``mac`` is ``None`` where none answered."""
    return [
        {
            "address": str(entry["dst"]),
            "interface": entry.get("dev"),
            "mac": entry.get("lladdr"),
            "state": " ".join(entry.get("state", [])) or None,
        }
        for entry in _objects(text, "neigh")
        if "dst" in entry
    ]


def parse_queue_pairs(text: str) -> list[dict[str, t.Any]]:
    """Return the queue pairs that programs hold, from ``rdma -j res show qp``.

    The kernel keeps queue pairs of its own on every device; only those with an owner's process number count.
    """
    found: dict[tuple[int, str], dict[str, t.Any]] = {}
    for entry in _objects(text, "res show qp"):
        if isinstance(entry.get("pid"), int):
            key = (entry["pid"], str(entry.get("ifname", "")))
            found[key] = {
                "pid": entry["pid"],
                "command": str(entry.get("comm", "?")),
                "device": key[1].partition("/")[0],
                "what": "rdma queue pair",
            }
    return [found[key] for key in sorted(found)]
