# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run work in a process of its own that outlives the connection it was started over.

Ansible's async would do the same with two processes and two executions on the node; a load test counts both.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable

REPORT_LIMIT = 65536


def detach(body: Callable[[Callable[[str], None]], None], log: str, seconds: float) -> str:
    """Run ``body`` detached; return the text that it reports first, "" when it ended without a report.

    ``body`` gets a function to report with, which it must call once, soon: the caller waits for it. SIGTERM,
    and the alarm after ``seconds``, end it by SystemExit, so that it can clean up. Its stderr goes to the file
    ``log``, where a traceback of a defect would stand. Must be called before any thread is started.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.setsid()
        if os.fork() == 0:
            _be_detached(body, log, seconds, writer)
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as stream:
        return stream.read(REPORT_LIMIT).decode("utf-8", "replace")


def _be_detached(body: Callable[[Callable[[str], None]], None], log: str, seconds: float, writer: int) -> None:
    """Do the work in the grandchild; never returns."""
    code = 1
    try:
        os.chdir("/")
        os.umask(0o077)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, _leave)
        signal.alarm(max(1, int(seconds)))
        nothing = os.open(os.devnull, os.O_RDWR)
        errors = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.dup2(errors, 2)
        # Descriptors of the connection: kept open here, they would keep the session waiting.
        os.closerange(3, writer)
        os.closerange(writer + 1, 256)
        reported = False

        def report(text: str) -> None:
            nonlocal reported
            if not reported:
                reported = True
                os.write(writer, text.encode("utf-8", "replace")[:REPORT_LIMIT])
                os.close(writer)

        body(report)
        code = 0
    finally:
        if code:
            traceback.print_exc()
            sys.stderr.flush()
        os._exit(code)


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)
