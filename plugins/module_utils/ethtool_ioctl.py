# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask a network driver for its firmware version and its counters by the ethtool ioctl.

The program ethtool may be missing, and before version 6.10 it prints no JSON; the kernel's own interface
(linux/ethtool.h, linux/sockios.h) is the same everywhere.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct

SIOCETHTOOL = 0x8946
ETHTOOL_GDRVINFO = 0x03
ETHTOOL_GSTRINGS = 0x1B
ETHTOOL_GSTATS = 0x1D
ETH_SS_STATS = 1
ETH_GSTRING_LEN = 32

# struct ethtool_drvinfo: cmd, driver, version, fw_version, bus_info, erom_version, reserved2, n_priv_flags, n_stats,
# testinfo_len, eedump_len, regdump_len.
DRVINFO = struct.Struct("=I32s32s32s32s32s12sIIIII")

# Counters that tell of a bad cable, of congestion or of a link that went away (names of mlx5_core).
ERROR_COUNTERS = (
    "rx_crc_errors_phy", "rx_symbol_err_phy", "rx_discards_phy", "tx_discards_phy", "tx_errors_phy",
    "rx_pcs_symbol_err_phy", "rx_corrected_bits_phy", "link_down_events_phy", "rx_out_of_buffer",
    "rx_bytes_phy", "tx_bytes_phy", "rx_prio0_pause", "tx_prio0_pause", "rx_prio3_pause", "tx_prio3_pause",
    "rx_vport_rdma_unicast_bytes", "tx_vport_rdma_unicast_bytes",
)


def _ioctl(interface: str, buffer: array.array) -> None:
    address, _length = buffer.buffer_info()
    request = struct.pack("=16sQ", interface.encode()[:15], address).ljust(40, b"\0")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        fcntl.ioctl(handle.fileno(), SIOCETHTOOL, request)


def _word(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "replace").strip()


def parse_driver_info(raw: bytes) -> dict[str, str | int | None]:
    """Return driver, firmware, bus address and number of counters from a ``struct ethtool_drvinfo``."""
    fields = DRVINFO.unpack(raw[:DRVINFO.size])
    return {
        "driver": _word(fields[1]) or None,
        "firmware": _word(fields[3]) or None,
        "bus": _word(fields[4]) or None,
        "counters": fields[8],
    }


def driver_info(interface: str) -> dict[str, str | int | None] | None:
    """Return what the driver of ``interface`` says of itself; ``None`` when it cannot be asked."""
    buffer = array.array("B", struct.pack("=I", ETHTOOL_GDRVINFO).ljust(DRVINFO.size, b"\0"))
    try:
        _ioctl(interface, buffer)
    except OSError:
        return None
    return parse_driver_info(buffer.tobytes())


def error_counters(interface: str, number: int) -> dict[str, int]:
    """Return the driver's counters among ``ERROR_COUNTERS``; ``number`` is how many it has (from ``driver_info``)."""
    if number <= 0:
        return {}
    names = array.array("B", struct.pack("=III", ETHTOOL_GSTRINGS, ETH_SS_STATS, number) + bytes(number * ETH_GSTRING_LEN))
    values = array.array("B", struct.pack("=II", ETHTOOL_GSTATS, number) + bytes(number * 8))
    try:
        _ioctl(interface, names)
        _ioctl(interface, values)
    except OSError:
        return {}
    raw_names, raw_values = names.tobytes()[12:], values.tobytes()[8:]
    found = {}
    for index in range(number):
        name = _word(raw_names[index * ETH_GSTRING_LEN:(index + 1) * ETH_GSTRING_LEN])
        if name in ERROR_COUNTERS:
            found[name] = struct.unpack_from("=Q", raw_values, index * 8)[0]
    return found
