# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the user of ``explain`` knows about the cluster beyond what stands in the files, and the rates that follow from it."""

from __future__ import annotations

import dataclasses
import re

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rates import LARGEST_TLP_PAYLOAD, pcie_gbps, wire_efficiency

RDMA_DEVICE = re.compile(r"roce(?P<domain>P2)?p1s0f(?P<port>[01])$", re.ASCII)
INTERFACE = re.compile(r"en(?P<domain>P2)?p1s0f(?P<port>[01])np[01]$", re.ASCII)
_PLAIN_RAIL = re.compile(r"(?P<kind>en|roce)p1s0f(?P<port>[01])(?P<tail>(?:np[01])?)$", re.ASCII)
_OTHER_RAIL = re.compile(r"(?P<kind>en|roce)P2p1s0f(?P<port>[01])(?P<tail>(?:np[01])?)$", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Context:
    """What is expected. ``topology`` "" is not known; ``ports`` () is not declared; ``rail_gbps`` None follows from PCIe."""

    topology: str = ""
    ports: tuple[int, ...] = ()
    rail_gbps: float | None = None
    link_gbps: float = 200.0
    network: str = "IB"

    @property
    def many_cables(self) -> bool:
        """Tell whether a node has cables to different nodes."""
        return self.topology in ("mesh", "ring")

    @property
    def expected_rail_gbps(self) -> float:
        """Return what a rail alone delivers one way, Gb/s (rates.py has the formula)."""
        return round(min(self.rail_gbps or pcie_gbps(), self.link_gbps * wire_efficiency(4096)), 3)

    @property
    def rail_ceiling_gbps(self) -> float:
        """Return what no rail can exceed one way, Gb/s."""
        return min(max(pcie_gbps(LARGEST_TLP_PAYLOAD), self.rail_gbps or 0.0), self.link_gbps * wire_efficiency(4096))

    @property
    def cable_gbytes_per_s(self) -> float:
        """Return what a cable with both rails carries one way, GB/s: the wire's share of payload, or two rails if that is less."""
        wire = self.link_gbps * wire_efficiency(4096)
        return (min(2 * self.rail_gbps, wire) if self.rail_gbps else wire) / 8


def twin(name: str) -> str | None:
    """Return the other device or interface of the same port, None for a name that is none of a Spark's fabric."""
    if match := _PLAIN_RAIL.match(name):
        return f"{match['kind']}P2p1s0f{match['port']}{match['tail']}"
    if match := _OTHER_RAIL.match(name):
        return f"{match['kind']}p1s0f{match['port']}{match['tail']}"
    return None


def port_of(name: str) -> int | None:
    """Return the port of a fabric device or interface, None for any other name."""
    match = RDMA_DEVICE.match(name) or INTERFACE.match(name)
    return int(match["port"]) if match else None


def is_fabric_interface(name: str) -> bool:
    """Tell whether a network interface belongs to the fabric, by its name."""
    return INTERFACE.match(name) is not None
