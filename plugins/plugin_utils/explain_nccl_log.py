# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What NCCL's log shows: the transport of every rank, the devices behind it, and the cause of each warning."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_debug_log import Log, LoggedWarning
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_causes import Explanation
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_context import Context, is_fabric_interface, port_of, twin

#: The first release that knows NCCL_IB_SUBNET_AWARE_ROUTING.
ROUTING_VERSION = (2, 30, 7)
UNNAMED = "the host of this log"
TEXT_CAUSES: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (cause, re.compile(pattern))
    for cause, pattern in (
        ("nccl.memory_registration", r"ibv_reg_mr\w*.*(?:Cannot allocate memory|failed)|Cannot allocate memory"),
        ("nccl.no_net_plugin", r"Failed to initialize any NET plugin|network IB not found"),
        ("nccl.no_interface", r"no socket interface found|NET/Socket : no interface found"),
        ("nccl.duplicate_gpu", r"Duplicate GPU detected"),
        ("nccl.libibverbs", r"Failed to open libibverbs"),
        ("nccl.async_event", r"Got async (?:fatal )?event"),
        ("nccl.incompatible_devices", r"Attempted to connect incompatible devices"),
        ("nccl.bootstrap_mismatch", r"wrong type \d+ != \d+|Message truncated|received \d+ bytes instead of \d+|[Mm]ismatched (?:NCCL )?version"),
        ("nccl.tree_connect", r"ncclTransportTreeConnect"),
    )
)


def explain(log: Log, context: Context, told: Explanation, expected_hosts: Sequence[str], figures: Sequence[float], settings: Mapping[str, str]) -> None:
    """Add what a log shows.

    :param expected_hosts: hosts that nccl-tests lists: each must have said which network it took
    :param figures: bandwidths printed beside the log, GB/s, which a changed GID table makes void
    :param settings: NCCL's environment, where files beside the log give it
    """
    if not log.lines:
        return
    warnings(log, told, figures)
    transport(log, context, told, expected_hosts)
    rails(log, told)
    versions(log, told, settings)
    rendezvous(log, context, told)


def names(hosts: Iterable[str]) -> list[str]:
    """Return hosts as they are told."""
    return [host or UNNAMED for host in dict.fromkeys(hosts)]


def networks_of(log: Log) -> dict[str, set[str]]:
    """Return for every host the networks it chose, or that its channels use."""
    found: dict[str, set[str]] = {host: set() for host in log.hosts}
    for process in log.processes.values():
        found[process.host].update(process.networks)
    for host, _pid, _source, _target, _way, what, net, _device in log.channels:
        if what == "NET":
            found.setdefault(host, set()).add(net)
    return found


def used_devices(log: Log) -> dict[str, list[str]]:
    """Return for every host the physical devices of its channels, merged ones taken apart."""
    found: dict[str, list[str]] = {}
    for host, pid, _source, _target, _way, what, net, device in log.channels:
        process = log.processes.get((host, pid))
        if what == "NET" and net == "IB" and process is not None:
            members = found.setdefault(host, [])
            members.extend(member for member in process.members(device) if member not in members)
    return found


