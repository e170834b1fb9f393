# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Put together what one node says about itself: the value ``fabric_node``. Reads only, changes nothing."""

from __future__ import annotations

import os
import resource
import socket
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.dgxspark.fabric.plugins.module_utils import (
    ethtool_ioctl, fabric_ports, fabric_traffic, flow_control, iproute, job_state, kernel_log, management, platform_facts, rdma, sysfs, verbs_mtu)
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import Runner, find_program
from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree
from ansible_collections.dgxspark.fabric.plugins.module_utils.tool_versions import find_versions

FACTS_VERSION = 1
# Kernel entries without a link-layer address (multicast, loopback) are of no use to the checks.
USELESS_STATES = ("NOARP",)


def parse_os_release(text: str) -> dict[str, str | None]:
    """Return id, version and full name from the text of ``/etc/os-release``."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            values[name.strip()] = value.strip().strip("\"'")
    return {"id": values.get("ID"), "version": values.get("VERSION_ID"), "pretty": values.get("PRETTY_NAME")}


def parse_memory(text: str) -> dict[str, int | None]:
    """Return bytes from the text of ``/proc/meminfo`` (which counts in KiB): all, available, and of the contiguous allocator (CMA)."""
    values: dict[str, int] = {}
    for line in text.splitlines():
        fields = line.replace(":", " ").split()
        if len(fields) >= 2 and fields[1].isdigit():
            values[fields[0]] = int(fields[1]) * 1024
    return {"total_bytes": values.get("MemTotal"), "available_bytes": values.get("MemAvailable"),
            "cma_total_bytes": values.get("CmaTotal"), "cma_free_bytes": values.get("CmaFree")}


def memlock_limit() -> int | str:
    """Return how many bytes this process may lock in memory, or "unlimited"."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return "unlimited" if soft == resource.RLIM_INFINITY else soft


def _ip(run: Runner, arguments: list[str], unavailable: dict[str, str]) -> str:
    done = run(["ip", "-j", *arguments], timeout=20)
    if not done.found:
        unavailable["ip"] = "ip is not installed; the package iproute2 brings it"
    elif done.rc != 0:
        unavailable["ip " + " ".join(arguments)] = done.err.strip()[:200] or f"exit status {done.rc}"
    return done.out if done.rc == 0 else ""


def busy_programs(run: Runner, unavailable: dict[str, str], own: t.Container[int] = ()) -> list[dict[str, t.Any]]:
    """Return the programs that hold RDMA queue pairs or compute on the GPU, ``own`` ones aside: a busy node is not measured."""
    found: list[dict[str, t.Any]] = []
    done = run(["rdma", "-j", "res", "show", "qp"], timeout=20)
    if not done.found:
        unavailable["rdma"] = "rdma is not installed, so running RDMA programs are not seen; the package iproute2 brings it"
    elif done.rc == 0:
        try:
            found.extend(user for user in iproute.parse_queue_pairs(done.out) if user["pid"] not in own)
        except iproute.IprouteError as exc:
            unavailable["rdma"] = str(exc)
    if find_program("nvidia-smi"):
        done = run(["nvidia-smi", "--query-compute-apps=pid,process_name", "--format=csv,noheader"], timeout=20)
        for line in done.out.splitlines() if done.rc == 0 else ():
            pid, comma, name = line.partition(",")
            if comma and pid.strip().isdigit():
                found.append({"pid": int(pid), "command": name.strip(), "device": "gpu", "what": "gpu process"})
    return found


def kernel_events(run: Runner, unavailable: dict[str, str]) -> list[dict[str, t.Any]]:
    """Return what the kernel said since boot of the ConnectX-7 and of PCIe errors, one entry a kind and function."""
    # The journal reaches back to boot; the kernel's own ring may have lost that by now. Status 1 is "no such line".
    done = run(["journalctl", "-k", "-b", "-q", "--no-pager", "-o", "short", "-g", "|".join(kernel_log.WORDS)], timeout=20)
    if done.rc not in (0, 1) or (done.rc == 1 and done.err.strip()):
        done = run(["dmesg"], timeout=20)
    if done.rc not in (0, 1):
        unavailable["kernel_log"] = f"neither journalctl nor dmesg can be read (packages systemd, util-linux): {done.err.strip()[:120]}"
        return []
    return kernel_log.summary(kernel_log.events(done.out.splitlines()))


