# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who else uses the RDMA devices: a busy cluster is not measured.

``rdma -j res show qp`` lists queue pairs with process id and command. The kernel's own (one for each device
with nothing running) have no process id, so the count alone would say nothing.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Collection


@dataclasses.dataclass(frozen=True, slots=True)
class RdmaUser:
    """A process that holds queue pairs on a device."""

    pid: int
    command: str
    device: str


def parse_users(text: str) -> tuple[RdmaUser, ...]:
    """Read ``rdma -j res show qp``; anything that is not its JSON holds no users."""
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    found = set()
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict):
            continue
        pid, command, device = row.get("pid"), row.get("comm"), row.get("ifname")
        if isinstance(pid, int) and pid > 0 and isinstance(device, str):
            found.add(RdmaUser(pid, command if isinstance(command, str) else "?", device))
    return tuple(sorted(found, key=lambda user: (user.device, user.pid)))


def others(users: Collection[RdmaUser], devices: Collection[str], own: Collection[int]) -> tuple[RdmaUser, ...]:
    """Return the users of ``devices`` that are not processes of ``own``."""
    return tuple(user for user in users if user.device in devices and user.pid not in own)


def describe(users: Collection[RdmaUser], proc: pathlib.Path = pathlib.Path("/proc")) -> str:
    """Name the processes, with the command line where it can be read: "python3 (pid 4711: vllm serve ...) on rocep1s0f0"."""
    devices: dict[tuple[int, str], list[str]] = {}
    for user in users:
        devices.setdefault((user.pid, user.command), []).append(user.device)
    words = []
    for (pid, command), names in sorted(devices.items()):
        try:
            line = (proc / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()[:60]
        except OSError:
            line = ""
        words.append(f"{command} (pid {pid}{': ' + line if line else ''}) on {', '.join(names)}")
    return "; ".join(words)
