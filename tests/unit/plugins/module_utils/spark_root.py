# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build directories that look like a node's sysfs, procfs and run directory, for both layouts of devices."""

from __future__ import annotations

import pathlib
import typing as t

PORTS = {
    "enp1s0f0np0": ("0000:01:00.0", "rocep1s0f0", "p0"),
    "enp1s0f1np1": ("0000:01:00.1", "rocep1s0f1", "p1"),
    "enP2p1s0f0np0": ("0002:01:00.0", "roceP2p1s0f0", "p0"),
    "enP2p1s0f1np1": ("0002:01:00.1", "roceP2p1s0f1", "p1"),
}


def put(root: pathlib.Path, path: str, value: t.Any) -> None:
    """Write a file of the tree."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(f"{value}\n", encoding="utf-8")


def link(root: pathlib.Path, path: str, target: pathlib.Path) -> None:
    """Write a symbolic link of the tree."""
    place = root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def add_interface(root: pathlib.Path, name: str, index: int, *, mtu: int = 9000, carrier: str | None = "1", flags: str = "0x1003",
                  arp: tuple[int, int] = (1, 2)) -> None:
    """Add a network interface without a device."""
    base = f"sys/class/net/{name}"
    values = {"mtu": mtu, "operstate": "up", "flags": flags, "speed": 200000, "duplex": "full", "address": f"02:00:00:00:00:{index:02x}",
              "ifindex": index, "type": 1, "uevent": f"INTERFACE={name}\nIFINDEX={index}", "statistics/rx_bytes": 1000 * index}
    if carrier is not None:
        values["carrier"] = carrier
    for key, value in values.items():
        put(root, f"{base}/{key}", value)
    put(root, f"proc/sys/net/ipv4/conf/{name}/arp_ignore", arp[0])
    put(root, f"proc/sys/net/ipv4/conf/{name}/arp_announce", arp[1])


def add_function(root: pathlib.Path, name: str, pci: str, *, layout: str = "mlx5", width: int = 4) -> pathlib.Path:
    """Put a PCI function behind an interface: itself (mlx5), or the parent of the device (virtio)."""
    function = root / f"sys/devices/pci{pci[:7]}/{pci}"
    for key, value in {"current_link_width": width, "max_link_width": 4, "current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe"}.items():
        put(root, f"{function.relative_to(root)}/{key}", value)
    device = function if layout == "mlx5" else function / "virtio2"
    driver = root / ("sys/bus/pci/drivers/mlx5_core" if layout == "mlx5" else "sys/bus/virtio/drivers/virtio_net")
    driver.mkdir(parents=True, exist_ok=True)
    link(root, f"{device.relative_to(root)}/driver", driver)
    link(root, f"sys/class/net/{name}/device", device)
    if layout == "mlx5":
        for key, value in {"vendor": "0x15b3", "device": "0x1021", "class": "0x020000", f"net/{name}/mtu": 9000,
                           "aer_dev_fatal": "DLP 0\nTOTAL_ERR_FATAL 0", "aer_dev_nonfatal": "DLP 0\nTOTAL_ERR_NONFATAL 0"}.items():
            put(root, f"{function.relative_to(root)}/{key}", value)
        link(root, f"sys/bus/pci/devices/{pci}", function)
    return function


def add_rdma(root: pathlib.Path, device: str, netdev: str, gids: t.Mapping[int, tuple[str, str]], *, layout: str = "mlx5",
             function: pathlib.Path | None = None, entries: int = 16) -> None:
    """Add an RDMA device with a GID table of ``{index: (gid, type)}``."""
    base = f"sys/class/infiniband/{device}"
    port = f"{base}/ports/1"
    for key, value in {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "200 Gb/sec (4X HDR)"}.items():
        put(root, f"{port}/{key}", value)
    put(root, f"{base}/fw_ver", "28.45.4028" if layout == "mlx5" else "")
    for index in range(entries):
        gid, kind = gids.get(index, ("0000:0000:0000:0000:0000:0000:0000:0000", ""))
        put(root, f"{port}/gids/{index}", gid)
        if kind:
            put(root, f"{port}/gid_attrs/types/{index}", kind)
            put(root, f"{port}/gid_attrs/ndevs/{index}", netdev)
    put(root, f"{port}/hw_counters/out_of_sequence", 3)
    put(root, f"{port}/counters/port_rcv_data", 77)
    if layout == "mlx5" and function is not None:
        link(root, f"{base}/device", function)
    else:
        put(root, f"{base}/parent", netdev)


def mapped(address: str) -> str:
    """Return the IPv4-mapped GID of an address as sysfs prints it."""
    first, second, third, fourth = (int(part) for part in address.split("."))
    return f"0000:0000:0000:0000:0000:ffff:{first:02x}{second:02x}:{third:02x}{fourth:02x}"


def spark(root: pathlib.Path, layout: str = "mlx5") -> pathlib.Path:
    """Build a Spark: four fabric interfaces with RDMA devices, management, docker0, a container link."""
    for index, (name, (pci, device, port_name)) in enumerate(PORTS.items(), start=2):
        add_interface(root, name, index)
        if layout == "mlx5":
            put(root, f"sys/class/net/{name}/phys_port_name", port_name)
        function = add_function(root, name, pci, layout=layout)
        local = "fe80:0000:0000:0000:0200:00ff:fe00:0001"
        address = mapped(f"192.168.{175 + index}.11")
        gids = ({0: (local, "IB/RoCE v1"), 1: (local, "RoCE v2"), 2: (address, "IB/RoCE v1"), 3: (address, "RoCE v2")} if layout == "mlx5"
                else {0: (local, "RoCE v2"), 1: (address, "RoCE v2")})
        add_rdma(root, device, name, gids, layout=layout, function=function)
    add_interface(root, "enP7s7", 7, mtu=1500, arp=(0, 0))
    add_interface(root, "docker0", 8, mtu=1500, carrier="0", arp=(0, 0))
    put(root, "sys/class/net/docker0/uevent", "DEVTYPE=bridge\nINTERFACE=docker0")
    add_interface(root, "veth12ab", 9, mtu=1500)
    put(root, "proc/meminfo", "MemTotal:       125000000 kB\nMemAvailable:   100000000 kB")
    put(root, "etc/os-release", 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04.3 LTS"')
    put(root, "proc/sys/kernel/hostname", "spark1")
    put(root, "proc/sys/kernel/osrelease", "6.17.0-1021-nvidia")
    return root