def _flow_control(run: Runner, tree: Tree, interfaces: t.Mapping[str, dict[str, t.Any]], unavailable: dict[str, str]) -> None:
    """Add to each fabric interface its flow control."""
    names = [name for name, entry in interfaces.items() if entry["port"] is not None]
    if not names:
        return
    with ThreadPoolExecutor(max_workers=len(names)) as pool:
        answers = pool.map(lambda name: flow_control.read_flow_control(run, tree, name), names)
    for name, (found, reason) in zip(names, answers, strict=True):
        interfaces[name]["flow_control"] |= found
        if reason:
            unavailable["flow_control"] = reason


def _traffic(tree: Tree, meter: fabric_traffic.Meter, interfaces: t.Mapping[str, dict[str, t.Any]], busy: list[dict[str, t.Any]], own: bool) -> None:
    """Add to each fabric interface how much it carries, and to the busy programs those behind it, unless it is an ``own`` one's."""
    rates = meter.rates()
    for name, rate in rates.items():
        interfaces[name]["traffic"] = rate
    loaded = fabric_traffic.busy_interfaces(rates)
    if not loaded or own:
        return
    addresses = {address.partition("/")[0] for name in loaded for address in interfaces[name]["addresses"]}
    known = {entry["pid"] for entry in busy}
    owners = [owner for owner in fabric_traffic.socket_owners(tree, addresses) if owner["pid"] not in known]
    for name in loaded:
        busy.append({"pid": None, "command": None, "device": name, "what": "traffic", **rates[name]})
    busy.extend({**owner, "device": ", ".join(loaded), "what": "socket"} for owner in owners)


def _interfaces(tree: Tree, addresses: t.Mapping[str, t.Mapping[str, list[str]]], devices: t.Mapping[str, t.Mapping[str, t.Any]],
                ask_driver: bool) -> dict[str, dict[str, t.Any]]:
    rdma_of = {str(device["netdev"]): name for name, device in devices.items() if device["netdev"]}
    places = fabric_ports.fabric_interfaces(tree)
    found = {}
    for name in sysfs.interface_names(tree):
        entry = sysfs.read_interface(tree, name)
        info = ethtool_ioctl.driver_info(name) if ask_driver else None
        entry["driver"] = entry["driver"] or (str(info["driver"]) if info and info["driver"] else None)
        entry["firmware"] = str(info["firmware"]) if info and info["firmware"] else None
        if info and entry["pci_address"]:
            entry["counters"].update(ethtool_ioctl.error_counters(name, int(info["counters"] or 0)))
        entry["addresses"] = list(addresses.get(name, {}).get("inet", ()))
        entry["addresses6"] = list(addresses.get(name, {}).get("inet6", ()))
        entry["rdma_device"] = rdma_of.get(name)
        entry["port"], entry["rail"] = places.get(name, (None, None))
        entry["twin"] = fabric_ports.twin(places, name)
        told = ethtool_ioctl.link_settings(name) if ask_driver else {}
        entry["autoneg"], entry["fec"] = told.get("autoneg"), told.get("fec")
        entry["flow_control"] = {"pause": told.get("pause"), "pfc_priorities": None, "trust": None, "ecn_priorities": None}
        if entry["firmware"] is None and entry["rdma_device"]:
            entry["firmware"] = devices[entry["rdma_device"]]["firmware"]
        found[name] = entry
    return found


def rdma_device_of(tree: Tree, interface: str) -> str | None:
    """Return the RDMA device of an interface by its directory, without reading tables: by PCI function (mlx5) or by its parent (rxe)."""
    names = tree.names("sys/class/net", interface, "device/infiniband")
    return names[0] if names else next((name for name in tree.names(rdma.BASE) if tree.text(rdma.BASE, name, "parent") == interface), None)


