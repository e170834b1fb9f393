# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""qemu's monitor: its JSON protocol over a socket."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from types import TracebackType
from typing import Any

from .errors import LabError


def listener_pid(path: str) -> int | None:
    """Return the pid of the process that listens on a socket, in our own numbering; None when nobody does."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2)
        try:
            probe.connect(path)
        except OSError:
            return None
        pid, _uid, _gid = struct.unpack("3i", probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return pid or None


class Monitor:
    """A connection to one machine's monitor."""

    def __init__(self, name: str, path: str, patience: float = 10) -> None:
        """Connect.

        Args:
            name: the machine's name, for errors.
            path: the monitor's socket.
            patience: seconds to wait for it (a machine that has just been started has none yet).

        Raises:
            LabError: nobody answers.
        """
        self.name = name
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(patience)
        until = time.monotonic() + patience
        while True:
            try:
                self._socket.connect(path)
                break
            except OSError as error:
                if time.monotonic() > until:
                    raise LabError(f"{name}: its monitor does not answer ({error}); is it running? lab status") from error
                time.sleep(0.02)
        self._stream = self._socket.makefile("rwb")
        self._read()
        self.execute("qmp_capabilities")

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with contextlib.suppress(OSError):
            self._stream.close()
        self._socket.close()

    def _read(self) -> dict[str, Any]:
        try:
            line = self._stream.readline()
        except OSError as error:
            raise LabError(f"{self.name}: no answer from its monitor ({error})") from error
        if not line:
            raise LabError(f"{self.name}: qemu has ended")
        return json.loads(line)

    def execute(self, command: str, timeout: float = 60, **arguments: Any) -> Any:
        """Run a command of the protocol and return its result.

        Raises:
            LabError: refused, or no answer.
        """
        self._socket.settimeout(timeout)
        try:
            self._stream.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
            self._stream.flush()
        except OSError as error:
            raise LabError(f"{self.name}: its monitor is gone ({error})") from error
        while True:
            answer = self._read()
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise LabError(f"{self.name}: qemu refused {command} {arguments}: {answer['error'].get('desc')}")

    def human(self, line: str) -> None:
        """Run a command of the human monitor that says nothing when it succeeds (savevm, loadvm).

        Raises:
            LabError: it said something.
        """
        words = self.execute("human-monitor-command", **{"command-line": line}).strip()
        if words:
            raise LabError(f"{self.name}: {line}: {words}")

    def set_link(self, identity: str, up: bool) -> None:
        """Plug or unplug a network card."""
        self.execute("set_link", name=identity, up=up)
