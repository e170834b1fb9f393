# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What listings of addresses, MTUs, neighbours, routes and profiles show."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.dgxspark.fabric.plugins.module_utils import address_watch, ip_link, iproute, networkmanager_listing, rdma_listings
from ansible_collections.dgxspark.fabric.plugins.module_utils.ip_link import Interface
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_causes import Explanation
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_context import Context, is_fabric_interface
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_links import rdma_links
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_source import Section

LINK_LOCAL = ipaddress.IPv4Network("169.254.0.0/16")
WANTED_MTU = 9000
UNREACHED = ("FAILED", "INCOMPLETE")


def explain(section: Section, context: Context, told: Explanation) -> None:
    """Add what the listings of a section show; MTUs are judged over all hosts by ``explain_mtus``."""
    interfaces = fabric_interfaces(section)
    enslaved(section, told, [interface for _kind, document in section.documents for interface in ip_link.interfaces(document)])
    addresses(section, context, told, interfaces)
    neighbours(section, told)
    routes(section, told)
    if "nmcli" in section.kinds:
        profiles(section, told)
    if "address_watch" in section.kinds:
        for watch in address_watch.watches(section.lines):
            away = watch.back_after_seconds is None
            told.add(
                "address.management_lost" if away else "address.management_blip",
                watch.interface,
                scope="interface",
                interface=watch.interface,
                address=watch.wanted,
                seconds=f"{watch.watched_seconds if away else watch.back_after_seconds:.2f}",
                evidence={"file": section.file},
            )


def fabric_interfaces(section: Section) -> list[Interface]:
    """Return the fabric's interfaces of a section, once each: a listing with addresses goes before one without."""
    found: dict[str, Interface] = {}
    for kind, document in section.documents:
        if kind == "ip_link":
            for interface in ip_link.interfaces(document):
                if is_fabric_interface(interface.name) and (interface.name not in found or interface.addresses is not None):
                    found[interface.name] = interface
    return list(found.values())


def enslaved(section: Section, told: Explanation, everything: Sequence[Interface]) -> None:
    """Judge bonds and bridges over rails."""
    by_master: dict[str, list[str]] = {}
    for interface in everything:
        if interface.master and is_fabric_interface(interface.name):
            by_master.setdefault(interface.master, []).append(interface.name)
    for master, names in by_master.items():
        upper = next((interface for interface in everything if interface.name == master), None)
        mode = f" ({upper.mode})" if upper and upper.mode else ""
        told.add(
            "link.enslaved",
            section.label,
            scope="node",
            nodes=[section.host],
            interfaces=names,
            master=master,
            mode=mode,
            address=", ".join(upper.addresses or ()) or "no address" if upper else "an address not listed",
            actual=names,
            evidence={"file": section.file},
        )


def addresses(section: Section, context: Context, told: Explanation, interfaces: Sequence[Interface]) -> None:
    """Judge IPv4 addresses of a host."""
    listed = [interface for interface in interfaces if interface.addresses is not None]
    if not listed:
        return
    common = {"scope": "node", "nodes": [section.host], "evidence": {"file": section.file}}
    by_name = {interface.name: list(interface.addresses or ()) for interface in listed}
    networks(section.label, by_name, told)
    up_elsewhere = [link.netdev for link in rdma_links(section) if link.up and is_fabric_interface(link.netdev)]
    up = list(dict.fromkeys([*(interface.name for interface in listed if interface.up and not interface.master), *up_elsewhere]))
    bare = [name for name in up if not by_name.get(name)]
    if up and len(bare) == len(up):
        told.add("address.not_provisioned", section.label, interfaces=bare, **common)
    elif bare:
        told.add("address.no_ipv4", section.label, status="fail" if context.many_cables else "warn", interfaces=bare, actual=bare, **common)
    given = {name: values for name, values in by_name.items() if values}
    if given:
        told.add("address.present", section.label, value=", ".join(f"{name} {' '.join(values)}" for name, values in given.items()), actual=given, **common)


def networks(label: str, by_name: Mapping[str, Iterable[str]], told: Explanation) -> None:
    """Judge the networks of one host's fabric interfaces: each its own, none link-local."""
    by_network: dict[ipaddress.IPv4Network, dict[str, list[str]]] = {}
    for name, values in by_name.items():
        for value in values:
            try:
                interface = ipaddress.IPv4Interface(value)
            except ValueError:
                continue
            network = LINK_LOCAL if interface.ip in LINK_LOCAL else interface.network
            by_network.setdefault(network, {}).setdefault(name, []).append(value)
    for network, members in by_network.items():
        listed = [value for values in members.values() for value in values]
        if network == LINK_LOCAL:
            told.add(
                "address.link_local" if len(members) > 1 else "address.link_local_static",
                label,
                scope="node",
                interfaces=list(members),
                addresses=listed,
                actual=listed,
            )
        elif len(members) > 1:
            told.add("address.shared_network", label, scope="node", interfaces=list(members), network=str(network), actual=listed)


