# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A virtual Spark's devices as pure data: interface names, MAC addresses, taps and qemu's command line."""

from __future__ import annotations

import dataclasses

from .wiring import End

RAILS = ("a", "b")
PORTS = (0, 1)
MANAGEMENT_NETWORK = "10.77.0.0/24"
HOST_ADDRESS = "10.77.0.1"
MEMORY_MB = 768
INTERFACES = {
    (0, "a"): "enp1s0f0np0",
    (1, "a"): "enp1s0f1np1",
    (0, "b"): "enP2p1s0f0np0",
    (1, "b"): "enP2p1s0f1np1",
}
RDMA_DEVICES = {
    (0, "a"): "rocep1s0f0",
    (1, "a"): "rocep1s0f1",
    (0, "b"): "roceP2p1s0f0",
    (1, "b"): "roceP2p1s0f1",
}
MANAGEMENT_INTERFACE = "enP7s7"
# The kernel's own tests, mitigations and messages are most of an emulated boot.
KERNEL_ARGUMENTS = (
    "root=/dev/vda rw console=ttyS0 quiet loglevel=4 systemd.show_status=0 mitigations=off tsc=reliable no_timer_check"
    " cryptomgr.notests random.trust_cpu=on audit=0 selinux=0 apparmor=0 systemd.gpt_auto=0"
)


def node_name(number: int) -> str:
    """Return a node's name."""
    return f"spark{number}"


def address(number: int) -> str:
    """Return a node's management address."""
    return f"10.77.0.{10 + number}"


def nic(port: int, rail: str) -> str:
    """Return qemu's id of a fabric interface."""
    return f"p{port}{rail}"


def tap(number: int, port: int, rail: str) -> str:
    """Return the tap of a fabric interface."""
    return f"s{number}p{port}{rail}"


def management_tap(number: int) -> str:
    """Return the tap of a management interface."""
    return f"m{number}"


def taps_of(end: End) -> tuple[str, ...]:
    """Return the taps of both twins of a port."""
    return tuple(tap(end.node, end.port, rail) for rail in RAILS)


def mac(number: int, slot: int, function: int) -> str:
    """Return the MAC address of a PCI function; slot 0 is management, 1 and 2 are the two halves of the ConnectX-7."""
    return f"52:54:00:{number:02x}:{slot:02x}:{function:02x}"


@dataclasses.dataclass(frozen=True)
class Files:
    """Paths that a machine is started with."""

    kernel: str
    initrd: str
    disk: str
    monitor: str
    agent: str
    console: str
    console_log: str


def command_line(number: int, accelerator: str, files: Files, snapshot: str | None = None) -> list[str]:
    """Build qemu's arguments.

    A snapshot only loads under exactly the same machine and devices, so everything but the paths is fixed by number and
    accelerator. The ids of interfaces (``p0a``…) are what ``set_link`` takes.
    """
    cpu = "host" if accelerator == "kvm" else "max"
    engine = "kvm" if accelerator == "kvm" else "tcg,thread=single,tb-size=256"
    arguments = [
        "qemu-system-x86_64", "-name", f"{node_name(number)},process=sparklab-{number}", "-nodefaults", "-no-user-config",
        "-M", "q35,usb=off,vmport=off,hpet=off,smbus=off,sata=off", "-accel", engine, "-cpu", cpu,
        "-m", str(MEMORY_MB), "-smp", "1", "-display", "none", "-vga", "none", "-no-reboot",
        "-chardev", f"socket,id=console,path={files.console},server=on,wait=off,logfile={files.console_log},logappend=off",
        "-serial", "chardev:console",
        "-chardev", f"socket,id=agent,path={files.agent},server=on,wait=off", "-serial", "chardev:agent",
        "-qmp", f"unix:{files.monitor},server=on,wait=off",
        "-kernel", files.kernel, "-initrd", files.initrd,
        "-append", f"{KERNEL_ARGUMENTS} systemd.hostname={node_name(number)} lab.n={number}",
        "-object", "rng-random,id=random,filename=/dev/urandom",
        "-device", "virtio-rng-pci,rng=random,bus=pcie.0,addr=0x4",
        "-drive", f"file={files.disk},format=qcow2,if=none,id=disk,cache=unsafe",
        "-device", "virtio-blk-pci,drive=disk,bus=pcie.0,addr=0x3",
        "-device", "pcie-root-port,id=rp1,bus=pcie.0,addr=0x5,chassis=1,slot=1,x-speed=16,x-width=4",
        "-device", "pcie-root-port,id=rp2,bus=pcie.0,addr=0x6,chassis=2,slot=2,x-speed=16,x-width=4",
        "-device", "pcie-root-port,id=rp3,bus=pcie.0,addr=0x7,chassis=3,slot=3,x-speed=8,x-width=1",
    ]
    arguments += network_card("m", management_tap(number), mac(number, 0, 0), "bus=rp3,addr=0x0")
    for rail in RAILS:
        bus = RAILS.index(rail) + 1
        for port in PORTS:
            place = f"bus=rp{bus},addr=0x0.{port}" + (",multifunction=on" if port == 0 else "")
            arguments += network_card(
                nic(port, rail), tap(number, port, rail), mac(number, bus, port), f"{place},speed=200000,duplex=full,host_mtu=9216"
            )
    if snapshot:
        arguments += ["-loadvm", snapshot]
    return arguments


def network_card(identity: str, device: str, address_: str, options: str) -> list[str]:
    """Return the two arguments pairs of one virtio card on a tap."""
    return [
        "-netdev", f"tap,id=n-{identity},ifname={device},script=no,downscript=no,vhost=off",
        "-device", f"virtio-net-pci,id={identity},netdev=n-{identity},mac={address_},{options},romfile=",
    ]
