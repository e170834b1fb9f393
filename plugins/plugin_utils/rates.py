# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a healthy cable and rail deliver, in Gb/s (10^9 bit/s), with the formula behind every number.

Sources: the RoCE v2 frame (82 bytes round each payload on the wire), PCIe Gen5 x4 framing, and field records of healthy Sparks:
109 Gb/s one way, 213 Gb/s both ways at once on one rail, where a degraded cable still gave 109 one way but only 119 or 26 both ways.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Rates, Settings

RDMA_MTUS = (256, 512, 1024, 2048, 4096)
ROCE_HEADERS = 40 + 8 + 12 + 4 + 28 + 4
"""Bytes that the kernel's iboe_get_mtu sets aside in a netdev's MTU: GRH, UDP, BTH, XRC, atomic header, ICRC."""
WIRE_OVERHEAD = 20 + 14 + 20 + 8 + 12 + 4 + 4
"""Bytes on the wire beside each RDMA payload: preamble and gap, Ethernet, IPv4, UDP, BTH, ICRC, FCS."""
TCP_WIRE_OVERHEAD = 20 + 14 + 4
"""Bytes on the wire beside each IP packet: preamble and gap, Ethernet, FCS."""
TCP_HEADERS = 20 + 20 + 12
"""Bytes of each IP packet that are no payload: IPv4, TCP, its time stamps."""
PCIE_GEN5_X4_GBPS = 32 * 4 * 128 / 130
"""Raw rate of PCIe Gen5 x4: 32 GT/s a lane, four lanes, 128b/130b encoding."""
TLP_OVERHEAD = 20
TLP_PAYLOAD = 128
LARGEST_TLP_PAYLOAD = 512
RAIL_BOTH_WAYS_GBPS = 213.0
"""Healthy rail, both ways at once (ring of four, ib_write_bw -b); the field's bar for health is 190."""
RAIL_BOTH_WAYS_BAR_GBPS = 190.0


def rdma_mtu(mtu: int) -> int:
    """Return the RoCE MTU (bytes) that a netdev MTU (bytes, 1280 or more) allows: the largest step that fits beside the headers."""
    return max(step for step in RDMA_MTUS if step == RDMA_MTUS[0] or step <= mtu - ROCE_HEADERS)


def wire_efficiency(payload: int) -> float:
    """Return the share of a link's rate that carries RDMA payload, for a RoCE MTU in bytes."""
    return payload / (payload + WIRE_OVERHEAD)


def tcp_efficiency(mtu: int) -> float:
    """Return the share of a link's rate that carries TCP payload, for a netdev MTU in bytes."""
    return (mtu - TCP_HEADERS) / (mtu + TCP_WIRE_OVERHEAD)


def pcie_gbps(tlp_payload: int = TLP_PAYLOAD) -> float:
    """Return what one rail's PCIe Gen5 x4 link carries, Gb/s, for a payload a TLP (bytes)."""
    return PCIE_GEN5_X4_GBPS * tlp_payload / (tlp_payload + TLP_OVERHEAD)


@dataclass(frozen=True)
class ExpectedRates:
    """Expected rates of a cluster; every query takes the number of tests that run at once in the whole cluster."""

    wire_gbps: float
    rail: Rates
    rail_both_ways: Rates
    tcp_wire_gbps: float

    def rail_gbps(self, at_once: int) -> float:
        """Return the rate of one rail of a cable, alone on its cable, one way."""
        return min(_at(self.rail, at_once), self.wire_gbps)

    def share_gbps(self, at_once: int) -> float:
        """Return the rate of a rail whose twin runs the same way over the same cable."""
        return min(_at(self.rail, at_once), self.wire_gbps / 2)

    def cable_gbps(self, at_once: int) -> float:
        """Return the rate of a cable with both rails, one way: the sum of two shares."""
        return 2 * self.share_gbps(at_once)

    def rail_bidirectional_gbps(self, at_once: int) -> float:
        """Return the sum of both ways of one rail, alone on its cable."""
        return min(_at(self.rail_both_ways, at_once), 2 * self.wire_gbps)

    def tcp_gbps(self, at_once: int, with_twin: bool) -> float:
        """Return the rate of TCP on a rail, one way: as RDMA, but for the larger frames' smaller overhead on the wire."""
        return min(_at(self.rail, at_once), self.tcp_wire_gbps / (2 if with_twin else 1))