def gather(
    run: Runner,
    root: str = "/",
    *,
    management_interface: str | None = None,
    management_address: str | None = None,
    peers: t.Sequence[str] = (),
    use_ssh: bool = True,
    controller_epoch_seconds: float | None = None,
) -> dict[str, t.Any]:
    """Return ``fabric_node`` of this host.

    Args:
        run: Runs a command (``command.run``).
        root: Where sysfs, procfs and /etc begin; ioctls are asked only when it is ``/``.
        management_interface: The management interface that the inventory names.
        management_address: The management address that the inventory names (a hint).
        peers: Management addresses of the other nodes.
        use_ssh: Whether the ssh connection's address tells the management interface (not on the controller itself).
        controller_epoch_seconds: What the controller's clock said when it sent for these facts.
    """
    clock = time.time()
    tree = Tree(root)
    live = root == "/"
    unavailable: dict[str, str] = {}
    rdma_of_place = {name: rdma_device_of(tree, name) for name in fabric_ports.fabric_interfaces(tree)}
    meter = fabric_traffic.Meter(tree, rdma_of_place)
    addresses = iproute.parse_addresses(_ip(run, ["addr", "show"], unavailable))
    routes = iproute.parse_routes(_ip(run, ["-4", "route", "show", "table", "all"], unavailable))
    neighbours = iproute.parse_neighbours(_ip(run, ["neigh", "show"], unavailable))
    devices = rdma.read_devices(tree)
    if devices and live:
        sizes, reason = verbs_mtu.active_mtu(run)
        verbs_mtu.fill_active_mtu(devices, sizes)
        if reason:
            unavailable["rdma_active_mtu"] = reason
    if not devices:
        unavailable["rdma_devices"] = "no RDMA device: no cable is in (power saving removes the functions then), or rdma-core is not installed"
    tools, missing = find_versions(run, os.path.realpath)
    unavailable.update(missing)
    interfaces = _interfaces(tree, addresses, devices, live)
    _flow_control(run, tree, interfaces, unavailable)
    events = kernel_events(run, unavailable)
    own = job_state.own_processes(tree.path(job_state.DEFAULT_DIRECTORY), tree.path("proc"))
    busy = busy_programs(run, unavailable, own)
    _traffic(tree, meter, interfaces, busy, bool(own))
    tools["nvidia_driver"] = platform_facts.parse_nvidia_driver(tree.text("proc/driver/nvidia/version") or "")
    everything = {name: [*families["inet"], *families["inet6"]] for name, families in addresses.items() if name != "lo"}
    return {
        "facts_version": FACTS_VERSION,
        "hostname": tree.text("proc/sys/kernel/hostname") or socket.gethostname(),
        "architecture": os.uname().machine,
        "kernel": tree.text("proc/sys/kernel/osrelease") or os.uname().release,
        "os": parse_os_release(tree.text("etc/os-release") or ""),
        "tools": tools,
        "management": management.find_management(
            everything,
            routes,
            interface=management_interface,
            address=management_address,
            ssh_address=management.ssh_server_address(tree, management.own_process()) if use_ssh else None,
            peers=peers,
        ),
        "interfaces": interfaces,
        "rdma_devices": devices,
        "routes": [{"dst": route["dst"], "dev": route["dev"], "gateway": route["gateway"]} for route in routes],
        "neighbours": [entry for entry in neighbours if entry["state"] not in USELESS_STATES],
        "memory": parse_memory(tree.text("proc/meminfo") or ""),
        "memlock_bytes": memlock_limit(),
        "gpus": len(tree.names("proc/driver/nvidia/gpus")),
        "busy": busy,
        "pci_functions": platform_facts.read_functions(tree),
        "hotplug": platform_facts.read_hotplug(tree),
        "machine": platform_facts.read_machine(tree),
        "dgx_release": platform_facts.parse_dgx_release(tree.text("etc/dgx-release") or ""),
        "kernel_options": platform_facts.parse_kernel_options(tree.text("proc/cmdline") or ""),
        "kernel_events": events,
        "unavailable": unavailable,
        "clock_epoch_seconds": clock,
        "clock_offset_seconds": None if controller_epoch_seconds is None else round(clock - controller_epoch_seconds, 1),
    }
