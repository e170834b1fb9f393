# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Talks to the small program on a machine's second serial port (image/agent.c)."""

from __future__ import annotations

import dataclasses
import itertools
import os
import socket
import time

from .errors import LabError

_COUNTER = itertools.count(1)


@dataclasses.dataclass(frozen=True)
class Hello:
    """A machine's sign of life: seconds since its boot and its public ssh host key (type and key)."""

    uptime: float
    host_key: str


def ask(name: str, path: str, letter: str, patience: float, *words: str) -> list[str]:
    """Send a request again and again until its answer comes; return the answer's words after the nonce.

    Raises:
        LabError: no answer in time.
    """
    until = time.monotonic() + patience
    received = b""
    nonces: set[str] = set()
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(2)
        try:
            line.connect(path)
        except OSError as error:
            raise LabError(f"{name}: its agent's port is closed ({error}); is it running? lab status") from error
        while time.monotonic() < until:
            nonce = f"{os.getpid()}.{next(_COUNTER)}"
            nonces.add(nonce)
            try:
                line.sendall(f"{letter} {' '.join([nonce, *words])}\n".encode())
                line.settimeout(1)
                received += line.recv(4096)
            except TimeoutError:
                continue
            except OSError as error:
                raise LabError(f"{name}: ended while it was asked ({error})") from error
            for text in received.decode(errors="replace").split("\n")[:-1]:
                parts = text.split()
                if len(parts) > 2 and parts[0] == letter and parts[1] in nonces:
                    return parts[2:]
    raise LabError(f"{name}: did not answer within {patience:.0f} s; its console: lab console {name}")


def hello(name: str, path: str, patience: float) -> Hello:
    """Wait until a machine is up wholly.

    Raises:
        LabError: it is not, in time.
    """
    words = ask(name, path, "h", patience)
    return Hello(float(words[0]), " ".join(words[1:3]))


def set_clock(name: str, path: str, patience: float = 10) -> None:
    """Give a machine the host's time: in a snapshot it stands still.

    Raises:
        LabError: no answer, or refused.
    """
    now = time.time()
    words = ask(name, path, "c", patience, str(int(now)), str(int(now % 1 * 1e9)))
    if words[0] != "0":
        raise LabError(f"{name}: cannot set its clock: {os.strerror(int(words[0]))}")
