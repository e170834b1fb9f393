# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read network interfaces and PCI functions from sysfs and procfs below a root directory.

Everything that a file can say is read from a file: no tool is needed, and a test can show a tree that it built.
Two layouts of ``/sys/class/net/X/device`` exist: on mlx5 it is the PCI function itself, on virtio a child of it.
"""

from __future__ import annotations

import os
import pathlib
import re
import typing as t

PCI_ADDRESS = re.compile(r"^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
IFF_UP = 0x1
ARPHRD_LOOPBACK = 772

# Ends of container links: they come and go by the dozen and say nothing about the fabric. Bridges, bonds, docker0 and
# tunnels stay, because the planned networks must not overlap theirs.
NOISE = re.compile(r"^(veth|cali|lxc|tap|vnet)")

COUNTERS = (
    "rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_errors", "tx_errors", "rx_dropped", "tx_dropped",
    "rx_crc_errors", "rx_missed_errors", "tx_carrier_errors",
)


class Tree:
    """Files below ``root`` (``/`` on a node, a temporary directory in tests)."""

    def __init__(self, root: str | os.PathLike[str] = "/") -> None:
        self.root = pathlib.Path(root)

    def path(self, *parts: str) -> pathlib.Path:
        """Return the path below the root that ``parts`` name."""
        return self.root.joinpath(*[part.lstrip("/") for part in parts])

    def text(self, *parts: str) -> str | None:
        """Return a file's text without white space at its ends; ``None`` when it cannot be read.

        A file of sysfs may exist and still refuse to be read (EINVAL, EOPNOTSUPP): that is an absent value too.
        """
        try:
            descriptor = os.open(self.path(*parts), os.O_RDONLY)
        except OSError:
            return None
        try:
            chunks = []
            while chunk := os.read(descriptor, 65536):
                chunks.append(chunk)
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return b"".join(chunks).decode("utf-8", "replace").strip()

    def number(self, *parts: str) -> int | None:
        """Return a file's integer (decimal, or hexadecimal with 0x); ``None`` when there is none."""
        text = self.text(*parts)
        try:
            return int(text, 0) if text else None
        except ValueError:
            return None

    def names(self, *parts: str) -> list[str]:
        """Return the names in a directory, sorted; none when it does not exist."""
        try:
            return sorted(os.listdir(self.path(*parts)))
        except OSError:
            return []

    def link_name(self, *parts: str) -> str | None:
        """Return the last component of what a symbolic link points to, or ``None``."""
        try:
            return os.path.basename(os.readlink(self.path(*parts)))
        except OSError:
            return None

    def exists(self, *parts: str) -> bool:
        """Tell whether the file or directory exists."""
        return self.path(*parts).exists()


def interface_names(tree: Tree) -> list[str]:
    """Return the interfaces of the host except loopback and the ends of container links."""
    names = []
    for name in tree.names("sys/class/net"):
        if NOISE.match(name) or not tree.exists("sys/class/net", name, "mtu"):
            continue
        if tree.number("sys/class/net", name, "type") != ARPHRD_LOOPBACK:
            names.append(name)
    return names


def pci_directory(tree: Tree, interface: str) -> pathlib.Path | None:
    """Return the directory of the PCI function behind an interface, or ``None`` for a virtual one."""
    device = tree.path("sys/class/net", interface, "device")
    try:
        real = device.resolve(strict=True)
    except OSError:
        return None
    for candidate in (real, *real.parents):
        if PCI_ADDRESS.match(candidate.name):
            return candidate
    return None


