# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who else uses the RDMA devices: a busy cluster is not measured."""

from __future__ import annotations

import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils import iproute


def foreign_users(text: str, devices: Collection[str], own: Collection[int]) -> list[dict[str, Any]]:
    """Return who holds queue pairs on ``devices``, processes of ``own`` aside.

    ``text`` is what ``rdma -j res show qp`` printed; anything that is not its JSON names no users, so a node
    without that tool is measured.
    """
    try:
        users = iproute.parse_queue_pairs(text)
    except iproute.IprouteError:
        return []
    return [user for user in users if user["device"] in devices and user["pid"] not in own]


def describe(users: Sequence[Mapping[str, Any]], proc: pathlib.Path = pathlib.Path("/proc")) -> str:
    """Name the processes, with the command line where it can be read: "python3 (pid 4711: vllm serve ...) on rocep1s0f0"."""
    devices: dict[tuple[int, str], list[str]] = {}
    for user in users:
        devices.setdefault((user["pid"], user["command"]), []).append(user["device"])
    words = []
    for (pid, command), names in sorted(devices.items()):
        try:
            line = (proc / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()[:60]
        except OSError:
            line = ""
        words.append(f"{command} (pid {pid}{': ' + line if line else ''}) on {', '.join(sorted(names))}")
    return "; ".join(words)
