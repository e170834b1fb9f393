# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node keeps on disk about a running measurement: progress, results, and whose processes are ours.

One folder a run below the state directory (``/run/dgxspark-fabric``), 0700. Files are replaced as a whole, so
a reader never sees half of one. Folders of earlier runs are removed, and what still runs of them is ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import time
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils.tool_process import process_identity

DEFAULT_DIRECTORY = "/run/dgxspark-fabric"
PROGRESS, RESULT, PROCESSES, LOG = "progress.json", "result.json", "processes.json", "job.log"
SCRATCH = "tools"


class StateFolder:
    """The folder of one run."""

    def __init__(self, directory: pathlib.Path, run: str) -> None:
        self.path = directory / run
        self.scratch = self.path / SCRATCH

    def create(self) -> None:
        """Make the folder, the remains of earlier runs gone; raises OSError."""
        directory = self.path.parent
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(directory, 0o700)
        for old in sorted(directory.iterdir()):
            if old.is_dir() and not old.is_symlink():
                end_processes(old)
                shutil.rmtree(old, ignore_errors=True)
        self.path.mkdir(mode=0o700)
        self.scratch.mkdir(mode=0o700)

    def write(self, name: str, document: Any) -> None:
        """Replace a file of the folder by the JSON of ``document``; raises OSError."""
        temporary = self.path / f".{name}.new"
        with open(temporary, "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), 0o600)
            json.dump(document, stream)
        os.replace(temporary, self.path / name)

    def note_processes(self, job: int, tools: list[int]) -> None:
        """Keep which processes belong to the run: the job's own and its tools' (process groups)."""
        known = {str(pid): identity for pid in [job, *tools] if (identity := process_identity(pid)) is not None}
        self.write(PROCESSES, {"job": job, "tools": tools, "started": known})


def own_processes(directory: pathlib.Path = pathlib.Path(DEFAULT_DIRECTORY), proc: pathlib.Path = pathlib.Path("/proc")) -> set[int]:
    """Return what still runs of earlier measurements: the next one ends it, so that it keeps nobody from measuring."""
    found = set()
    for path in directory.glob(f"*/{PROCESSES}"):
        try:
            started = dict(json.loads(path.read_text(encoding="utf-8"))["started"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        found |= {int(pid) for pid, identity in started.items() if pid.isdigit() and process_identity(int(pid), proc) == identity}
    return found


def end_processes(folder: pathlib.Path) -> None:
    """End what still runs of an earlier job: its own process first, then its tools. Touches no process but those."""
    try:
        with open(folder / PROCESSES, encoding="utf-8") as stream:
            document = json.load(stream)
        job, tools, started = int(document["job"]), [int(pid) for pid in document["tools"]], dict(document["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return

    def ours(pid: int) -> bool:
        return pid > 1 and started.get(str(pid)) is not None and process_identity(pid) == started[str(pid)]

    if ours(job):
        with contextlib.suppress(OSError):
            os.kill(job, signal.SIGTERM)
        until = time.monotonic() + 5
        while ours(job) and time.monotonic() < until:
            time.sleep(0.05)
        if ours(job):
            with contextlib.suppress(OSError):
                os.kill(job, signal.SIGKILL)
    for pid in tools:
        if ours(pid):
            with contextlib.suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