def _file_text(path: pathlib.Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def parse_link_speed(text: str | None) -> float | None:
    """Return GT/s from ``current_link_speed`` ("32.0 GT/s PCIe"); ``None`` for "Unknown"."""
    match = re.match(r"([0-9.]+)\s*GT/s", text or "")
    return float(match.group(1)) if match else None


def parse_link_width(text: str | None) -> int | None:
    """Return the number of lanes; ``None`` when unknown (sysfs writes 0 or 255 then)."""
    try:
        width = int(text or "")
    except ValueError:
        return None
    return width if 0 < width < 255 else None


def pcie(directory: pathlib.Path | None) -> dict[str, t.Any] | None:
    """Return width (lanes) and speed (GT/s) of a PCI function, as negotiated and at most; ``None`` without a function."""
    if directory is None:
        return None
    return {
        "width": parse_link_width(_file_text(directory / "current_link_width")),
        "speed_gts": parse_link_speed(_file_text(directory / "current_link_speed")),
        "max_width": parse_link_width(_file_text(directory / "max_link_width")),
        "max_speed_gts": parse_link_speed(_file_text(directory / "max_link_speed")),
    }


def interface_kind(tree: Tree, interface: str) -> str | None:
    """Return "bond", "bridge", "vlan", … of a virtual interface; ``None`` for a plain network card."""
    uevent = tree.text("sys/class/net", interface, "uevent") or ""
    for line in uevent.splitlines():
        if line.startswith("DEVTYPE="):
            kind = line.partition("=")[2]
            return None if kind in ("", "wlan") else kind
    if tree.exists("sys/class/net", interface, "bridge"):
        return "bridge"
    if tree.exists("sys/class/net", interface, "bonding"):
        return "bond"
    if tree.exists("sys/class/net", interface, "tun_flags"):
        return "tun"
    return None


def uppers(tree: Tree, interface: str) -> list[str]:
    """Return the interfaces built upon this one (its bond, bridge, VLANs)."""
    prefix = "upper_"
    return [name[len(prefix):] for name in tree.names("sys/class/net", interface) if name.startswith(prefix)]


def carrier(tree: Tree, interface: str) -> bool | None:
    """Return whether the cable carries; ``None`` while the interface is disabled (the kernel refuses to say)."""
    text = tree.text("sys/class/net", interface, "carrier")
    return None if text not in ("0", "1") else text == "1"


def speed_mbps(tree: Tree, interface: str) -> int | None:
    """Return the link speed in Mbit/s; ``None`` when down (sysfs says -1, or EINVAL)."""
    speed = tree.number("sys/class/net", interface, "speed")
    return speed if speed is not None and 0 < speed < 2**31 else None


def renderer(tree: Tree, interface: str) -> str | None:
    """Return who configures the interface now: "networkd", "NetworkManager" or ``None``.

    Both write their state below /run by interface index (systemd-networkd: ``ADMIN_STATE``; NetworkManager: the
    profile in use), so no tool has to be started.
    """
    index = tree.text("sys/class/net", interface, "ifindex")
    if not index:
        return None
    for line in (tree.text("run/systemd/netif/links", index) or "").splitlines():
        if line.startswith("ADMIN_STATE="):
            if line.partition("=")[2] in ("configured", "configuring", "pending", "initialized", "failed"):
                return "networkd"
    device = tree.text("run/NetworkManager/devices", index) or ""
    if re.search(r"^connection-uuid=\S", device, re.MULTILINE) or re.search(r"^managed=true", device, re.MULTILINE):
        return "NetworkManager"
    return None


def statistics(tree: Tree, interface: str) -> dict[str, int]:
    """Return the kernel's byte, packet and error counters of an interface."""
    counters = {}
    for name in COUNTERS:
        value = tree.number("sys/class/net", interface, "statistics", name)
        if value is not None:
            counters[name] = value
    return counters


def read_interface(tree: Tree, interface: str) -> dict[str, t.Any]:
    """Return what sysfs and procfs say about one interface (see ``fabric_node`` in the module's documentation)."""
    base = ("sys/class/net", interface)
    function = pci_directory(tree, interface)
    flags = tree.number(*base, "flags") or 0
    return {
        "mac": tree.text(*base, "address") or None,
        "mtu": tree.number(*base, "mtu"),
        "operstate": tree.text(*base, "operstate"),
        "carrier": carrier(tree, interface),
        "admin_up": bool(flags & IFF_UP),
        "speed_mbps": speed_mbps(tree, interface),
        "duplex": tree.text(*base, "duplex") or None,
        "phys_port_name": tree.text(*base, "phys_port_name") or None,
        "driver": tree.link_name(*base, "device", "driver"),
        "pci_address": function.name if function else None,
        "pcie": pcie(function),
        "master": tree.link_name(*base, "master"),
        "kind": interface_kind(tree, interface),
        "uppers": uppers(tree, interface),
        "renderer": renderer(tree, interface),
        "arp_ignore": tree.number("proc/sys/net/ipv4/conf", interface, "arp_ignore"),
        "arp_announce": tree.number("proc/sys/net/ipv4/conf", interface, "arp_announce"),
        "counters": statistics(tree, interface),
    }
