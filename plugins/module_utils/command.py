# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a program of the node under a deadline.

Standard error is kept apart from standard output: netplan warns there and still succeeds (exit status 0).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import typing as t
from dataclasses import dataclass

# sbin is not on the path of every user that sudo serves.
SEARCH_PATH = os.pathsep.join(["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"])

NOT_FOUND = 127
TIMED_OUT = 124


@dataclass(frozen=True)
class Completed:
    """What a program left behind. ``rc`` is 127 when it is not installed, 124 when it ran past its deadline."""

    argv: tuple[str, ...]
    rc: int
    out: str
    err: str

    @property
    def found(self) -> bool:
        """Tell whether the program exists on this node."""
        return self.rc != NOT_FOUND


Runner = t.Callable[..., Completed]


def find_program(name: str) -> str | None:
    """Return the path of program ``name``, or ``None`` when the node does not have it."""
    return shutil.which(name, path=SEARCH_PATH)


def run(argv: t.Sequence[str], timeout: float = 20.0) -> Completed:
    """Run ``argv`` for at most ``timeout`` seconds, in the C locale, with no standard input. Never raises for a bad exit."""
    program = find_program(argv[0]) if os.sep not in argv[0] else argv[0]
    if program is None:
        return Completed(tuple(argv), NOT_FOUND, "", f"{argv[0]} is not installed")
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "PATH": SEARCH_PATH}
    try:
        done = subprocess.run(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Completed(tuple(argv), TIMED_OUT, "", f"{argv[0]} did not end within {timeout:g} s")
    except FileNotFoundError as exc:
        return Completed(tuple(argv), NOT_FOUND, "", str(exc))
    except OSError as exc:
        return Completed(tuple(argv), 126, "", str(exc))
    return Completed(tuple(argv), done.returncode, done.stdout, done.stderr)
