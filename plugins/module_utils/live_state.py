# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare what is live on a node with what the plan wants, interface by interface. The comparison is a pure function."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.dgxspark.fabric.plugins.module_utils import arp_settings, iproute, rdma, sysfs
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import Runner
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_tree import Planned
from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree


class LiveStateError(RuntimeError):
    """The live state cannot be read."""


@dataclass(frozen=True)
class Live:
    """What one interface is like now. ``carrier`` is ``None`` while it is disabled; ``gids`` is ``None`` without an RDMA device."""

    name: str
    exists: bool = True
    mtu: int | None = None
    admin_up: bool = False
    carrier: bool | None = None
    mac: str | None = None
    addresses: tuple[str, ...] = ()
    master: str | None = None
    arp: t.Mapping[str, int | None] = field(default_factory=dict)
    gids: tuple[str, ...] | None = None  # IPv4 addresses in the RDMA device's GID table
    dynamic: tuple[str, ...] = ()  # those addresses that a DHCP client or the like got
    renderer: str | None = None  # "networkd" or "NetworkManager"


@dataclass(frozen=True)
class Difference:
    """One deviation. ``mend`` says by what it can be mended: "netplan", "link", "address", "master", "arp", "wait" or "" (not by us)."""

    subject: str
    key: str
    wanted: t.Any
    live: t.Any
    message: str
    mend: str


def read(run: Runner, interfaces: t.Iterable[Planned], root: str = "/") -> dict[str, Live]:
    """Return the live state of the planned interfaces.

    Raises:
        LiveStateError: ``ip`` is missing or fails.
    """
    tree = Tree(root)
    done = run(["ip", "-j", "-4", "addr", "show"], timeout=20)
    if done.rc != 0:
        raise LiveStateError(f"ip -j addr failed with status {done.rc}: {done.err.strip() or 'no message'}; install the package iproute2")
    try:
        addresses = iproute.parse_addresses(done.out)
        dynamic = iproute.dynamic_addresses(done.out)
    except iproute.IprouteError as exc:
        raise LiveStateError(str(exc)) from exc
    found = {}
    for interface in interfaces:
        name = interface.name
        if not tree.exists("sys/class/net", name):
            found[name] = Live(name, exists=False)
            continue
        gids = None
        if interface.rdma_device and tree.exists(rdma.BASE, interface.rdma_device):
            table = rdma.read_gids(tree, interface.rdma_device)
            gids = tuple(str(gid["ipv4"]) for gid in table if gid["ipv4"] and gid["netdev"] in (None, name))
        flags = tree.number("sys/class/net", name, "flags") or 0
        found[name] = Live(
            name,
            mtu=tree.number("sys/class/net", name, "mtu"),
            admin_up=bool(flags & sysfs.IFF_UP),
            carrier=sysfs.carrier(tree, name),
            mac=tree.text("sys/class/net", name, "address"),
            addresses=tuple(addresses.get(name, {}).get("inet", ())),
            master=tree.link_name("sys/class/net", name, "master"),
            arp={key: tree.number("proc/sys/net/ipv4/conf", name, key) for key in arp_settings.WANTED},
            gids=gids,
            dynamic=tuple(dynamic.get(name, ())),
            renderer=sysfs.renderer(tree, name),
        )
    return found


def _address_differences(interface: Planned, live: Live) -> list[Difference]:
    name = interface.name
    found = []
    if interface.address and interface.address not in live.addresses:
        shown = ", ".join(live.addresses) or "none"
        found.append(Difference(name, "address", interface.address, shown, f"{name} has address {shown}, the plan wants {interface.address}", "netplan"))
        # What stands there instead is said already, and removed once the planned address is there.
        return found
    for address in live.addresses:
        if address != interface.address:
            message = f"{name} has the surplus address {address}; the plan wants {interface.address or 'none'}"
            found.append(Difference(name, "surplus_address", "none", address, message, "address"))
    return found


