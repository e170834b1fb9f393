# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Processes that outlive a command: known by pid and start time, so that a number used again is never taken for ours."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import time
from collections.abc import Iterator


def stat_fields(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat after the name, or None when there is no such process (or only its zombie)."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rsplit(")", 1)[1].split()
    return None if fields[0] in ("Z", "X") else fields


def start_time(pid: int) -> str | None:
    """Return when a process started, in clock ticks since boot, together with the boot's id; None when it is gone."""
    fields = stat_fields(pid)
    if fields is None:
        return None
    return f"{boot_id()}:{fields[19]}"


def boot_id() -> str:
    """Return the id of this boot of the host."""
    return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def alive(pid: int, started: str) -> bool:
    """Tell whether the process that was recorded still runs."""
    return start_time(pid) == started


def command_words(pid: int) -> list[str]:
    """Return a process's arguments, empty when it cannot be read."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:
        return []


def all_pids(any_user: bool = False) -> Iterator[int]:
    """Yield the ids of all processes of this user (of all users for root, or with ``any_user``)."""
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if any_user or os.getuid() in (0, entry.stat().st_uid):
                    yield int(entry.name)


def session_members(session: int, boot: str) -> list[int]:
    """Return the members of a session that was recorded in boot ``boot``.

    A session's id is not given to another process while a member lives, so within one boot a member is proof enough.
    Members may be subordinate users of this one: their user namespace is ours, so they can be killed.
    """
    if boot != boot_id():
        return []
    members = []
    for pid in all_pids(any_user=True):
        fields = stat_fields(pid)
        if fields and int(fields[3]) == session and pid != os.getpid():
            members.append(pid)
    return members


def kill_and_wait(pids: list[int], seconds: float = 10) -> None:
    """Kill processes and wait until they are gone."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + seconds
    while time.monotonic() < until and any(stat_fields(pid) is not None for pid in pids):
        time.sleep(0.02)
