# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""State of the device under test, before and after a test: GID table, port state, counters.

A GID index is never kept: it differs by device and drifts after interface events. It is looked up by the
planned IPv4 address right before each test, and the table is compared after it.
"""

from __future__ import annotations

import dataclasses

from ansible_collections.dgxspark.fabric.plugins.module_utils import rdma, sysfs

#: Counters of a network interface that stand outside of its ``statistics``.
CARRIER_COUNTERS = ("carrier_changes", "carrier_up_count", "carrier_down_count")
ROCE_V2 = "RoCE v2"
#: Tables of up to 1024 entries are filled from the bottom; beyond this many empty ones in a row there is nothing.
EMPTY_RUN = 16


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceState:
    """One look at an RDMA device and its interface.

    ``gids`` are the filled table entries as (index, gid, type). ``counters`` go by the kernel's names;
    ``port_rcv_data`` and ``port_xmit_data`` count words of four bytes.
    """

    exists: bool
    port: str | None
    gids: tuple[tuple[int, str, str], ...]
    counters: dict[str, int]

    def gid_index(self, address: str) -> int | None:
        """Return the index of the RoCE v2 GID of an IPv4 ``address``, None when the table has none."""
        return next((index for index, gid, kind in self.gids if kind == ROCE_V2 and rdma.ipv4_of_gid(gid) == address), None)

    def addresses(self) -> list[str]:
        """Return the IPv4 addresses that have a RoCE v2 GID."""
        return sorted(address for address in (rdma.ipv4_of_gid(gid) for index, gid, kind in self.gids if kind == ROCE_V2) if address)


def look(tree: sysfs.Tree, device: str, interface: str) -> DeviceState:
    """Read the device now."""
    counters = {**sysfs.statistics(tree, interface), **rdma.read_counters(tree, device)}
    for name in CARRIER_COUNTERS:
        value = tree.number("sys/class/net", interface, name)
        if value is not None:
            counters[name] = value
    counters.pop("lifespan", None)  # the interval at which a driver refreshes, no counter
    return DeviceState(
        exists=tree.exists(rdma.BASE, device),
        port=rdma.word_after_number(tree.text(rdma.BASE, device, "ports/1/state")),
        gids=_gids(tree, device),
        counters=counters)


def _gids(tree: sysfs.Tree, device: str) -> tuple[tuple[int, str, str], ...]:
    """Return the filled entries of the table. Read at both ends of each test, so only as far as there are any."""
    base = (rdma.BASE, device, "ports/1")
    found, index, empty = [], 0, 0
    while empty < EMPTY_RUN:
        gid = tree.text(*base, "gids", str(index))
        if gid is None or rdma.EMPTY_GID.match(gid):
            empty += 1
        else:
            empty = 0
            found.append((index, gid, tree.text(*base, "gid_attrs/types", str(index)) or ""))
        index += 1
    return tuple(found)


def gid_changes(before: DeviceState, after: DeviceState) -> str | None:
    """Tell in words how the GID table changed, None when it did not."""
    gone, come = sorted(set(before.gids) - set(after.gids)), sorted(set(after.gids) - set(before.gids))
    if not gone and not come:
        return None
    words = [f"lost {_name(entry)}" for entry in gone[:3]] + [f"gained {_name(entry)}" for entry in come[:3]]
    return "GID table changed: " + ", ".join(words)


def counter_deltas(before: DeviceState, after: DeviceState) -> dict[str, int]:
    """Return what was counted in between: all that moved, and the interface's bytes always."""
    moved = {name: value - before.counters[name] for name, value in after.counters.items() if name in before.counters}
    return {name: value for name, value in sorted(moved.items()) if value or name in ("rx_bytes", "tx_bytes")}


def _name(entry: tuple[int, str, str]) -> str:
    index, gid, kind = entry
    return f"index {index} ({rdma.ipv4_of_gid(gid) or gid}, {kind})"