def _one(interface: Planned, live: Live, arp: bool) -> list[Difference]:
    name = interface.name
    if not live.exists:
        message = (f"{name} is missing: is no cable in that port? Power saving (hot-plug) takes the functions of the network card "
                   "away while no cable is in; plug the cable in and wait for the interface")
        return [Difference(name, "presence", "present", "missing", message, "")]
    found = []
    if live.master:
        found.append(Difference(name, "master", "none", live.master, f"{name} is enslaved to {live.master}, the plan wants it on its own", "master"))
    if not live.admin_up:
        found.append(Difference(name, "enabled", "yes", "no", f"{name} is disabled (ip link set {name} up)", "link"))
    elif not live.carrier:
        found.append(Difference(name, "link", "up", "down", f"{name} has no link: check the cable at both ends, and the other node's port", ""))
    if live.mtu != interface.mtu:
        found.append(Difference(name, "mtu", interface.mtu, live.mtu, f"{name} has MTU {live.mtu}, the plan wants {interface.mtu}", "link"))
    if arp:
        for key, value in arp_settings.WANTED.items():
            if live.arp.get(key) != value:
                message = f"{name} has {key} {live.arp.get(key)}, the plan wants {value}: the other rail may answer ARP for it"
                found.append(Difference(name, key, value, live.arp.get(key), message, "arp"))
    addresses = _address_differences(interface, live)
    if live.carrier:
        found.extend(addresses)
        if interface.address and not addresses and live.gids is not None:
            address = interface.address.partition("/")[0]
            if address not in live.gids:
                shown = ", ".join(live.gids) or "none"
                message = f"{interface.rdma_device} has no GID for {address} (it has {shown}): RDMA cannot use the address"
                found.append(Difference(name, "gid", address, shown, message, "wait"))
    else:
        # Without a link the renderer takes the planned address away; it comes back with the link. Others are surplus all the same.
        found.extend(difference for difference in addresses if difference.key != "address" or not live.admin_up)
    return found


def differences(planned: t.Iterable[Planned], live: t.Mapping[str, Live], arp: bool = True) -> list[Difference]:
    """Return every deviation of the live state from the plan, in the plan's order.

    Args:
        planned: The interfaces that the plan addresses on this node.
        live: From ``read``.
        arp: Whether the ARP settings belong to the plan.
    """
    found: list[Difference] = []
    for interface in planned:
        found.extend(_one(interface, live.get(interface.name, Live(interface.name, exists=False)), arp))
    return found


def restore_differences(original: t.Mapping[str, t.Mapping[str, t.Any]], live: t.Mapping[str, Live], owned: t.Mapping[str, str | None]) -> list[Difference]:
    """Return what differs from the state before provisioning, as ``provision_record.live_record`` keeps it.

    Args:
        original: The kept state by interface.
        live: The state now.
        owned: The addresses that the plan gave.
    """
    found = []
    for name, kept in original.items():
        state = live.get(name)
        if state is None or not state.exists:
            continue
        if kept.get("mtu") and state.mtu != kept["mtu"]:
            found.append(Difference(name, "mtu", kept["mtu"], state.mtu, f"{name} has MTU {state.mtu}, it had {kept['mtu']}", "link"))
        before = kept.get("addresses") or []
        for address in state.addresses:
            if address not in before and address == owned.get(name):
                found.append(Difference(name, "surplus_address", "none", address, f"{name} has {address}, which it did not have", "address"))
        for address in before:
            if address not in state.addresses and state.carrier:
                found.append(Difference(name, "address", address, ", ".join(state.addresses) or "none", f"{name} lacks {address}, which it had", "restore"))
        for key, value in (kept.get("arp") or {}).items():
            if value is not None and state.arp.get(key) != value:
                found.append(Difference(name, key, value, state.arp.get(key), f"{name} has {key} {state.arp.get(key)}, it had {value}", "arp"))
        if kept.get("admin_up") is False and state.admin_up:
            found.append(Difference(name, "enabled", "no", "yes", f"{name} is enabled, it was not", "link"))
    return found


def mendable(found: t.Iterable[Difference]) -> list[Difference]:
    """Return the deviations that a change on this node can mend (a cut cable cannot)."""
    return [difference for difference in found if difference.mend not in ("", "wait")]


def drift_entry(node: str, difference: Difference) -> dict[str, t.Any]:
    """Return a deviation as the plain data of the drift list."""
    return {
        "host": node,
        "subject": difference.subject,
        "key": difference.key,
        "wanted": difference.wanted,
        "live": difference.live,
        "message": f"{node}: {difference.message}" if node else difference.message,
    }


def diff_entries(found: t.Iterable[Difference]) -> list[dict[str, str]]:
    """Return Ansible diffs of the live state, one for each interface."""
    by_subject: dict[str, list[Difference]] = {}
    for difference in found:
        by_subject.setdefault(difference.subject, []).append(difference)
    entries = []
    for subject, group in by_subject.items():
        entries.append({
            "before_header": f"live {subject}",
            "after_header": f"planned {subject}",
            "before": "".join(f"{difference.key}: {difference.live}\n" for difference in group),
            "after": "".join(f"{difference.key}: {difference.wanted}\n" for difference in group),
        })
    return entries
