# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A measuring tool as a process of ours: own process group, output in files, ended with all its children."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence

#: More output than this is cut: no perftest run prints as much.
OUTPUT_LIMIT = 1024 * 1024


class ToolProcess:
    """One running tool.

    Output goes to files, not to pipes: a tool that is ended in mid-test leaves there what it had written,
    stdout and stderr apart, and a full pipe can stop nobody.
    """

    def __init__(self, command: Sequence[str], folder: pathlib.Path, name: str, added: Mapping[str, str] | None = None) -> None:
        """Start ``command``, with ``added`` in its environment; raises OSError when it cannot be started."""
        self.command = list(command)
        self._out, self._err = folder / f"{name}.out", folder / f"{name}.err"
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self._process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True, cwd="/",
                env={**os.environ, "LC_ALL": "C", **(added or {})})
        self.started = time.monotonic()

    @property
    def pid(self) -> int:
        """Process id, which is the process group's too."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Exit status; negative for a signal; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """Wait for its end, at most ``seconds``; return the exit status or None."""
        try:
            return self._process.wait(timeout=max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return None

    def end(self, grace: float = 1.0) -> None:
        """End the process and all of its group: ask first, then kill. Touches no other process."""
        if self.exit_code is None:
            self._signal(signal.SIGTERM)
            if self.wait(grace) is None:
                self._signal(signal.SIGKILL)
                self.wait(5.0)
        self._signal(signal.SIGKILL)  # children that outlived it; the group is gone when there are none

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def output(self) -> tuple[str, str]:
        """Return stdout and stderr so far."""
        return _read(self._out), _read(self._err)


def _read(path: pathlib.Path) -> str:
    try:
        with open(path, "rb") as stream:
            return stream.read(OUTPUT_LIMIT).decode("utf-8", "replace")
    except OSError:
        return ""


def process_identity(pid: int, proc: pathlib.Path = pathlib.Path("/proc")) -> str | None:
    """Return the start time of a process in clock ticks since boot, None when there is no such process.

    Process id and start time together name a process for good: ids are used again.
    """
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    columns = text.rpartition(")")[2].split()
    return columns[19] if len(columns) > 19 and columns[0] not in ("Z", "X") else None
