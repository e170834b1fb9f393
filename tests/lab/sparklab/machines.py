# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The virtual machines: start, stop, carrier, snapshots."""

from __future__ import annotations

import concurrent.futures
import contextlib
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Iterable
from typing import TypeVar

from . import agent, devices, faults, host, namespace, processes, qmp
from .errors import LabError
from .paths import images_dir, run_dir, socket_dir
from .state import State
from .wiring import Wiring

SNAPSHOT = "golden"
Result = TypeVar("Result")


def in_parallel(work: Callable[[int], Result], numbers: Iterable[int]) -> dict[int, Result]:
    """Do the same with several machines at once; the first error is raised when all have ended."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
        waiting = {number: pool.submit(work, number) for number in numbers}
    return {number: future.result() for number, future in waiting.items()}


def socket_path(number: int, kind: str) -> str:
    """Return the path of a machine's socket: ``monitor``, ``agent`` or ``console``."""
    return str(socket_dir() / f"{number}.{kind}")


def disks_dir() -> pathlib.Path:
    """Return the folder of the running machines' disks (as deep as snapshots are: disks name their base by relative path)."""
    path = run_dir() / "disks"
    path.mkdir(exist_ok=True)
    return path


def files(number: int, image: str, disk: pathlib.Path) -> devices.Files:
    """Return all paths of a machine."""
    folder = images_dir() / image
    return devices.Files(
        kernel=str(folder / "vmlinuz"),
        initrd=str(folder / "initrd.cpio"),
        disk=str(disk),
        monitor=socket_path(number, "monitor"),
        agent=socket_path(number, "agent"),
        console=socket_path(number, "console"),
        console_log=str(run_dir() / f"{devices.node_name(number)}.console.log"),
    )


def log_path(number: int) -> pathlib.Path:
    """Return where qemu's own words go."""
    return run_dir() / f"{devices.node_name(number)}.qemu.log"


def pid_of(number: int) -> int | None:
    """Return the process of a running machine, asked from the kernel by its monitor's socket."""
    pid = qmp.listener_pid(socket_path(number, "monitor"))
    if pid is None or f"sparklab-{number}" not in " ".join(processes.command_words(pid)):
        return None
    return pid


def start(state: State, number: int, disk: pathlib.Path, snapshot: str | None) -> None:
    """Start a machine and return at once.

    Args:
        disk: its disk, which it changes.
        snapshot: go on from there; None boots.
    """
    for kind in ("monitor", "agent", "console"):
        pathlib.Path(socket_path(number, kind)).unlink(missing_ok=True)
    command = devices.command_line(number, state.accelerator, files(number, state.image, disk), snapshot)
    with log_path(number).open("wb") as log:
        process = subprocess.Popen(
            [*namespace.enter_command(state.holder, with_processes=True), *command],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=str(run_dir()),
        )
    process.returncode = 0  # it outlives this command; its process namespace ends it


def monitor(number: int, patience: float = 10) -> qmp.Monitor:
    """Open a machine's monitor.

    Raises:
        LabError: it does not answer; the text has qemu's last words.
    """
    try:
        return qmp.Monitor(devices.node_name(number), socket_path(number, "monitor"), patience)
    except LabError as error:
        words = ""
        with contextlib.suppress(OSError):
            words = log_path(number).read_text(encoding="utf-8", errors="replace").strip()[-500:]
        raise LabError(f"{error}; qemu said: {words or 'nothing'}") from error


def all_cards() -> list[str]:
    """Return qemu's ids of the four fabric cards."""
    return [devices.nic(port, rail) for port in devices.PORTS for rail in devices.RAILS]


def set_links(line: qmp.Monitor, number: int, network: faults.Network) -> None:
    """Give each card of a machine the carrier that it should have."""
    for card in all_cards():
        line.set_link(card, (number, card) not in network.unplugged)


def apply_links(wiring: Wiring, network: faults.Network) -> None:
    """Give all cards of all living machines the carrier that they should have."""

    def work(number: int) -> None:
        if pid_of(number) is not None:
            with monitor(number) as line:
                set_links(line, number, network)

    in_parallel(work, wiring.numbers)


def start_from_snapshot(state: State, golden: pathlib.Path, numbers: Iterable[int], network: faults.Network) -> None:
    """Start machines from copies of their snapshots, with the right clock and carriers."""

    def work(number: int) -> None:
        name = devices.node_name(number)
        disk = disks_dir() / f"{name}.qcow2"
        if not (golden / f"{name}.qcow2").exists():
            raise LabError(f"the snapshot of {name} is gone (was the image built anew?); lab up starts afresh")
        # The golden disk itself is never written: a killed machine cannot spoil it.
        host.output(["cp", "--reflink=auto", "--sparse=always", str(golden / f"{name}.qcow2"), str(disk)])
        start(state, number, disk, SNAPSHOT)
        with monitor(number, patience=60) as line:
            set_links(line, number, network)
        agent.set_clock(name, socket_path(number, "agent"), patience=60)

    in_parallel(work, numbers)


def reload(number: int, network: faults.Network) -> None:
    """Bring a running machine back to its snapshot."""
    with monitor(number) as line:
        for card in all_cards():
            line.set_link(card, True)
        line.human(f"loadvm {SNAPSHOT}")
        set_links(line, number, network)
    agent.set_clock(devices.node_name(number), socket_path(number, "agent"))


def kill(number: int) -> None:
    """End a machine as a power cut does."""
    pid = pid_of(number)
    if pid is not None:
        processes.kill_and_wait([pid])
    (disks_dir() / f"{devices.node_name(number)}.qcow2").unlink(missing_ok=True)


def remove_files() -> None:
    """Remove what stopped machines leave."""
    shutil.rmtree(run_dir() / "disks", ignore_errors=True)
    for path in socket_dir().iterdir():
        if path.suffix in (".monitor", ".agent", ".console"):
            path.unlink(missing_ok=True)
