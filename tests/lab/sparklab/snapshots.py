# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Machines booted once: per node number a disk with a snapshot of the whole running machine, and its host key.

One for each number, since MAC address, name and address are inside. A snapshot is only good for the image, the devices
and the qemu that it was made with, so all that is in its folder's name.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import time
from typing import Any

from . import agent, devices, host, machines
from .paths import images_dir, run_dir, snapshots_dir
from .progress import say, step
from .state import State

BOOT_SECONDS = 400
# The last units of a boot end after the agent has started.
SETTLE_SECONDS = 3


def key(image: str, accelerator: str) -> str:
    """Return the name of the folder of snapshots for an image on this host."""
    placeholder = devices.Files("kernel", "initrd", "disk", "monitor", "agent", "console", "log")
    version = host.output(["qemu-system-x86_64", "--version"]).splitlines()[0]
    parts = [image, version, *devices.command_line(1, accelerator, placeholder)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def folder(name: str) -> pathlib.Path:
    """Return the folder of one key's snapshots."""
    path = snapshots_dir() / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def ensure(state: State) -> dict[str, str]:
    """Boot the machines that have no snapshot yet; return all host keys by node name.

    The fabric's taps are in no bridge during this, so no machine has seen another.

    Raises:
        LabError: a machine did not come up.
    """
    place = folder(state.snapshots)
    for old in snapshots_dir().iterdir():
        if old != place:
            shutil.rmtree(old)
    missing = [number for number in state.wiring.numbers if not is_made(place, number)]
    if missing:
        names = ", ".join(devices.node_name(number) for number in missing)
        with step(f"first boot of {names}"):
            # Too many at once on few processors run into systemd's time limits.
            size = max(2, 2 * (os.cpu_count() or 1))
            for first in range(0, len(missing), size):
                boot(state, place, missing[first : first + size])
    return {devices.node_name(number): record(place, number)["host_key"] for number in state.wiring.numbers}


def is_made(place: pathlib.Path, number: int) -> bool:
    """Tell whether a machine's snapshot is there."""
    name = devices.node_name(number)
    return (place / f"{name}.qcow2").exists() and (place / f"{name}.json").exists()


def record(place: pathlib.Path, number: int) -> dict[str, Any]:
    """Return what was noted about a snapshot."""
    return json.loads((place / f"{devices.node_name(number)}.json").read_text(encoding="utf-8"))


def boot(state: State, place: pathlib.Path, numbers: list[int]) -> None:
    """Boot machines, save their snapshots, end them."""

    def begin(number: int) -> None:
        part = place / f"{devices.node_name(number)}.part"
        part.unlink(missing_ok=True)
        base = os.path.relpath(images_dir() / state.image / "base.ext4", place)
        host.output(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", base, str(part)])
        machines.start(state, number, part, None)

    def finish(number: int) -> None:
        name = devices.node_name(number)
        with machines.monitor(number, patience=60):
            pass
        hello = agent.hello(name, machines.socket_path(number, "agent"), BOOT_SECONDS)
        say(f"  {name} is up after {hello.uptime:.1f} s")
        greetings[number] = hello

    def save(number: int) -> None:
        name = devices.node_name(number)
        with machines.monitor(number) as line:
            line.execute("stop")
            line.human(f"savevm {machines.SNAPSHOT}")
            line.execute("quit")
        until = time.monotonic() + 20
        while machines.pid_of(number) is not None and time.monotonic() < until:
            time.sleep(0.02)
        (place / f"{name}.json").write_text(json.dumps({"host_key": greetings[number].host_key}) + "\n", encoding="utf-8")
        os.replace(place / f"{name}.part", place / f"{name}.qcow2")

    greetings: dict[int, agent.Hello] = {}
    machines.in_parallel(begin, numbers)
    machines.in_parallel(finish, numbers)
    time.sleep(SETTLE_SECONDS)
    machines.in_parallel(save, numbers)
    for number in numbers:
        log = run_dir() / f"{devices.node_name(number)}.console.log"
        if log.exists():
            shutil.copyfile(log, place / f"{devices.node_name(number)}.boot.log")
