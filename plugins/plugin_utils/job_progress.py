# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Following a job on a node from the controller: the command that looks, and what its answer says. Pure functions."""

from __future__ import annotations

import dataclasses
import json
import shlex
from typing import Any

MARK = "@@fabric@@"
#: What people read for the kinds of tests.
STAGE_NAMES = {
    "directed": "RDMA writes one way",
    "bidirectional": "RDMA writes both ways",
    "write_latency": "latency of writes",
    "send_latency": "latency of sends",
    "read": "RDMA reads",
    "send": "RDMA sends",
    "tcp": "TCP",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """One look at a job: its ``progress`` and its ``result`` so far (None when absent), and whether its process is ``alive``."""

    progress: dict[str, Any] | None
    result: dict[str, Any] | None
    alive: bool

    @property
    def over(self) -> bool:
        """Tell whether the job has ended by itself; its result is complete then."""
        return self.progress is not None and self.progress.get("status") != "running" and self.result is not None


def look_command(folder: str, pid: int, everything: bool = False) -> str:
    """Return the shell command for one look: small while the job runs, with the result once it has ended.

    ``everything`` asks for the result in any case: what a job that died had got so far.
    """
    progress, result = shlex.quote(f"{folder}/progress.json"), shlex.quote(f"{folder}/result.json")
    unless_running = "" if everything else "*'\"status\": \"running\"'*) : ;; "
    return (f"p=$(cat {progress} 2>/dev/null); printf '%s\\n{MARK}\\n' \"$p\"; head -c 2000 /proc/{int(pid)}/stat 2>/dev/null; "
            f"printf '\\n{MARK}\\n'; case \"$p\" in {unless_running}*) cat {result} 2>/dev/null ;; esac; printf '\\n{MARK}\\n'")


def read_look(answer: str, identity: str) -> Look | None:
    """Read the answer of a look; None when it is cut off or not an answer at all."""
    parts = answer.replace("\r\n", "\n").split(f"\n{MARK}\n")
    if len(parts) < 4:
        return None
    columns = parts[1].rpartition(")")[2].split()
    alive = len(columns) > 19 and columns[19] == identity and columns[0] not in ("Z", "X")
    return Look(_document(parts[0]), _document(parts[2]), alive)


def progress_line(progress: dict[str, Any]) -> str:
    """Return "round 2 of 5 (one way, both rails), 6 tests running, about 25 s left"."""
    running = int(progress.get("running") or 0)
    names = [STAGE_NAMES.get(name, name) for name in str(progress.get("what") or "").split(", ") if name]
    what = f" ({', '.join(names)})" if names else ""
    return (f"round {progress.get('round')} of {progress.get('rounds')}{what}, {running} test{'' if running == 1 else 's'} running, "
            f"about {float(progress.get('seconds_left') or 0):.0f} s left")


def next_look(progress: dict[str, Any] | None, poll_seconds: float, everything_shown: bool) -> float:
    """Return the seconds until the next look: a look costs the node's processors, which a load test needs.

    ``everything_shown`` is whether nobody watches: then the end of the job is all that matters.
    """
    if progress is None:
        return min(1.0, poll_seconds)
    left = float(progress.get("seconds_left") or 0)
    wanted = left - 1.0 if everything_shown else min(left - 1.0, poll_seconds)
    return max(1.0, min(wanted, 2 * poll_seconds))


def lost_after(progress: dict[str, Any] | None, patience: float) -> float:
    """Return the seconds for which a node that cannot be reached any more is waited for.

    A job goes on without its connection, so until its expected end there is nothing to miss; ``patience`` comes on
    top. Waiting for the deadline, which allows every round to hang, would hold up everybody for a dead node.
    """
    left = float(progress.get("seconds_left") or 0) if progress is not None else 0.0
    return left + patience


def without_result(run: str, node: str, status: str, message: str, result: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the fact of a node whose job has no complete result; tests that it had finished are kept."""
    tests = [test for test in (result or {}).get("tests", []) if isinstance(test, dict)]
    return {"run": run, "node": node, "status": status, "message": message, "version": (result or {}).get("version"), "tests": tests, "strangers": []}


def _document(text: str) -> dict[str, Any] | None:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None
