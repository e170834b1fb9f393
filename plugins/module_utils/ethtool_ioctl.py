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
from collections.abc import Callable

SIOCETHTOOL = 0x8946
ETHTOOL_GDRVINFO = 0x03
ETHTOOL_GPAUSEPARAM = 0x12
ETHTOOL_GSTRINGS = 0x1B
ETHTOOL_GSTATS = 0x1D
ETHTOOL_GLINKSETTINGS = 0x4C
ETHTOOL_GFECPARAM = 0x50
ETH_SS_STATS = 1
ETH_GSTRING_LEN = 32

# struct ethtool_drvinfo: cmd, driver, version, fw_version, bus_info, erom_version, reserved2, n_priv_flags, n_stats,
# testinfo_len, eedump_len, regdump_len.
DRVINFO = struct.Struct("=I32s32s32s32s32s12sIIIII")

# struct ethtool_link_settings without its masks: cmd, speed, duplex, port, phy_address, autoneg, mdio_support, eth_tp_mdix,
# eth_tp_mdix_ctrl, link_mode_masks_nwords, transceiver, master_slave_cfg, master_slave_state, rate_matching, reserved[7].
LINK_SETTINGS = struct.Struct("=IIBBBBBBBbBBBB28s")
PAUSE = struct.Struct("=IIII")
FEC = struct.Struct("=IIII")
# enum ethtool_fec_config_bits: the modes that can be active.
FEC_MODES = {1 << 2: "off", 1 << 3: "rs", 1 << 4: "baser", 1 << 5: "llrs"}

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


def parse_link_settings(raw: bytes) -> bool | None:
    """Return whether the link was negotiated, from a ``struct ethtool_link_settings``; ``None`` where the driver does not tell."""
    autoneg = LINK_SETTINGS.unpack(raw[:LINK_SETTINGS.size])[5]
    return {0: False, 1: True}.get(autoneg)


def parse_pause(raw: bytes) -> dict[str, bool]:
    """Return link-level flow control from a ``struct ethtool_pauseparam``."""
    _command, autoneg, receive, transmit = PAUSE.unpack(raw[:PAUSE.size])
    return {"autoneg": bool(autoneg), "rx": bool(receive), "tx": bool(transmit)}


def parse_fec(raw: bytes) -> str | None:
    """Return the active forward error correction from a ``struct ethtool_fecparam``; ``None`` where none is told."""
    active = FEC.unpack(raw[:FEC.size])[1]
    return "+".join(name for bit, name in FEC_MODES.items() if active & bit) or None


def link_settings(interface: str) -> dict[str, object]:
    """Return ``autoneg``, ``fec`` and ``pause`` of an interface, each ``None`` where the driver does not tell."""
    return {"autoneg": _autoneg(interface), "fec": _asked(interface, ETHTOOL_GFECPARAM, FEC, parse_fec),
            "pause": _asked(interface, ETHTOOL_GPAUSEPARAM, PAUSE, parse_pause)}


def _asked(interface: str, command: int, layout: struct.Struct, parse: Callable[[bytes], object]) -> object:
    buffer = array.array("B", struct.pack("=I", command).ljust(layout.size, b"\0"))
    try:
        _ioctl(interface, buffer)
    except OSError:
        return None
    return parse(buffer.tobytes())


def _autoneg(interface: str) -> bool | None:
    """Ask twice: the kernel first answers how many words its masks have, as a negative number."""
    words = 0
    for _turn in range(2):
        head = LINK_SETTINGS.pack(ETHTOOL_GLINKSETTINGS, 0, 0, 0, 0, 0, 0, 0, 0, words, 0, 0, 0, 0, bytes(28))
        buffer = array.array("B", head + bytes(12 * words))
        try:
            _ioctl(interface, buffer)
        except OSError:
            return None
        told = LINK_SETTINGS.unpack(buffer.tobytes()[:LINK_SETTINGS.size])[9]
        if told > 0:
            return parse_link_settings(buffer.tobytes())
        words = -told
    return None


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