def transport(log: Log, context: Context, told: Explanation, expected_hosts: Sequence[str]) -> None:
    """Judge the network of every host. Numbers may look good over TCP; a host that says nothing is unknown."""
    by_host = networks_of(log)
    wanted = context.network
    bad = [host for host, networks in by_host.items() if networks and networks != {wanted}]
    silent = [host for host, networks in by_host.items() if not networks] + [host for host in expected_hosts if host not in by_host and "" not in by_host]
    # Both ends of a channel over RDMA use RDMA: a host that lists its devices is the other end of one that shows its channels.
    ends = {process.host for process in log.processes.values() if process.devices}
    peers = [host for host in silent if host in ends] if not bad and any(networks == {wanted} for networks in by_host.values()) else []
    silent = [host for host in silent if host not in peers]
    by_host.update({host: {wanted} for host in peers})
    alone = max((process.ranks or 0 for process in log.processes.values()), default=0) == 1
    if bad and not alone:
        networks = sorted({network for host in bad for network in by_host[host] if network != wanted})
        no_device = [host for host in bad if any(process.no_device for process in log.processes.values() if process.host == host)]
        told.add(
            "nccl.transport",
            ", ".join(names(bad)),
            nodes=bad,
            hosts=names(bad),
            networks=networks,
            expected=wanted,
            actual=networks,
            evidence_text="NET/IB : No device found" if no_device else "via NET/" + "/".join(networks),
            evidence={"no_device_found": no_device, "oob": {host or UNNAMED: _oob(log, host) for host in bad[:64]}},
        )
    good = [host for host in by_host if by_host[host] == {wanted}]
    if good and not bad:
        devices = used_devices(log)
        devices.update(
            {
                host: sorted(
                    {member for process in log.processes.values() if process.host == host for members in process.devices.values() for member in members}
                )
                for host in peers
            }
        )
        listed = "; ".join(f"{host or UNNAMED} over {', '.join(devices[host])}" for host in good if devices.get(host)) or "the log does not list the devices"
        told.add(
            "nccl.transport",
            ", ".join(names(good)),
            status="pass",
            nodes=good,
            hosts=names(good),
            networks=f"NET/{wanted}",
            devices=listed,
            actual=wanted,
            expected=wanted,
        )
    failed = any(warning.errno is not None or "plugin" in warning.text for warning in log.warnings.values())
    if silent and not alone and not failed:
        told.add("nccl.transport", ", ".join(names(silent)), status="unknown", nodes=silent, hosts=names(silent), expected=wanted)


def _oob(log: Log, host: str) -> str | None:
    return next((process.oob_interface for process in log.processes.values() if process.host == host and process.oob_interface), None)


def rails(log: Log, told: Explanation) -> None:
    """Judge devices: both twins of each used port, merged devices on one cable, ports that differ by node."""
    ports: dict[str, set[int]] = {}
    for host, used in used_devices(log).items():
        mine = [process for process in log.processes.values() if process.host == host]
        listed = {member for process in mine for members in process.devices.values() for member in members}
        channels = set().union(*(numbers for key, numbers in log.channels.items() if key[0] == host and key[5] == "NET"))
        missing = [other for device in used if (other := twin(device)) and other not in used and (other not in listed or len(channels) > 1)]
        if missing:
            told.add(
                "nccl.one_rail",
                host or UNNAMED,
                scope="node",
                nodes=[host],
                hosts=names([host]),
                used=used,
                missing_devices=missing,
                actual=used,
                expected=sorted({*used, *missing}),
            )
    for host in log.hosts:
        mine = [process for process in log.processes.values() if process.host == host]
        joined = {members for process in mine for members in process.devices.values() if len({port_of(member) for member in members} - {None}) > 1}
        for members in sorted(joined):
            told.add("nccl.merged_cables", host or UNNAMED, scope="node", nodes=[host], hosts=names([host]), devices=list(members))
    for process in log.processes.values():
        found = {port for members in process.devices.values() for member in members if (port := port_of(member)) is not None}
        ports.setdefault(process.host, set()).update(found)
    ports = {host: found for host, found in ports.items() if found}
    if len(ports) > 1 and len({frozenset(found) for found in ports.values()}) > 1 and all(len(found) == 1 for found in ports.values()):
        text = ", ".join(f"{host or UNNAMED} port {min(found)}" for host, found in ports.items())
        told.add("nccl.different_ports", ", ".join(names(ports)), nodes=ports, ports=text, actual={host: min(found) for host, found in ports.items()})


