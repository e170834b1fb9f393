# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Progress for a person: one line a step, with the seconds it took."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator


def say(text: str) -> None:
    """Print a line at once, to stderr: stdout is for results."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(text: str) -> Iterator[None]:
    """Show what is being done, a sign of life every 10 s, and how long it took."""
    started = time.monotonic()
    done = threading.Event()

    def tick() -> None:
        while not done.wait(10):
            say(f"  … {text} ({time.monotonic() - started:.0f} s)")

    say(f"{text} …")
    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    say(f"  {text}: {time.monotonic() - started:.1f} s")