def explain_mtus(sections: Iterable[Section], told: Explanation) -> None:
    """Judge MTUs over all hosts: what differs ends in retry exceeded, what drifted from its file is told as that."""
    seen: list[tuple[str, str, int]] = []
    drifted = False
    for section in sections:
        wanted = {
            name: settings["mtu"]
            for _file, tree in section.trees
            if isinstance(tree, dict) and isinstance(tree.get("ethernets"), dict)
            for name, settings in tree["ethernets"].items()
            if isinstance(settings, dict) and isinstance(settings.get("mtu"), int)
        }
        info = [entry.active_mtu for entry in rdma_listings.ibv_devinfo(section.lines) if entry.active_mtu] if "ibv_devinfo" in section.kinds else []
        for interface in fabric_interfaces(section):
            if interface.mtu is None or interface.state == "DOWN":
                continue
            target = wanted.get(interface.name)
            if target is not None and target != interface.mtu:
                drifted = True
                rdma = f", RDMA active_mtu {min(info)}" if info else ""
                told.add(
                    "address.mtu_drift",
                    section.label,
                    scope="interface",
                    nodes=[section.host],
                    interfaces=interface.name,
                    actual=interface.mtu,
                    expected=target,
                    unit="bytes",
                    rdma=rdma,
                    evidence={"file": section.file, "active_mtu": info},
                )
            else:
                seen.append((section.label, interface.name, interface.mtu))
        if info and not fabric_interfaces(section):
            told.add(
                "rdma.mtu",
                section.label,
                status="warn" if min(info) < 4096 else "pass",
                device="each RDMA device",
                actual=min(info),
                expected=4096,
                unit="bytes",
            )
    if not seen:
        return
    values = {mtu for _label, _name, mtu in seen}
    listed = [f"{label} {name} {mtu}" for label, name, mtu in seen]
    labels = list(dict.fromkeys(label for label, _name, _mtu in seen))
    names = list(dict.fromkeys(name for _label, name, _mtu in seen))
    if len(values) > 1:
        told.add(
            "address.mtu",
            ", ".join(labels[:8]),
            nodes=labels,
            interfaces=names,
            value=", ".join(listed[:32]),
            actual=sorted(values),
            expected=WANTED_MTU,
            unit="bytes",
        )
    elif not drifted and min(values) < WANTED_MTU:
        told.add(
            "address.mtu_low", ", ".join(labels[:8]), nodes=labels, interfaces=names, value=min(values), actual=min(values), expected=WANTED_MTU, unit="bytes"
        )
    elif not drifted:
        told.add(
            "address.mtu",
            ", ".join(labels[:8]),
            status="pass",
            nodes=labels,
            interfaces=names,
            value=min(values),
            actual=min(values),
            expected=WANTED_MTU,
            unit="bytes",
        )


def neighbours(section: Section, told: Explanation) -> None:
    """Judge neighbour entries. iproute2 6.1 leaves ``dev`` out when the command named it; that is no fault."""
    entries = []
    for kind, document in section.documents:
        if kind == "ip_neighbours":
            try:
                entries.extend(iproute.parse_neighbours(json.dumps(document)))
            except (iproute.IprouteError, TypeError):
                continue
    entries = [entry for entry in entries if entry["interface"] is None or is_fabric_interface(str(entry["interface"]))]
    good = []
    by_mac: dict[str, dict[str, str]] = {}
    for entry in entries:
        address, interface = str(entry["address"]), str(entry["interface"] or "the interface asked for")
        if any(word in str(entry["state"] or "") for word in UNREACHED):
            told.add(
                "path.neighbour",
                section.label,
                scope="interface",
                nodes=[section.host],
                address=address,
                interface=interface,
                value=entry["state"],
                evidence={"file": section.file},
            )
            continue
        good.append(f"{address} is {entry['state']}")
        if entry["mac"] and "REACHABLE" in str(entry["state"]):
            by_mac.setdefault(str(entry["mac"]), {})[address] = interface
    for members in by_mac.values():
        if len(members) > 1 and len(set(members.values())) > 1:
            told.add(
                "path.arp",
                section.label,
                scope="node",
                nodes=[section.host],
                value=" and ".join(members),
                evidence={"file": section.file, "neighbours": dict(members)},
            )
    if good:
        told.add(
            "path.neighbour", section.label, status="pass", scope="node", nodes=[section.host], value=", ".join(good[:16]), evidence={"file": section.file}
        )


def routes(section: Section, told: Explanation) -> None:
    """Judge routes: the fabric leads nowhere but to the peers."""
    for kind, document in section.documents:
        if kind == "ip_routes":
            wrong = [route for route in iproute.parse_routes(json.dumps(document)) if route["dst"] == "default" and is_fabric_interface(route["dev"])]
            for route in wrong:
                told.add("address.default_route", section.label, scope="node", nodes=[section.host], interfaces=route["dev"], value=f"via {route['gateway']}")
            if not wrong:
                told.add("address.default_route", section.label, status="pass", scope="node", nodes=[section.host])


def profiles(section: Section, told: Explanation) -> None:
    """Judge which profile of NetworkManager holds a fabric interface."""
    held = [connection for connection in networkmanager_listing.connections(section.lines) if is_fabric_interface(connection.device)]
    generic = [connection for connection in held if connection.generic]
    common = {"scope": "node", "nodes": [section.host], "evidence": {"file": section.file}}
    if generic:
        told.add(
            "address.auto_profile",
            section.label,
            interfaces=[connection.device for connection in generic],
            profiles=[connection.name for connection in generic],
            first_profile=f"'{generic[0].name}'",
            **common,
        )
    else:
        value = ", ".join(f"{connection.device} by {connection.name}" for connection in held) or "no profile holds a fabric interface"
        told.add("address.profiles", section.label, profiles=value, **common)
