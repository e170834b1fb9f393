# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What netplan files, trees and messages show. netplan checks syntax alone; what is wrong in meaning exits 0 there.

Files merge as netplan merges them: lists of one key are joined, of single values the file that sorts last wins.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils import netplan_messages, netplan_tree
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_addresses import networks
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_causes import Explanation
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_context import Context, is_fabric_interface, port_of
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_source import Section

RENDERERS = ("networkd", "NetworkManager", "sriov")
LIMIT = 2000


def explain(section: Section, context: Context, told: Explanation, settings: Mapping[str, str]) -> None:
    """Add what the netplan documents and messages of a section show."""
    if "netplan_messages" in section.kinds:
        messages(section, told)
    good = [(file, tree) for file, tree in section.trees if isinstance(tree, dict) and not refused(tree)]
    for file, tree in section.trees:
        problem = tree if isinstance(tree, str) else refused(tree)
        if problem:
            told.add("address.netplan_error", section.label, where=file, value=problem, evidence={"file": file})
    if not good:
        return
    merged = merge([tree for _file, tree in good])
    fabric = {
        name: settings_of
        for (kind, name), settings_of in list(netplan_tree.definitions(merged).items())[:LIMIT]
        if kind == "ethernets" and isinstance(name, str) and is_fabric_interface(name)
    }
    if not fabric:
        return
    owners = {name: [file for file, tree in good if name in _ethernets(tree)] for name in fabric}
    checks(section, context, told, merged, fabric, owners, good)
    prefixes(section, context, told, fabric, settings)
    value = ", ".join(f"{name} {' '.join(_addresses(entry)) or 'without address'} MTU {entry.get('mtu', 'not set')}" for name, entry in fabric.items())
    told.add("address.netplan", section.label, scope="node", nodes=[section.host], value=value, evidence={"files": [file for file, _tree in good]})


