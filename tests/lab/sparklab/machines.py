# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The virtual machines: start, stop, carrier, snapshots."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import pathlib
import shutil
import subprocess
from collections.abc import Callable, Iterable
from typing import TypeVar

from . import agent, devices, faults, host, namespace, processes, qmp
from .errors import LabError
from .paths import images_dir, marks_dir, run_dir, snapshots_dir, socket_dir
from .state import State
from .wiring import Wiring

SNAPSHOT, MARK = "golden", "mark"
Result = TypeVar("Result")


def in_parallel(work: Callable[[int], Result], numbers: Iterable[int]) -> dict[int, Result]:
    """Do the same with several machines at once; the first error is raised when all have ended."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
        waiting = {number: pool.submit(work, number) for number in numbers}
    return {number: future.result() for number, future in waiting.items()}


def socket_path(number: int, kind: str) -> str:
    """Return the path of a machine's socket: ``monitor``, ``agent`` or ``console``."""
    return str(socket_dir() / f"{number}.{kind}")


@dataclasses.dataclass(frozen=True)
class Moment:
    """What machines come back to: a snapshot's name, and the folder of disks that have it."""

    snapshot: str
    folder: pathlib.Path


def moment(state: State) -> Moment:
    """Return the moment that machines of a running lab come back to."""
    return Moment(MARK, marks_dir()) if state.marked else Moment(SNAPSHOT, snapshots_dir() / state.snapshots)


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


def start_from_snapshot(state: State, numbers: Iterable[int], network: faults.Network) -> None:
    """Start machines from copies of their snapshots, with the right clock and carriers."""
    back = moment(state)

    def work(number: int) -> None:
        name = devices.node_name(number)
        disk = disks_dir() / f"{name}.qcow2"
        if not (back.folder / f"{name}.qcow2").exists():
            raise LabError(f"the snapshot of {name} is gone (was the image built anew?); lab up starts afresh")
        # That disk itself is never written: a killed machine cannot spoil it.
        copy(back.folder / f"{name}.qcow2", disk)
        start(state, number, disk, back.snapshot)
        with monitor(number, patience=60) as line:
            set_links(line, number, network)
        agent.set_clock(name, socket_path(number, "agent"), patience=60)

    in_parallel(work, numbers)


def copy(disk: pathlib.Path, to: pathlib.Path) -> None:
    """Copy a disk, without its holes."""
    host.output(["cp", "--reflink=auto", "--sparse=always", str(disk), str(to)])


def mark(number: int) -> None:
    """Make a snapshot of a running machine, and keep a copy of the disk that has it for when the machine is killed.

    Raises:
        LabError: it does not run.
    """
    name = devices.node_name(number)
    if pid_of(number) is None:
        raise LabError(f"{name} is dead; lab fault clear starts it again")
    with monitor(number) as line:
        line.execute("stop")
        try:
            line.human(f"savevm {MARK}")
            copy(disks_dir() / f"{name}.qcow2", marks_dir() / f"{name}.qcow2")
        finally:
            line.execute("cont")


def reload(number: int, snapshot: str, network: faults.Network) -> None:
    """Bring a running machine back to a snapshot."""
    with monitor(number) as line:
        for card in all_cards():
            line.set_link(card, True)
        line.human(f"loadvm {snapshot}")
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
    for name in ("disks", "marks"):
        shutil.rmtree(run_dir() / name, ignore_errors=True)
    for path in socket_dir().iterdir():
        if path.suffix in (".monitor", ".agent", ".console"):
            path.unlink(missing_ok=True)
