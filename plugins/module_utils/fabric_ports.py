# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which port and rail of a Spark a network interface is.

A cage (port) shows as two interfaces, its twins: one on PCIe domain 0000 (rail a), one on domain 0002 (rail b). The driver tells the
port (``phys_port_name``: p0, p1), the PCI address tells the domain. Where either is silent (virtio has no port name, and
emulated machines have one PCI domain) the name tells, since systemd makes it of the same two.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils import cabling_list, sysfs
from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree

PORT_NAME = re.compile(r"p([01])$", re.ASCII)
# Linux driver of the ConnectX-7; only its functions are ports by their PCI address.
DRIVER = "mlx5_core"
RAIL_OF_DOMAIN = {"0000": "a", "0002": "b"}


def place(name: str, phys_port_name: str | None, pci_address: str | None, driver: str | None) -> tuple[int, str] | None:
    """Return (port, rail) of an interface, or ``None`` for one that is no fabric interface.

    >>> place("enP2p1s0f1np1", "p1", "0002:01:00.1", "mlx5_core")
    (1, 'b')
    """
    by_name = cabling_list.place(name)
    told = PORT_NAME.match(phys_port_name or "")
    port = int(told.group(1)) if told else by_name[0] if by_name else None
    domain = (pci_address or "").partition(":")[0] if driver == DRIVER else ""
    rail = RAIL_OF_DOMAIN.get(domain) or (by_name[1] if by_name else None)
    if port is None or rail is None or (by_name is None and driver != DRIVER):
        return None
    return port, rail


def place_of(tree: Tree, interface: str) -> tuple[int, str] | None:
    """Return (port, rail) of an interface of this host, or ``None``."""
    function = sysfs.pci_directory(tree, interface)
    driver = tree.link_name("sys/class/net", interface, "device", "driver")
    return place(interface, tree.text("sys/class/net", interface, "phys_port_name"), function.name if function else None, driver)


def fabric_interfaces(tree: Tree) -> dict[str, tuple[int, str]]:
    """Return (port, rail) of every fabric interface of this host, by name."""
    found = {name: place_of(tree, name) for name in sysfs.interface_names(tree)}
    return {name: known for name, known in found.items() if known is not None}


def twin(places: t.Mapping[str, tuple[int, str]], interface: str) -> str | None:
    """Return the other interface of the same port, or ``None``."""
    mine = places.get(interface)
    return next((name for name, known in places.items() if mine and name != interface and known[0] == mine[0]), None)
