# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Progress for a person: one line a step, with the seconds it took."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator

LIFE_SIGN_SECONDS = 10
_open_steps: list[str] = []


def say(text: str) -> None:
    """Print a line at once, to stderr: stdout is for results."""
    print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(text: str, detail: Callable[[], str] | None = None) -> Iterator[None]:
    """Show what is being done, a sign of life while it lasts (of the innermost step only), and how long it took.

    Args:
        text: what is done.
        detail: says how far it is.
    """
    started = time.monotonic()
    done = threading.Event()

    def tick() -> None:
        while not done.wait(LIFE_SIGN_SECONDS):
            if _open_steps[-1:] == [text]:
                more = f": {detail()}" if detail else ""
                say(f"  … {time.monotonic() - started:.0f} s{more}")

    say(f"{text} …")
    _open_steps.append(text)
    thread = threading.Thread(target=tick, daemon=True)
    thread.start()
    try:
        yield
    except BaseException:
        say(f"  {text}: broken off after {time.monotonic() - started:.1f} s")
        raise
    else:
        say(f"  {text}: {time.monotonic() - started:.1f} s")
    finally:
        _open_steps.remove(text)
        done.set()
        thread.join()
