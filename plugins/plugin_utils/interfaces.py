# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names of a DGX Spark's fabric interfaces: two cages (ports), each with twins on two PCIe domains (rails).

Port 0 is the cage next to the RJ45 socket, port 1 the outer one. The firmware of every GB10 machine numbers them alike, so the
names follow from port and rail alone.
"""

from __future__ import annotations

PORTS = (0, 1)
RAILS = ("a", "b")
PORT_PLACES = {0: "next to the RJ45 socket", 1: "outer cage"}
MANAGEMENT_INTERFACE = "enP7s7"
"""The Spark's 10 GbE RJ45 socket; what the plan assumes where the inventory names no management interface."""


def interface_name(port: int, rail: str) -> str:
    """Return the network interface behind a port on a rail."""
    return f"enp1s0f{port}np{port}" if rail == "a" else f"enP2p1s0f{port}np{port}"


def rdma_device(port: int, rail: str) -> str:
    """Return the RDMA device behind a port on a rail."""
    return f"rocep1s0f{port}" if rail == "a" else f"roceP2p1s0f{port}"


def pci_address(port: int, rail: str) -> str:
    """Return the PCI function behind a port on a rail."""
    return f"0000:01:00.{port}" if rail == "a" else f"0002:01:00.{port}"


FABRIC_INTERFACES = tuple(interface_name(port, rail) for port in PORTS for rail in RAILS)
