# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The network chip as the facts show it: functions that are missing, errors on PCIe and on the cable, what the kernel said. For the rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: A ConnectX-7 of a Spark shows two functions (ports) on each of two PCIe domains.
FUNCTIONS = 4
#: Counters that only a bad cable, plug or port moves (mlx5 ethtool counters, and the kernel's own).
CABLE_COUNTERS = ("rx_crc_errors", "rx_crc_errors_phy", "rx_symbol_err_phy", "tx_errors_phy")
#: Kernel events that mean trouble with the chip, and in words.
CHIP_EVENTS = {
    "health": "the network chip reported a fault", "command_timeout": "the network chip did not answer its driver", "aer_fatal": "fatal PCIe error",
    "aer_nonfatal": "PCIe error that was not corrected", "module_error": "error of a plug", "too_hot": "too hot",
}
#: Kernel release and option of the defect that keeps RDMA from pinning memory: its hand-over areas count as CMA.
KHO_KERNEL = "7.0.0-1019"


def functions_text(facts: Mapping[str, Any]) -> str:
    """Say how many of the chip's PCIe functions there are, and whether power saving may have taken them."""
    functions = facts.get("pci_functions")
    if functions is None:
        return "the PCIe functions of the network chip are not known"
    text = f"{len(functions)} of {FUNCTIONS} PCIe functions of the network chip are there"
    hotplug = facts.get("hotplug") or {}
    if hotplug.get("enabled"):
        text += "; hot-plug power saving is on, which removes them where no cable is in"
    return text


def cable_errors(live: Mapping[str, Any]) -> list[str]:
    """Return the counters of a bad cable that are not zero, in words; they count since the driver was loaded."""
    counters = live.get("counters") or {}
    return [f"{name} {counters[name]}" for name in CABLE_COUNTERS if counters.get(name)]


def pcie_errors(facts: Mapping[str, Any], pci_address: str | None) -> list[str] | None:
    """Return the PCIe errors of a function that were not corrected, in words; ``None`` where the kernel keeps no count."""
    errors = ((facts.get("pci_functions") or {}).get(pci_address or "") or {}).get("errors") or {}
    if errors.get("fatal") is None and errors.get("nonfatal") is None:
        return None
    return [f"{errors[kind]} {kind}" for kind in ("fatal", "nonfatal") if errors.get(kind)]


def kernel_troubles(facts: Mapping[str, Any]) -> list[str]:
    """Return what the kernel said since boot that means trouble with the chip, in words."""
    texts = []
    for event in facts.get("kernel_events") or []:
        if event.get("name") in CHIP_EVENTS:
            where = f" at {event['function']}" if event.get("function") else ""
            texts.append(f"{CHIP_EVENTS[event['name']]}{where}, {event.get('count')} time{'' if event.get('count') == 1 else 's'}")
    return texts


def kho_risk(facts: Mapping[str, Any]) -> bool | None:
    """Tell whether the kernel is the one that cannot pin RDMA memory and runs without ``kho=off``; ``None`` without a kernel release."""
    kernel = facts.get("kernel")
    if not kernel:
        return None
    return str(kernel).startswith(KHO_KERNEL) and (facts.get("kernel_options") or {}).get("kho") != "off"


def wrong_port_name(live: Mapping[str, Any], planned_port: int) -> str:
    """Return the port name that the driver gives an interface when it is another port than the plan's; empty when all is well or nothing is told."""
    told = live.get("phys_port_name")
    return str(told) if told in ("p0", "p1") and told != f"p{planned_port}" else ""