def _at(rates: Rates, at_once: int) -> float:
    """Return the rate for a number of tests at once: that of the nearest larger key, else of the largest."""
    return next((rate for key, rate in rates if key >= at_once), rates[-1][1])


def rate_at(table: Mapping[str, float], at_once: int) -> float:
    """Return the rate for a number of tests at once out of a table of the plan's ``expected``."""
    return _at(tuple(sorted((int(key), float(rate)) for key, rate in table.items())), at_once)


def expected_rates(settings: Settings) -> ExpectedRates:
    """Return the expected rates that the settings mean."""
    wire = settings.link_gbps * wire_efficiency(rdma_mtu(settings.mtu))
    rail = settings.rail_gbps if settings.rail_gbps is not None else ((1, pcie_gbps()),)
    if settings.rail_bidirectional_gbps is not None:
        both = settings.rail_bidirectional_gbps
    elif settings.rail_gbps is not None:
        both = tuple((key, 2 * rate) for key, rate in settings.rail_gbps)
    else:
        both = ((1, RAIL_BOTH_WAYS_GBPS),)
    return ExpectedRates(wire_gbps=wire, rail=rail, rail_both_ways=both, tcp_wire_gbps=settings.link_gbps * tcp_efficiency(settings.mtu))


def rates_document(settings: Settings) -> dict[str, object]:
    """Return the plan's ``expected`` part: tables by the number of tests at once, ceilings, and where the numbers come from."""
    rates = expected_rates(settings)
    payload = rdma_mtu(settings.mtu)
    keys = sorted({key for key, _rate in rates.rail} | {key for key, _rate in rates.rail_both_ways})
    ceiling = max(pcie_gbps(LARGEST_TLP_PAYLOAD), rates.rail[0][1])
    return {
        "rail_gbps": {str(key): rounded(rates.rail_gbps(key)) for key in keys},
        "cable_gbps": {str(key): rounded(rates.cable_gbps(key)) for key in keys},
        "rail_bidirectional_gbps": {str(key): rounded(rates.rail_bidirectional_gbps(key)) for key in keys},
        "ceiling_gbps": {
            "rail": rounded(min(ceiling, rates.wire_gbps)),
            "cable": rounded(min(2 * ceiling, rates.wire_gbps)),
            "rail_bidirectional": rounded(min(2 * ceiling, 2 * rates.wire_gbps)),
        },
        "formula": _formula(settings, payload, rates),
    }


def rounded(rate: float) -> float:
    """Return a rate to 0.1 Gb/s, or to three digits below 10 Gb/s (emulated fabrics)."""
    return round(rate, 1) if rate >= 10 else round(rate, 3)


def _formula(settings: Settings, payload: int, rates: ExpectedRates) -> str:
    wire = (
        f"cable: link {settings.link_gbps:g} Gb/s x {payload}/({payload}+{WIRE_OVERHEAD}) (RoCE v2 frame, RDMA MTU {payload} at MTU {settings.mtu}) "
        f"= {rates.wire_gbps:.1f} Gb/s; a rail's share while both run is at most half of it"
    )
    if settings.rail_gbps is None:
        rail = (
            f"rail alone: PCIe Gen5 x4 = 32 GT/s x 4 x 128/130 = {PCIE_GEN5_X4_GBPS:.1f} Gb/s x {TLP_PAYLOAD}/({TLP_PAYLOAD}+{TLP_OVERHEAD}) (TLP framing) "
            f"= {pcie_gbps():.1f} Gb/s (field records: 105 to 112), at most the cable"
        )
    else:
        rail = "rail alone: fabric_rail_gbps, at most the cable"
    if settings.rail_bidirectional_gbps is not None:
        both = "both ways at once: fabric_rail_bidirectional_gbps"
    elif settings.rail_gbps is not None:
        both = "both ways at once: 2 x fabric_rail_gbps"
    else:
        both = (
            f"both ways at once: {RAIL_BOTH_WAYS_GBPS:g} Gb/s on a healthy rail (field record; the bar is {RAIL_BOTH_WAYS_BAR_GBPS:g}, "
            "a degraded cable gave 119 and 26)"
        )
    return f"{wire}; {rail}; {both}, at most twice the cable"
