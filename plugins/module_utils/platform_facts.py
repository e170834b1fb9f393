# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read what a Spark is as a machine: product and firmware, network functions on the PCIe bus, hot-plug power saving, kernel options.

With hot-plug on and no cable in, the ConnectX-7 is powered off and its PCI functions are gone: a missing interface means "no cable"
before it means "broken". Nothing here starts a tool of the firmware.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils import sysfs
from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree

# PCI vendor of the ConnectX-7 (pci.ids: Mellanox Technologies); class 02 is a network controller.
VENDOR = "0x15b3"
NETWORK_CLASS = "0x02"
HOTPLUG = "sys/devices/platform/MTKP0001:00/pcie_hotplug"
# The system's own switch for it; its file being there means on.
HOTPLUG_SWITCH = "etc/nvidia/cx7-hotplug-enabled"
KERNEL_OPTIONS = ("kho", "iommu.passthrough", "pcie_aspm")
AER_FILES = {"correctable": "aer_dev_correctable", "nonfatal": "aer_dev_nonfatal", "fatal": "aer_dev_fatal"}


def read_machine(tree: Tree) -> dict[str, str | None]:
    """Return vendor, product and firmware version, as the firmware says them."""
    base = "sys/class/dmi/id"
    return {"vendor": tree.text(base, "sys_vendor") or None, "product": tree.text(base, "product_name") or None,
            "firmware": tree.text(base, "bios_version") or None, "firmware_date": tree.text(base, "bios_date") or None}


def parse_dgx_release(text: str) -> dict[str, str | None]:
    """Return name and version of the system from ``/etc/dgx-release``; the newest update counts."""
    values = re.findall(r'^(DGX_\w{1,40})="?([^"\n]{0,80})"?$', text, re.MULTILINE | re.ASCII)
    last = dict(values)
    return {"name": last.get("DGX_PRETTY_NAME"), "version": last.get("DGX_OTA_VERSION") or last.get("DGX_SWBUILD_VERSION")}


def parse_nvidia_driver(text: str) -> str | None:
    """Return the GPU driver's version from ``/proc/driver/nvidia/version``."""
    match = re.search(r"Kernel Module(?: for \w{1,20})? +(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)\b", text, re.ASCII)
    return match[1] if match else None


def parse_kernel_options(text: str) -> dict[str, str]:
    """Return those options of the kernel's command line that matter to a fabric."""
    pairs = (word.partition("=") for word in text.split())
    return {name: value for name, _equals, value in pairs if name in KERNEL_OPTIONS}


def parse_aer_total(text: str | None) -> int | None:
    """Return the sum of a PCIe error counter file (its line TOTAL_ERR_…); ``None`` when the kernel keeps none."""
    match = re.search(r"^TOTAL_ERR_\w{1,12} (\d{1,18})$", text or "", re.MULTILINE | re.ASCII)
    return int(match[1]) if match else None


def read_functions(tree: Tree) -> dict[str, dict[str, t.Any]]:
    """Return the network functions of the ConnectX-7 by PCI address, with or without an interface of their own."""
    found = {}
    for address in tree.names("sys/bus/pci/devices"):
        base = ("sys/bus/pci/devices", address)
        if tree.text(*base, "vendor") != VENDOR or not (tree.text(*base, "class") or "").startswith(NETWORK_CLASS):
            continue
        found[address] = {
            "driver": tree.link_name(*base, "driver"),
            "interfaces": tree.names(*base, "net"),
            "pcie": sysfs.pcie(tree.path(*base)),
            "errors": {kind: parse_aer_total(tree.text(*base, name)) for kind, name in AER_FILES.items()},
        }
    return found


def read_hotplug(tree: Tree) -> dict[str, t.Any]:
    """Return whether the driver that powers the ConnectX-7 off is there (``present``) and on (``enabled``), and its state in words."""
    told = tree.text(HOTPLUG, "hotplug_enabled")
    enabled = True if told is None and tree.exists(HOTPLUG_SWITCH) else None if told is None else told.lower() in ("1", "y", "yes", "on", "true", "enabled")
    return {"present": tree.exists(HOTPLUG), "enabled": enabled, "state": (tree.text(HOTPLUG, "debug_state") or "")[:200] or None}
