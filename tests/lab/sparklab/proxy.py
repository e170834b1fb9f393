# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``lab proxy HOST PORT``: joins stdin and stdout to a connection made inside the lab's network."""

from __future__ import annotations

import os
import selectors
import socket

from . import namespace
from .errors import LabError
from .state import State

BLOCK = 65536


def connect(state: State, address: str, port: int) -> socket.socket:
    """Connect from inside the network.

    Raises:
        LabError: nobody answers.
    """
    namespace.enter(state.holder)
    try:
        connection = socket.create_connection((address, port), timeout=10)
    except OSError as error:
        raise LabError(f"{address} port {port}: {error}; is it running? lab status") from error
    connection.settimeout(None)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything."""
    while data:
        data = data[os.write(descriptor, data) :]


def pump(connection: socket.socket) -> None:
    """Carry bytes both ways until the far end closes."""
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(connection, selectors.EVENT_READ)
        while True:
            for key, _events in selector.select():
                try:
                    if key.fileobj is connection:
                        data = connection.recv(BLOCK)
                        if not data:
                            return
                        write_all(1, data)
                    else:
                        data = os.read(0, BLOCK)
                        if not data:
                            selector.unregister(0)
                            connection.shutdown(socket.SHUT_WR)
                        else:
                            connection.sendall(data)
                except OSError:
                    return
