# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Names, addresses and qemu's command line of a virtual Spark."""

from __future__ import annotations

from sparklab import devices

FILES = devices.Files("K", "I", "D", "M", "A", "C", "L")


def test_names_are_those_of_a_spark() -> None:
    assert devices.INTERFACES[0, "b"] == "enP2p1s0f0np0"
    assert devices.RDMA_DEVICES[1, "b"] == "roceP2p1s0f1"
    assert devices.address(3) == "10.77.0.13"


def test_twins_sit_in_two_pci_devices_and_ports_are_their_functions() -> None:
    text = " ".join(devices.command_line(2, "tcg", FILES))
    assert "id=p0a,netdev=n-p0a,mac=52:54:00:02:01:00,bus=rp1,addr=0x0.0,multifunction=on,speed=200000" in text
    assert "id=p1a,netdev=n-p1a,mac=52:54:00:02:01:01,bus=rp1,addr=0x0.1,speed=200000" in text
    assert "id=p1b,netdev=n-p1b,mac=52:54:00:02:02:01,bus=rp2,addr=0x0.1" in text
    assert "ifname=s2p1b" in text and "lab.n=2" in text


def test_a_snapshot_changes_nothing_but_the_start() -> None:
    cold = devices.command_line(1, "kvm", FILES)
    assert devices.command_line(1, "kvm", FILES, "golden") == [*cold, "-loadvm", "golden"]


def test_no_mac_address_is_used_twice() -> None:
    macs = [devices.mac(node, slot, function) for node in range(1, 9) for slot in range(3) for function in range(2)]
    assert len(set(macs)) == len(macs)
