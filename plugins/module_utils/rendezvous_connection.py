# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One connection between two nodes: non-blocking socket, lines in, lines out, and when it was last heard."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time

from ansible_collections.dgxspark.fabric.plugins.module_utils.rendezvous_protocol import LineBuffer

AGAIN = (errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR)


class Connection:
    """A socket of the rendezvous, either dialled by us (``peer`` known) or accepted (``peer`` None until its hello)."""

    def __init__(self, sock: socket.socket, peer: str | None, connecting: bool) -> None:
        self.socket = sock
        self.peer = peer
        self.dialled = peer is not None
        self.connecting = connecting
        self.established = False
        self.opened = self.heard = time.monotonic()
        self.closed = False
        self._lines = LineBuffer()
        self._unsent = b""
        sock.setblocking(False)

    @property
    def wants_to_send(self) -> bool:
        """Tell whether the socket should be watched for room to write."""
        return self.connecting or bool(self._unsent)

    def connect_result(self) -> int:
        """Return the errno of a finished connect, 0 for success."""
        self.connecting = False
        return self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)

    def send(self, line: bytes) -> None:
        """Send a line, or as much of it as the socket takes; raises OSError when the connection is gone."""
        self._unsent += line
        if not self.connecting:
            self.flush()

    def flush(self) -> None:
        """Send what is left; raises OSError when the connection is gone."""
        while self._unsent:
            try:
                sent = self.socket.send(self._unsent)
            except OSError as error:
                if error.errno in AGAIN:
                    return
                raise
            self._unsent = self._unsent[sent:]

    def receive(self) -> list[bytes] | None:
        """Return the lines that have come, None at the end of the stream.

        Raises OSError when the connection is gone and ProtocolError for a line without end.
        """
        try:
            received = self.socket.recv(65536)
        except OSError as error:
            if error.errno in AGAIN:
                return []
            raise
        if not received:
            return None
        self.heard = time.monotonic()
        return self._lines.feed(received)

    def close(self) -> None:
        """Close without waiting; what was sent still arrives."""
        self.closed = True
        with contextlib.suppress(OSError):
            self.socket.close()


def dial(address: tuple, family: int, source: str | None) -> tuple[socket.socket, bool]:
    """Start a connection to ``address``; return the socket and whether it is still under way.

    ``source`` is the own address to speak from, so that the peer sees the planned one. Raises OSError.
    """
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if source:
            sock.bind((source, 0))
        result = sock.connect_ex(address)
        if result not in (0, errno.EINPROGRESS):
            raise OSError(result, os.strerror(result))
    except OSError:
        sock.close()
        raise
    return sock, result == errno.EINPROGRESS


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens on ``address``; raises OSError."""
    family, kind, proto, dummy, target = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    sock = socket.socket(family, kind | socket.SOCK_CLOEXEC, proto)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(target)
        sock.listen(64)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock
