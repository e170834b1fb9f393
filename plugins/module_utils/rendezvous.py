# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The meeting of all nodes of a run: who is here, and where each stands in the tests it shares with us.

Each node listens on its management address and dials every peer. Both directions matter: a test's client
must reach its server's control port, as its tool will have to reach the tool there, while word from a peer
that we cannot dial still tells that the peer is alive; so a blocked port is told from an absent node.

One thread does all the networking (``selectors``); tests run in threads of their own, publish their state
and wait for views of their peers.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping

from ansible_collections.dgxspark.fabric.plugins.module_utils import rendezvous_protocol as protocol
from ansible_collections.dgxspark.fabric.plugins.module_utils.rendezvous_connection import Connection, dial, listen
from ansible_collections.dgxspark.fabric.plugins.module_utils.rendezvous_protocol import ProtocolError, EndState

#: Connections that have not said hello yet; beyond it the oldest is dropped.
STRANGERS_LIMIT = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """Seconds. A peer that falls silent is lost after ``silence``, one that hangs up after ``redial_grace``."""

    heartbeat: float = 1.0
    silence: float = 5.0
    redial_grace: float = 2.0
    dial_every: float = 0.5
    dial_timeout: float = 3.0
    hello_timeout: float = 5.0


@dataclasses.dataclass(frozen=True, slots=True)
class DialFailure:
    """Why a peer's control port could not be reached: ``kind`` is "refused", "timeout", "unreachable", "unresolved" or "error"."""

    kind: str
    text: str
    count: int


@dataclasses.dataclass(frozen=True, slots=True)
class PeerView:
    """What is known of a peer at one moment.

    ``alive``: heard of within the time limits. ``connected``: over a connection that is up now, where ``alive``
    includes a peer that hung up a moment ago. ``met``: heard of at some time of this run. ``reachable``: its
    control port takes our connections. ``departed``: it said that it is through. ``met_for``: seconds since it
    was first heard of. ``tests``: where it stands, by test key.
    """

    name: str
    alive: bool
    connected: bool
    met: bool
    reachable: bool
    departed: bool
    met_for: float
    dial_failure: DialFailure | None
    tests: Mapping[str, EndState]

    def test(self, key: str) -> EndState:
        """Return where the peer stands in one attempt at a test."""
        return self.tests.get(key, EndState())


