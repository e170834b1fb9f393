# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Process 1 of the lab's namespaces (started by namespace.py; the folder of the lab stands on its command line)."""

from __future__ import annotations

import ctypes
import os
import pathlib
import signal
import sys
import time


def main() -> None:
    """Keep the namespaces, and bury what was left to process 1."""
    # The lab's own bridges must stay silent on the cables.
    for scope in ("all", "default"):
        setting = pathlib.Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6")
        if setting.exists():
            setting.write_text("1", encoding="ascii")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(15, b"sparklab-hold", 0, 0, 0)
    print("holding", flush=True)
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            time.sleep(1)


if __name__ == "__main__":
    sys.exit(main())
