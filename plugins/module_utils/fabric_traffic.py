# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Traffic on the fabric interfaces while nobody measures: how fast bytes move, and which programs have sockets there.

RDMA passes the kernel's interface counters by, so the device's own are read too; the faster of the two counts.
"""

from __future__ import annotations

import os
import re
import socket
import time
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils import rdma
from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree

#: An idle fabric carries neighbour discovery and LLDP, some kbit/s. Anything that could spoil a measurement is far above this.
BUSY_GBPS = 0.1
#: Seconds over which bytes are counted, at least.
INTERVAL = 0.5
# port_xmit_data and port_rcv_data count words of four bytes (linux/Documentation/ABI/stable/sysfs-class-infiniband).
WORD = 4


class Meter:
    """Counts the bytes of interfaces between two moments."""

    def __init__(self, tree: Tree, devices: t.Mapping[str, str | None], clock: t.Callable[[], float] = time.monotonic) -> None:
        """Begin to count; ``devices`` maps each interface to its RDMA device, ``None`` for none."""
        self._tree, self._devices, self._clock = tree, devices, clock
        self._before, self._began = self._read(), clock()

    def _read(self) -> dict[str, dict[str, int]]:
        found = {}
        for name, device in self._devices.items():
            counts = {way: self._tree.number("sys/class/net", name, f"statistics/{way}_bytes") for way in ("rx", "tx")}
            if device:
                for key, counter in (("rdma_rx", "port_rcv_data"), ("rdma_tx", "port_xmit_data")):
                    words = self._tree.number(rdma.BASE, device, "ports/1/counters", counter)
                    counts[key] = None if words is None else words * WORD
            found[name] = {key: value for key, value in counts.items() if value is not None}
        return found

    def rates(self, sleep: t.Callable[[float], None] = time.sleep) -> dict[str, dict[str, float]]:
        """Return ``{interface: {"rx_gbps", "tx_gbps"}}`` since the beginning; waits when that was but a moment ago."""
        early = INTERVAL - (self._clock() - self._began)
        if early > 0:
            sleep(early)
        seconds = max(self._clock() - self._began, 1e-3)
        after, rates = self._read(), {}
        for name, counts in after.items():
            before = self._before.get(name, {})
            moved = {key: max(0, value - before[key]) for key, value in counts.items() if key in before}
            rates[name] = {f"{way}_gbps": round(max(moved.get(way, 0), moved.get(f"rdma_{way}", 0)) * 8e-9 / seconds, 4) for way in ("rx", "tx")}
        return rates


def busy_interfaces(rates: t.Mapping[str, t.Mapping[str, float]]) -> list[str]:
    """Return the interfaces that carry traffic."""
    return [name for name, rate in rates.items() if max(rate.values(), default=0.0) >= BUSY_GBPS]


def parse_tcp(text: str, addresses: t.Container[str]) -> set[str]:
    """Return the inodes of connections whose own end is one of ``addresses`` (IPv4), from the text of ``/proc/net/tcp`` or ``udp``."""
    found = set()
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 10 or not re.fullmatch(r"[0-9A-F]{8}:[0-9A-F]{4}", fields[1], re.ASCII) or fields[9] == "0":
            continue
        # The kernel prints the four bytes as one number of the machine's order, which is little-endian on every GB10 and PC.
        if socket.inet_ntoa(bytes.fromhex(fields[1][:8])[::-1]) in addresses:
            found.add(fields[9])
    return found


def socket_owners(tree: Tree, addresses: t.Container[str]) -> list[dict[str, t.Any]]:
    """Return the programs with a socket on one of the addresses: ``[{"pid", "command"}]``."""
    wanted = {f"socket:[{inode}]" for name in ("tcp", "udp") for inode in parse_tcp(tree.text("proc/net", name) or "", addresses)}
    found = []
    for pid in tree.names("proc") if wanted else []:
        if not pid.isdigit():
            continue
        for descriptor in tree.names("proc", pid, "fd"):
            try:
                target = os.readlink(tree.path("proc", pid, "fd", descriptor))
            except OSError:
                continue
            if target in wanted:
                found.append({"pid": int(pid), "command": tree.text("proc", pid, "comm") or "?"})
                break
    return found