class _Link:
    """All that belongs to one peer; touched under the rendezvous' lock only."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.targets: list[tuple[int, tuple]] = []
        self.dialled: Connection | None = None
        self.accepted: Connection | None = None
        self.dial_failure: DialFailure | None = None
        self.next_dial = 0.0
        self.first_heard: float | None = None
        self.down_since: float | None = None
        self.departed = False
        self.heard_number = -1
        self.heard_tests: dict[str, EndState] = {}
        self.own_number = 0
        self.own_tests: dict[str, EndState] = {}
        self.unsaid = False

    @property
    def connections(self) -> list[Connection]:
        return [each for each in (self.dialled, self.accepted) if each is not None and each.established]


class Rendezvous:
    """Listens, dials, keeps the connections alive, and hands out views. ``start`` and ``stop`` once each."""

    def __init__(self, run: str, name: str, address: str, port: int, peers: Mapping[str, str], timing: Timing = Timing()) -> None:
        """Prepare for ``peers`` (name to management address or host name). ``port`` is every node's control port."""
        self.run, self.name, self.address, self.port, self.timing = run, name, address, port, timing
        self.dropped: list[str] = []
        self._links = {peer: _Link(peer, target) for peer, target in peers.items()}
        self._strangers: list[Connection] = []
        self._condition = threading.Condition()
        self._stopping = False
        self._selector = selectors.DefaultSelector()
        self._wake_in, self._wake_out = socket.socketpair()
        self._thread = threading.Thread(target=self._loop, name="rendezvous", daemon=True)
        self._listener: socket.socket | None = None
        self._next_beat = 0.0

    # ---- for the threads of the tests ----

    def start(self) -> None:
        """Open the control port and begin to dial; raises OSError when the port cannot be opened."""
        self._listener = listen(self.address, self.port)
        for link in self._links.values():
            self._resolve(link)
        self._wake_in.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        self._selector.register(self._wake_in, selectors.EVENT_READ, None)
        self._thread.start()

    def stop(self) -> None:
        """Say goodbye to everybody and close."""
        with self._condition:
            self._stopping = True
        self._wake()
        self._thread.join(timeout=5)

    def publish(self, peer: str, key: str, state: EndState) -> None:
        """Tell ``peer`` where we stand in a test."""
        with self._condition:
            link = self._links[peer]
            link.own_tests[key] = state
            link.own_number += 1
            link.unsaid = True
        self._wake()

    def view(self, peer: str) -> PeerView:
        """Return what is known of ``peer`` now."""
        with self._condition:
            return self._view(self._links[peer])

    def wait(self, peer: str, enough: Callable[[PeerView], bool], seconds: float) -> PeerView:
        """Wait until ``enough`` holds for the view of ``peer``, at most ``seconds``; return the last view."""
        until = time.monotonic() + seconds
        with self._condition:
            while True:
                view, left = self._view(self._links[peer]), until - time.monotonic()
                if enough(view) or left <= 0:
                    return view
                self._condition.wait(min(left, 0.25))  # views also age without any news

    # ---- the networking thread ----

    def _wake(self) -> None:
        with contextlib.suppress(OSError):
            self._wake_out.send(b"x")

    def _resolve(self, link: _Link) -> None:
        try:
            found = socket.getaddrinfo(link.address, self.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            link.dial_failure = DialFailure("unresolved", f"{link.address}: {error}", 1)
            return
        link.targets = [(family, target) for family, dummy, proto, name, target in found]

    def _view(self, link: _Link) -> PeerView:
        now = time.monotonic()
        met = link.first_heard is not None
        alive = bool(link.connections) or (met and not link.departed and link.down_since is not None and now - link.down_since < self.timing.redial_grace)
        return PeerView(link.name, alive, bool(link.connections), met, link.dialled is not None and link.dialled.established, link.departed,
                        now - link.first_heard if link.first_heard is not None else 0.0, link.dial_failure, dict(link.heard_tests))

    def _loop(self) -> None:
        while True:
            with self._condition:
                if self._stopping:
                    self._farewell()
                    return
                self._housekeeping()
            for key, events in self._selector.select(self._pause()):
                with self._condition:
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj is self._wake_in:
                        with contextlib.suppress(OSError):
                            self._wake_in.recv(4096)
                    else:
                        self._serve(key.data, events)
                    self._condition.notify_all()

    def _pause(self) -> float:
        return max(0.02, min(self.timing.heartbeat, self.timing.dial_every) / 2)

    def _housekeeping(self) -> None:
        """Dial who is due, drop who is silent, send what is unsaid and the heartbeat."""
        now = time.monotonic()
        beat = now >= self._next_beat
        if beat:
            self._next_beat = now + self.timing.heartbeat
        for stranger in list(self._strangers):
            if now - stranger.opened > self.timing.hello_timeout:
                self._drop(stranger, "said nothing")
        for link in self._links.values():
            for connection in (link.dialled, link.accepted):
                if connection is not None:
                    self._age(connection, now)
            if link.dialled is None and link.targets and not link.departed and now >= link.next_dial:
                self._dial(link, now)
            if link.unsaid or beat:
                line = protocol.state(link.own_number, link.own_tests) if link.unsaid else protocol.beat()
                for connection in link.connections:
                    self._send(connection, line)
                link.unsaid = link.unsaid and not link.connections

    def _age(self, connection: Connection, now: float) -> None:
        if connection.connecting and now - connection.opened > self.timing.dial_timeout:
            self._dial_failed(connection, "timeout", "no answer")
        elif connection.established and now - connection.heard > self.timing.silence:
            self._drop(connection, "silent", silent=True)
        elif not connection.connecting and not connection.established and now - connection.opened > self.timing.hello_timeout + self.timing.dial_timeout:
            self._dial_failed(connection, "timeout", "connected, but no hello came")

    def _dial(self, link: _Link, now: float) -> None:
        tries = link.dial_failure.count if link.dial_failure else 0
        family, target = link.targets[tries % len(link.targets)]
        link.next_dial = now + self.timing.dial_every * (1 if tries < 60 else 4)
        try:
            sock, pending = dial(target, family, self.address)
        except OSError as error:
            self._note_failure(link, _kind_of(error.errno), str(error))
            return
        connection = link.dialled = Connection(sock, link.name, pending)
        with contextlib.suppress(OSError):
            connection.send(protocol.hello(self.run, self.name, link.name))
        self._watch(connection)

    def _note_failure(self, link: _Link, kind: str, text: str) -> None:
        count = link.dial_failure.count + 1 if link.dial_failure and link.dial_failure.kind == kind else 1
        link.dial_failure = DialFailure(kind, text, count)

    def _dial_failed(self, connection: Connection, kind: str, text: str) -> None:
        link = self._links[connection.peer or ""]
        self._note_failure(link, kind, text)
        self._drop(connection, text)

    def _accept(self) -> None:
        if self._listener is None:
            return
        with contextlib.suppress(OSError):
            sock, dummy = self._listener.accept()
            stranger = Connection(sock, None, False)
            self._strangers.append(stranger)
            self._watch(stranger)
            if len(self._strangers) > STRANGERS_LIMIT:
                self._drop(self._strangers[0], "too many connections that say nothing")

    def _serve(self, connection: Connection, events: int) -> None:
        if connection.closed:  # by an earlier event of the same round
            return
        try:
            if connection.connecting and events & selectors.EVENT_WRITE:
                result = connection.connect_result()
                if result:
                    self._dial_failed(connection, _kind_of(result), os.strerror(result))
                    return
            if events & selectors.EVENT_WRITE:
                connection.flush()
            if events & selectors.EVENT_READ:
                lines = connection.receive()
                if lines is None:
                    self._drop(connection, "hung up")
                    return
                for line in lines:
                    self._hear(connection, line)
            self._watch(connection)
        except ProtocolError as error:
            self._drop(connection, str(error))
        except OSError as error:
            self._drop(connection, str(error))

    def _hear(self, connection: Connection, line: bytes) -> None:
        message = protocol.decode(line)
        if not connection.established:
            self._introduce(connection, protocol.check_hello(message, self.run, self.name))
            return
        link = self._links[connection.peer or ""]
        if message["type"] == "state":
            number, tests = protocol.read_state(message)
            if number > link.heard_number:
                link.heard_number, link.heard_tests = number, tests
        elif message["type"] == "bye":
            link.departed = True

    def _introduce(self, connection: Connection, sender: str) -> None:
        """Take the hello of ``sender``: for a dialled connection its answer, for an accepted one its first word."""
        link = self._links.get(sender)
        if link is None or (connection.peer is not None and connection.peer != sender):
            raise ProtocolError(f"{sender!r} is not a planned peer here")
        if connection.peer is None:
            source = _plain(connection.socket.getpeername()[0])
            if link.targets and source not in {_plain(target[0]) for dummy, target in link.targets}:
                raise ProtocolError(f"{sender!r} speaks from {source}, not from its management address")
            self._strangers.remove(connection)
            connection.peer = sender
            if link.accepted is not None:
                self._drop(link.accepted, "replaced by a newer connection")
            link.accepted = connection
            connection.send(protocol.hello(self.run, self.name, sender))
        connection.established = True
        if link.first_heard is None:
            link.first_heard = time.monotonic()
            link.dial_failure = None  # until now the peer was not there; only from now on it counts
        link.down_since = None
        link.departed = False
        connection.send(protocol.state(link.own_number, link.own_tests))

    def _send(self, connection: Connection, line: bytes) -> None:
        try:
            connection.send(line)
            self._watch(connection)
        except OSError as error:
            self._drop(connection, str(error))

    def _watch(self, connection: Connection) -> None:
        if connection.closed:
            return
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.wants_to_send else 0)
        try:
            if self._selector.get_key(connection.socket).events != events:
                self._selector.modify(connection.socket, events, connection)
        except KeyError:
            self._selector.register(connection.socket, events, connection)

    def _drop(self, connection: Connection, reason: str, silent: bool = False) -> None:
        """Close a connection and note what that means for its peer."""
        if connection.closed:
            return
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.socket)
        connection.close()
        if connection in self._strangers:
            self._strangers.remove(connection)
            self.dropped = [*self.dropped[-19:], reason]
        link = self._links.get(connection.peer or "")
        if link is None:
            return
        link.dialled = None if link.dialled is connection else link.dialled
        link.accepted = None if link.accepted is connection else link.accepted
        if connection.established and not link.connections:
            # A silent peer has had its grace already; one that hung up may dial again at once.
            link.down_since = time.monotonic() - (self.timing.redial_grace if silent else 0)
        if connection.dialled and connection.established:
            link.next_dial = time.monotonic() + self.timing.dial_every

    def _farewell(self) -> None:
        for link in self._links.values():
            for connection in link.connections:
                with contextlib.suppress(OSError):
                    connection.send(protocol.state(link.own_number, link.own_tests) + protocol.bye())
        dialled = [link.dialled for link in self._links.values()]
        accepted = [link.accepted for link in self._links.values()]
        for connection in [*self._strangers, *dialled, *accepted]:
            if connection is not None:
                connection.close()
        if self._listener is not None:
            self._listener.close()
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()
        self._condition.notify_all()


def _kind_of(number: int | None) -> str:
    if number == errno.ECONNREFUSED:
        return "refused"
    if number == errno.ETIMEDOUT:
        return "timeout"
    if number in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EACCES, errno.EPERM):
        return "unreachable"
    return "error"


def _plain(address: str) -> str:
    """Return an address without zone and without the IPv4-mapped prefix, to compare."""
    return address.partition("%")[0].removeprefix("::ffff:")
