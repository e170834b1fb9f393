# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a process of ours listens on, or is connected at, a TCP port: read from /proc, never by connecting.

A perftest server takes exactly one TCP connection: a probe that connects would use it up.
"""

from __future__ import annotations

import os
import pathlib

#: State column of /proc/net/tcp (include/net/tcp_states.h).
ESTABLISHED = "01"
LISTEN = "0A"


def listens(pid: int, port: int, proc: pathlib.Path = pathlib.Path("/proc")) -> bool:
    """Tell whether process ``pid`` has a listening socket on TCP ``port``."""
    return bool(_inodes_at(port, LISTEN, proc) & _inodes_of(pid, proc))


def connected(pid: int, port: int, proc: pathlib.Path = pathlib.Path("/proc")) -> bool:
    """Tell whether process ``pid`` has an accepted connection on its local TCP ``port``."""
    return bool(_inodes_at(port, ESTABLISHED, proc) & _inodes_of(pid, proc))


def table_inodes(text: str, port: int, state: str) -> set[str]:
    """Return the socket inodes of the rows of a /proc/net/tcp text with that local port and state."""
    found = set()
    for line in text.splitlines()[1:]:
        columns = line.split()
        if len(columns) > 9 and columns[3] == state and columns[1].rpartition(":")[2] == f"{port:04X}":
            found.add(columns[9])
    return found


def _inodes_at(port: int, state: str, proc: pathlib.Path) -> set[str]:
    found: set[str] = set()
    for name in ("tcp", "tcp6"):
        try:
            text = (proc / "net" / name).read_text(encoding="ascii", errors="replace")
        except OSError:
            continue  # no IPv6 in this kernel
        found |= table_inodes(text, port, state)
    return found


def _inodes_of(pid: int, proc: pathlib.Path) -> set[str]:
    found = set()
    folder = proc / str(pid) / "fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return found  # it has ended
    for name in names:
        try:
            target = os.readlink(folder / name)
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[len("socket:["):-1])
    return found
