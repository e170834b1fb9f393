# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ARP settings that keep the two rails of one cable apart.

Both rails of both ends share one wire, and Linux answers ARP for any of its addresses on any interface. Then a neighbour may
learn rail b's MAC for rail a's address: ping works, RDMA does not. ``arp_ignore`` 1 answers only for addresses of the
interface that was asked, ``arp_announce`` 2 names only that interface's own address (kernel: ip-sysctl.rst).
systemd's udev rules apply sysctl.d again to an interface that comes back, so a hot-plugged one keeps them.
"""

from __future__ import annotations

import socket
import struct
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree

WANTED = {"arp_ignore": 1, "arp_announce": 2}
DEFAULT_PATH = "/etc/sysctl.d/60-dgxspark-fabric.conf"

HEADER = """\
# Managed by dgxspark.fabric; changes are overwritten.
# The two rails of a cable share one wire. Each interface must answer ARP for its own address alone:
# otherwise a neighbour learns the other rail's MAC, ping works and RDMA moves nothing.
"""

ETHERTYPE_ARP = 0x0806
ETHERTYPE_IPV4 = 0x0800
BROADCAST = b"\xff" * 6


def file_text(interfaces: t.Iterable[str]) -> str:
    """Return the sysctl.d file for the given interfaces, in a stable order.

    The slash form is used, because an interface's name may hold a dot (sysctl.d(5)).
    """
    lines = [f"net/ipv4/conf/{name}/{key} = {value}" for name in sorted(interfaces) for key, value in WANTED.items()]
    return HEADER + "\n".join(lines) + "\n"


def apply_live(tree: Tree, interface: str, values: t.Mapping[str, int] | None = None) -> None:
    """Set both values of one interface now, to ``values`` or else as wanted.

    Raises:
        OSError: The kernel refuses, or the interface is gone.
    """
    for key, value in (WANTED if values is None else values).items():
        tree.path("proc/sys/net/ipv4/conf", interface, key).write_text(f"{value}\n", encoding="ascii")


def announcement(mac: str, address: str) -> bytes:
    """Return an Ethernet frame that tells all neighbours the MAC of ``address`` (gratuitous ARP request, RFC 5227 section 3)."""
    hardware = bytes.fromhex(mac.replace(":", ""))
    protocol = socket.inet_aton(address)
    ethernet = BROADCAST + hardware + struct.pack("!H", ETHERTYPE_ARP)
    return ethernet + struct.pack("!HHBBH", 1, ETHERTYPE_IPV4, 6, 4, 1) + hardware + protocol + b"\0" * 6 + protocol


def announce(interface: str, mac: str, address: str) -> bool:
    """Send the announcement; neighbours that hold the other rail's MAC correct their entry. Return whether it was sent."""
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as handle:
            handle.bind((interface, 0))
            handle.send(announcement(mac, address))
    except OSError:
        return False
    return True
