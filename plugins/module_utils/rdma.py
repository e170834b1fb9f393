# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read RDMA devices from ``/sys/class/infiniband`` below a root directory.

Two layouts exist: an mlx5 device hangs on a PCI function (``device``), an rxe device on nothing (its interface stands in
``parent``). On both the GID table names the interface (``gid_attrs/ndevs``), so that is asked first.
"""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree

BASE = "sys/class/infiniband"
EMPTY_GID = re.compile(r"^[0:]+$")
# Tables have 256 (mlx5) to 1024 (rxe) entries, filled from the bottom; holes are few and small.
EMPTY_RUN = 64

HW_COUNTERS = (
    "out_of_sequence", "out_of_buffer", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "implied_nak_seq_err",
    "duplicate_request", "req_cqe_error", "resp_cqe_error", "np_cnp_sent", "np_ecn_marked_roce_packets", "rp_cnp_handled",
    "roce_adp_retrans", "roce_adp_retrans_to", "roce_slow_restart", "rx_icrc_encapsulated",
    "sent_pkts", "rcvd_pkts", "out_of_seq_request", "rcvd_rnr_err", "send_rnr_err", "rcvd_seq_err", "retry_exceeded_err",
    "retry_rnr_exceeded_err", "completer_retry_err", "send_err", "link_downed", "lifespan",
)
PORT_COUNTERS = (
    "port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets", "port_rcv_errors", "port_xmit_discards",
    "port_xmit_wait", "symbol_error", "link_error_recovery", "link_downed", "local_link_integrity_errors",
    "excessive_buffer_overrun_errors", "VL15_dropped",
)


def ipv4_of_gid(gid: str) -> str | None:
    """Return the IPv4 address inside an IPv4-mapped GID (``::ffff:a.b.c.d``), or ``None`` for any other."""
    try:
        mapped = ipaddress.IPv6Address(gid).ipv4_mapped
    except ValueError:
        return None
    return str(mapped) if mapped is not None else None


def word_after_number(text: str | None) -> str | None:
    """Return "ACTIVE" from the kernel's "4: ACTIVE" (``state``, ``phys_state``)."""
    if not text:
        return None
    return text.partition(":")[2].strip() or text


def parse_rate(text: str | None) -> float | None:
    """Return Gbit/s (10^9 bit/s) from ``rate``, as in "200 Gb/sec (4X HDR)"."""
    match = re.match(r"([0-9.]+)\s*Gb/sec", text or "")
    return float(match.group(1)) if match else None


def read_gids(tree: Tree, device: str, port: int = 1) -> list[dict[str, t.Any]]:
    """Return the filled entries of a GID table, by index."""
    base = (BASE, device, "ports", str(port))
    indexes = sorted(int(name) for name in tree.names(*base, "gids") if name.isdigit())
    gids = []
    empty = 0
    for index in indexes:
        gid = tree.text(*base, "gids", str(index))
        if gid is None or EMPTY_GID.match(gid):
            empty += 1
            if empty >= EMPTY_RUN:
                break
            continue
        empty = 0
        gids.append({
            "index": index,
            "gid": gid,
            "type": tree.text(*base, "gid_attrs/types", str(index)),
            "ipv4": ipv4_of_gid(gid),
            "netdev": tree.text(*base, "gid_attrs/ndevs", str(index)) or None,
        })
    return gids


def netdev_of(tree: Tree, device: str, gids: t.Sequence[t.Mapping[str, t.Any]]) -> str | None:
    """Return the network interface of an RDMA device: by its GID table, else its parent, else the shared PCI function."""
    for gid in gids:
        # A VLAN or bond upon the port has entries in the same table: the first entry is the port's own.
        if gid["netdev"]:
            return str(gid["netdev"])
    first = tree.text(BASE, device, "ports/1/gid_attrs/ndevs/0")
    if first:
        return first
    parent = tree.text(BASE, device, "parent")
    if parent:
        return parent
    names = tree.names(BASE, device, "device/net")
    return names[0] if names else None


def read_counters(tree: Tree, device: str, port: int = 1) -> dict[str, int]:
    """Return the counters of a port that tell of load, loss and repair."""
    base = (BASE, device, "ports", str(port))
    counters: dict[str, int] = {}
    for directory, wanted in (("counters", PORT_COUNTERS), ("hw_counters", HW_COUNTERS)):
        for name in tree.names(*base, directory):
            value = tree.number(*base, directory, name) if name in wanted else None
            if value is not None:
                counters[name] = value
    return counters


def read_device(tree: Tree, device: str) -> dict[str, t.Any]:
    """Return what sysfs says about an RDMA device. ``active_mtu`` (bytes) is not there: the verbs library knows it."""
    base = (BASE, device, "ports/1")
    gids = read_gids(tree, device)
    return {
        "netdev": netdev_of(tree, device, gids),
        "state": word_after_number(tree.text(*base, "state")),
        "physical_state": word_after_number(tree.text(*base, "phys_state")),
        "active_mtu": None,
        "rate_gbps": parse_rate(tree.text(*base, "rate")),
        "firmware": tree.text(BASE, device, "fw_ver") or None,
        "gids": gids,
        "gid_indexes": {str(gid["ipv4"]): gid["index"] for gid in reversed(gids) if gid["ipv4"] and gid["type"] == "RoCE v2"},
        "counters": read_counters(tree, device),
    }


def read_devices(tree: Tree) -> dict[str, dict[str, t.Any]]:
    """Return every RDMA device of the host by name."""
    return {device: read_device(tree, device) for device in tree.names(BASE)}
