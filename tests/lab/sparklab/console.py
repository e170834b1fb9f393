# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``lab console NODE``: a machine's serial port, with a root shell on it."""

from __future__ import annotations

import os
import selectors
import socket
import sys
import termios
import tty

from . import devices
from .errors import LabError
from .proxy import write_all

QUIT = b"\x1d"  # Ctrl-]
# With commands piped in: how long no word comes before the answer is taken as whole.
QUIET_SECONDS = 3


def attach(number: int, path: str) -> None:
    """Join the terminal to a machine's serial port until Ctrl-].

    Raises:
        LabError: the machine does not run.
    """
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(path)
    except OSError as error:
        raise LabError(f"{devices.node_name(number)}: no console ({error}); is it running? lab status") from error
    is_terminal = os.isatty(0)
    if is_terminal:
        print(f"console of {devices.node_name(number)}; Enter for a prompt, Ctrl-] ends", file=sys.stderr)
        before = termios.tcgetattr(0)
        tty.setraw(0)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(0, selectors.EVENT_READ)
            selector.register(line, selectors.EVENT_READ)
            while True:
                ready = selector.select(None if 0 in selector.get_map() else QUIET_SECONDS)
                if not ready:
                    return
                for key, _events in ready:
                    data = os.read(key.fd, 4096)
                    if key.fd == 0:
                        if QUIT in data:
                            return
                        if data:
                            line.sendall(data)
                        else:
                            selector.unregister(0)
                    elif data:
                        write_all(1, data)
                    else:
                        return
    finally:
        line.close()
        if is_terminal:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