def merge(trees: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what netplan makes of several files."""
    result: dict[str, Any] = {}
    for tree in trees:
        _merge_into(result, tree, 0)
    return result


def _merge_into(result: dict[str, Any], tree: Mapping[str, Any], depth: int) -> None:
    for key, value in tree.items():
        known = result.get(key)
        if isinstance(value, Mapping) and depth < 8:
            target = known if isinstance(known, dict) else {}
            result[key] = target
            _merge_into(target, value, depth + 1)
        elif isinstance(value, list) and isinstance(known, list):
            result[key] = known + [entry for entry in value if entry not in known]
        else:
            result[key] = list(value) if isinstance(value, list) else value


def _ethernets(tree: Mapping[str, Any]) -> Mapping[Any, Any]:
    found = tree.get("ethernets")
    return found if isinstance(found, dict) else {}


def _addresses(entry: Mapping[str, Any]) -> list[str]:
    """Return the addresses of a definition; one with options is a mapping with the address as its key."""
    found = entry.get("addresses")
    return [str(next(iter(value), "")) if isinstance(value, Mapping) else str(value) for value in (found if isinstance(found, list) else [])[:64]]


def _links_local(entry: Mapping[str, Any]) -> bool:
    value = entry.get("link-local")
    return "ipv4" in value if isinstance(value, list) else False


def refused(tree: Mapping[str, Any]) -> str | None:
    """Return what netplan would refuse in a document, as it says it; None when nothing is."""
    definitions = list(netplan_tree.definitions(tree).items())[:LIMIT]
    for where, entry in [("network", tree), *((str(name), settings) for (_kind, name), settings in definitions)]:
        if "renderer" in entry and entry["renderer"] not in RENDERERS:
            return f"{where}: unknown renderer '{entry['renderer'] or ''}'"
        if "mtu" in entry and (isinstance(entry["mtu"], bool) or not isinstance(entry["mtu"], int)):
            return f"{where}: mtu {entry['mtu']!s:.40} is no number"
        for address in _addresses(entry) if where != "network" else []:
            if "/" not in address:
                return f"{where}: address '{address:.60}' is missing /prefixlength"
    return None


def checks(
    section: Section,
    context: Context,
    told: Explanation,
    merged: Mapping[str, Any],
    fabric: Mapping[str, Mapping[str, Any]],
    owners: Mapping[str, list[str]],
    files: Sequence[tuple[str, Mapping[str, Any]]],
) -> None:
    """Judge the merged configuration."""
    common: dict[str, Any] = {"scope": "node", "nodes": [section.host], "evidence": {"files": [file for file, _tree in files]}}
    networks(section.label, {name: _addresses(entry) for name, entry in fabric.items()}, told)
    local = [name for name, entry in fabric.items() if _links_local(entry)]
    if len(local) > 1:
        told.add("address.link_local", section.label, interfaces=local, **common)
    elif local:
        told.add("address.link_local_static", section.label, interfaces=local, addresses="link-local: [ipv4]", **common)
    lower = _built_upon(section, told, merged, fabric, common)
    bare = [name for name, entry in fabric.items() if not _addresses(entry) and name not in lower and not _links_local(entry) and not entry.get("dhcp4")]
    if bare:
        told.add("address.no_ipv4", section.label, status="fail" if context.many_cables else "warn", interfaces=bare, actual=bare, **common)
    for name, entry in fabric.items():
        routes = entry.get("routes")
        for route in routes if isinstance(routes, list) else []:
            if isinstance(route, Mapping) and route.get("to") in ("default", "0.0.0.0/0"):
                told.add("address.default_route", section.label, interfaces=name, value=f"via {route.get('via')}", **common)
        if entry.get("gateway4"):
            told.add("address.default_route", section.label, interfaces=name, value=f"via {entry['gateway4']}", **common)
        wanted = [f"{key} true" for key in ("dhcp4", "dhcp6") if entry.get(key)]
        if wanted:
            at_fault = next((file for file, tree in reversed(files) if any(_entry(tree, name).get(key) for key in ("dhcp4", "dhcp6"))), section.file)
            told.add("address.dhcp", section.label, interfaces=name, value=", ".join(wanted), file_at_fault=at_fault, actual=wanted, **common)
        if len(owners[name]) > 1:
            told.add("address.two_files", section.label, interfaces=name, files=owners[name], **common)
    _management(section, told, merged, fabric, common)
    _renderers(section, told, merged, fabric, files, common)
    mtus = {name: entry.get("mtu") for name, entry in fabric.items()}
    low = {name: value for name, value in mtus.items() if not isinstance(value, int) or value < 9000}
    if low and not lower:
        told.add(
            "address.mtu_low",
            section.label,
            interfaces=list(low),
            value=", ".join(dict.fromkeys("not set" if value is None else str(value) for value in low.values())),
            actual=mtus,
            expected=9000,
            unit="bytes",
            **common,
        )


def _entry(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = _ethernets(tree).get(name)
    return found if isinstance(found, Mapping) else {}


def _built_upon(section: Section, told: Explanation, merged: Mapping[str, Any], fabric: Mapping[str, Any], common: Mapping[str, Any]) -> set[str]:
    """Judge bonds and bridges over rails; return the rails below them."""
    lower: set[str] = set()
    for (kind, name), entry in list(netplan_tree.definitions(merged).items())[:LIMIT]:
        members = entry.get("interfaces")
        mine = (
            [member for member in members if isinstance(member, str) and member in fabric] if kind in ("bonds", "bridges") and isinstance(members, list) else []
        )
        if mine:
            lower.update(mine)
            parameters = entry.get("parameters")
            mode = f" ({parameters['mode']})" if isinstance(parameters, Mapping) and parameters.get("mode") else ""
            told.add(
                "link.enslaved", section.label, interfaces=mine, master=str(name), mode=mode, address=", ".join(_addresses(entry)) or "no address", **common
            )
    return lower


def _management(section: Section, told: Explanation, merged: Mapping[str, Any], fabric: Mapping[str, Mapping[str, Any]], common: Mapping[str, Any]) -> None:
    others = {
        network: str(name)
        for (kind, name), entry in list(netplan_tree.definitions(merged).items())[:LIMIT]
        if name not in fabric and kind in ("ethernets", "wifis")
        for network in _networks(entry)
    }
    for name, entry in fabric.items():
        for network in _networks(entry):
            if any(network.overlaps(other) for other in others):
                told.add("address.management_network", section.label, interfaces=name, network=str(network), **common)


def _networks(entry: Mapping[str, Any]) -> list[ipaddress.IPv4Network]:
    found = []
    for value in _addresses(entry):
        try:
            found.append(ipaddress.IPv4Interface(value).network)
        except ValueError:
            continue
    return found


def _renderers(
    section: Section,
    told: Explanation,
    merged: Mapping[str, Any],
    fabric: Mapping[str, Mapping[str, Any]],
    files: Sequence[tuple[str, Mapping[str, Any]]],
    common: Mapping[str, Any],
) -> None:
    default = merged.get("renderer") or "networkd"
    by_port: dict[int | None, dict[str, str]] = {}
    for name, entry in fabric.items():
        by_port.setdefault(port_of(name), {})[name] = str(entry.get("renderer") or default)
    for members in by_port.values():
        if len(set(members.values())) > 1:
            at_fault = [file for file, tree in files if any("renderer" in _entry(tree, name) for name in members)]
            told.add(
                "address.renderer",
                section.label,
                interfaces=list(members),
                value=", ".join(f"{name} {renderer}" for name, renderer in members.items()),
                file_at_fault=at_fault or section.file,
                actual=members,
                **common,
            )


def prefixes(section: Section, context: Context, told: Explanation, fabric: Mapping[str, Mapping[str, Any]], settings: Mapping[str, str]) -> None:
    """Judge prefixes longer than /24: NCCL compares 24 bits unless told otherwise, which matters where a node has cables to different nodes."""
    by_24: dict[ipaddress.IPv4Network, dict[ipaddress.IPv4Network, int | None]] = {}
    for name, entry in fabric.items():
        for network in _networks(entry):
            if network.prefixlen > 24:
                by_24.setdefault(network.supernet(new_prefix=24), {})[network] = port_of(name)
    for members in by_24.values():
        length = max(network.prefixlen for network in members)
        if len(members) > 1 and (len(set(members.values())) > 1 or context.many_cables) and settings.get("NCCL_IB_SUBNET_PREFIX_LEN") != str(length):
            told.add("address.prefix_length", section.label, scope="node", nodes=[section.host], networks=[str(network) for network in members], prefix=length)


def messages(section: Section, told: Explanation) -> None:
    """Judge what netplan said: the note on permissions is no failure, a conflict of default routes is one although it exits 0."""
    for message in netplan_messages.messages(section.lines):
        if message.kind == "open_file":
            told.add("address.netplan_note", section.label, scope="node", nodes=[section.host], value=message.file, evidence={"line": message.text})
        elif message.kind == "two_defaults":
            told.add("address.default_route", section.label, scope="node", nodes=[section.host], interfaces="one of two interfaces", value=message.text)
        else:
            where = f"{message.file} line {message.line}" if message.file else "a file"
            told.add("address.netplan_error", section.label, scope="node", nodes=[section.host], where=where, value=message.text)
