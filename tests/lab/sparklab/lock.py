# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One command at a time changes the lab."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from .errors import LabError
from .paths import lab_dir
from .progress import say


@contextlib.contextmanager
def exclusive(seconds: float = 900) -> Iterator[None]:
    """Hold the lab's lock; wait for another command of the lab to end. The kernel frees it when its holder dies.

    Raises:
        LabError: it did not come free in time.
    """
    # The descriptor is not inherited (Python's default), so that machines started under the lock do not keep it.
    handle = os.open(lab_dir() / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        until = time.monotonic() + seconds
        told = False
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                owner = os.pread(handle, 20, 0).decode(errors="replace").strip()
                if time.monotonic() > until:
                    raise LabError(f"process {owner} has held the lab for {seconds:.0f} s; end it or wait") from error
                if not told:
                    say(f"waiting for another lab command (process {owner}) …")
                    told = True
                time.sleep(0.1)
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)