def versions(log: Log, told: Explanation, settings: Mapping[str, str]) -> None:
    """Judge NCCL's versions: equal everywhere, and new enough for the routing variable that is set."""
    by_host: dict[str, str] = {process.host: process.version for process in log.processes.values() if process.version}
    if len(set(by_host.values())) > 1:
        told.add(
            "nccl.version_mismatch",
            "NCCL",
            nodes=by_host,
            value=", ".join(f"{host or UNNAMED} has {version}" for host, version in by_host.items()),
            actual=dict(by_host),
        )
    elif by_host:
        told.add("nccl.version", "NCCL", nodes=by_host, version=next(iter(by_host.values())), hosts=names(by_host))
    routed = settings.get("NCCL_IB_SUBNET_AWARE_ROUTING") == "1"
    old = [
        process
        for process in log.processes.values()
        if process.version and _numbers(process.version) < ROUTING_VERSION and (routed or process.settings.get("NCCL_IB_SUBNET_AWARE_ROUTING") == "1")
    ]
    if old:
        hosts = list(dict.fromkeys(process.host for process in old))
        told.add(
            "nccl.routing_ignored", ", ".join(names(hosts)), nodes=hosts, hosts=names(hosts), version=old[0].version, actual=old[0].version, expected="2.30.7"
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def rendezvous(log: Log, context: Context, told: Explanation) -> None:
    """Judge how ranks meet, and settings that a log repeats."""
    ranks = max((process.ranks or 0 for process in log.processes.values()), default=0)
    if (ranks > 2 and context.topology != "switch") or context.many_cables:
        found = {
            process.host: process.bootstrap_interface or process.oob_interface
            for process in log.processes.values()
            if is_fabric_interface(process.bootstrap_interface or process.oob_interface or "")
        }
        if found:
            told.add(
                "nccl.bootstrap_interface",
                ", ".join(names(found)),
                nodes=found,
                hosts=names(found),
                interfaces=sorted({name for name in found.values() if name}),
            )
    pinned = {process.settings["NCCL_IB_GID_INDEX"] for process in log.processes.values() if "NCCL_IB_GID_INDEX" in process.settings}
    for index in sorted(pinned):
        told.add("nccl.gid_index_pinned", "NCCL's log", index=index)
    waiting = [process for process in log.processes.values() if process.init_started and not process.init_complete and not process.rings_connected]
    if waiting and not log.warnings:
        told.add(
            "nccl.init_hangs",
            ", ".join(names(process.host for process in waiting[:16])),
            nodes=dict.fromkeys(process.host for process in waiting),
            ranks=[process.rank for process in waiting[:16]],
        )


def warnings(log: Log, told: Explanation, figures: Sequence[float]) -> None:
    """Put every warning down to its cause."""
    tree = any("ncclTransportTreeConnect" in warning.text for warning in log.warnings.values())
    for warning in log.warnings.values():
        common: dict[str, Any] = {
            "scope": "node",
            "nodes": [warning.host],
            "host": warning.host or UNNAMED,
            "line": warning.text,
            "device": warning.device or "an RDMA device",
            "evidence": {"line": warning.text, "times": warning.count, "source": warning.where},
        }
        subject = warning.host or UNNAMED
        if "GID table changed" in warning.text:
            told.add("nccl.gid_table_changed", subject, bandwidth=f"{max(figures):.2f} " if figures else "", **common)
        elif warning.errno is not None:
            told.add(
                _modify_qp_cause(warning, tree),
                subject,
                errno=warning.errno,
                index=warning.gid_index,
                local=warning.local_gid,
                remote=warning.remote_gid,
                **common,
            )
        elif warning.status is not None:
            told.add("nccl.completion", subject, completion=warning.status, **common)
        else:
            cause = next((cause for cause, pattern in TEXT_CAUSES if pattern.search(warning.text)), "nccl.warning")
            told.add(cause, subject, **common)


def _modify_qp_cause(warning: LoggedWarning, tree: bool) -> str:
    """Return the cause of a failed ``ibv_modify_qp`` from errno and GIDs."""
    local, remote = _address(warning.local_gid), _address(warning.remote_gid)
    by_errno = {61: "nccl.gid_index", 101: "nccl.no_route", 113: "nccl.no_route", 22: "nccl.gid_kinds"}
    if warning.errno in by_errno:
        return by_errno[warning.errno]
    if warning.errno == 12:
        return "nccl.memory_registration"
    if (warning.local_gid or "").lower().startswith("fe80"):
        return "nccl.gid_link_local"
    if tree or warning.after_rings:
        return "nccl.tree_connect"
    if local and remote and not _one_network(local, remote):
        return "nccl.no_cable_to_peer"
    return "nccl.qp_timeout"


def _address(gid: str | None) -> ipaddress.IPv4Address | None:
    try:
        return ipaddress.IPv6Address(gid or "").ipv4_mapped
    except ValueError:
        return None


def _one_network(first: ipaddress.IPv4Address, second: ipaddress.IPv4Address) -> bool:
    """Tell whether NCCL takes two addresses for one network: it compares 24 bits."""
    return int(first) >> 8 == int(second) >> 8
