# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's own network: a network namespace and a process namespace, kept by one holder process.

Nothing of the host's network is touched. The holder is process 1 of the process namespace, and all machines run in it:
when the holder ends, the kernel ends them too, so nothing of a crashed run can stay behind. A plain user gets the same
inside a user namespace.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Sequence

from . import host, processes
from .errors import LabError
from .paths import PROGRAM_DIR, lab_dir

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
HOLD = PROGRAM_DIR / "sparklab" / "hold.py"


def mark() -> list[str]:
    """Return the end of the holder's command line, by which it is recognised."""
    return [str(HOLD), str(lab_dir())]


def find_holders() -> list[int]:
    """Return all holders (and their unshare parents) of this checkout, also forgotten ones."""
    return [pid for pid in processes.all_pids() if processes.command_words(pid)[-2:] == mark()]


def start() -> tuple[int, str]:
    """Make the namespaces and return the holder's pid and start time.

    Raises:
        LabError: this host does not allow it.
    """
    kind = ["--net", "--pid", "--fork", "--kill-child"]
    if not host.is_root():
        kind = ["--user", "--map-root-user", *kind]
    # Isolated (-I): nothing of the user's Python set-up may stand in its way.
    command = ["unshare", *kind, sys.executable, "-I", *mark()]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, text=True, cwd="/"
    ) as parent:
        line = parent.stdout.readline() if parent.stdout else ""
        if line.strip() != "holding":
            words = parent.stderr.read().strip() if parent.stderr else ""
            parent.kill()
            hint = ""
            if not host.is_root():
                hint = (
                    "; plain users need unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1,"
                    " on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0), else run as root"
                )
            raise LabError(f"cannot make a network namespace: {words or 'no answer'}{hint}")
        for pid in processes.all_pids():
            fields = processes.stat_fields(pid)
            if fields and int(fields[1]) == parent.pid:
                started = processes.start_time(pid)
                if started:
                    parent.returncode = 0  # it lives on by itself: nothing to wait for
                    return pid, started
        parent.kill()
    raise LabError("the holder of the network namespace ended at once")


def stop() -> None:
    """End every holder of this checkout and, by that, all of its machines."""
    holders = find_holders()
    inside = [pid for holder in holders for pid in members(holder)]
    processes.kill_and_wait(holders)
    until = time.monotonic() + 10
    while time.monotonic() < until and any(processes.stat_fields(pid) is not None for pid in inside):
        time.sleep(0.02)


def members(holder: int) -> list[int]:
    """Return the processes of a holder's process namespace."""
    try:
        wanted = os.readlink(f"/proc/{holder}/ns/pid_for_children")
    except OSError:
        return []
    found = []
    for pid in processes.all_pids():
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") == wanted:
                found.append(pid)
        except OSError:
            continue
    return found


def enter_command(holder: int, with_processes: bool = False) -> list[str]:
    """Return the beginning of a command that runs inside."""
    words = ["nsenter", "--target", str(holder), "--net"]
    if with_processes:
        words.append("--pid")
    if not host.is_root():
        words += ["--user", "--preserve-credentials"]
    return [*words, "--"]


def run_inside(holder: int, arguments: Sequence[str], text: str | None = None, timeout: float = 60) -> str:
    """Run a program inside and return what it printed."""
    return host.output([*enter_command(holder), *arguments], timeout=timeout, text=text)


def enter(holder: int) -> None:
    """Move this (single-threaded) process into the network.

    Raises:
        LabError: not allowed, or the holder is gone.
    """
    library = ctypes.CDLL(None, use_errno=True)
    kinds = [("net", CLONE_NEWNET)] if host.is_root() else [("user", CLONE_NEWUSER), ("net", CLONE_NEWNET)]
    for name, flag in kinds:
        try:
            handle = os.open(pathlib.Path(f"/proc/{holder}/ns/{name}"), os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise LabError(f"the lab's network is not there ({error.strerror}); start it with: lab up") from error
        if library.setns(handle, flag):
            raise LabError(f"cannot enter the lab's {name} namespace: {os.strerror(ctypes.get_errno())}")
        os.close(handle)
