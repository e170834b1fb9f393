# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The protocol and the meeting of nodes: what is taken, what is refused, and how soon a silent peer is noticed."""

from __future__ import annotations

import pathlib
import socket
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.module_utils import rendezvous_protocol as protocol
from ansible_collections.dgxspark.fabric.plugins.module_utils.rendezvous import Rendezvous
from ansible_collections.dgxspark.fabric.plugins.module_utils.rendezvous_protocol import LineBuffer, ProtocolError, EndState
from ansible_collections.dgxspark.fabric.tests.unit.fuzzing import examples

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from loopback_cluster import TIMING, free_port  # noqa: E402


def test_states_survive_the_wire() -> None:
    tests = {"r0-a-b/1": EndState("finished", "failed", "zero_row", "no number", True), "r1-b-a/1": EndState("listening")}
    number, found = protocol.read_state(protocol.decode(protocol.state(7, tests).rstrip(b"\n")))
    assert (number, found) == (7, tests)


def test_messages_are_cut_to_a_size_that_fits() -> None:
    line = protocol.state(1, {"t": EndState("finished", "failed", "x", "y" * 10000)})
    assert len(line) < 1000


@pytest.mark.parametrize(("change", "words"), [
    ({"run": "other"}, "another run"), ({"to": "n9"}, "wanted to speak to"), ({"protocol": 2}, "no hello"), ({"type": "state"}, "no hello"),
    ({"from": 5}, "lacks"), ({"run": None}, "lacks"), ({"from": "x" * 300}, "lacks"),
])
def test_hello_of_a_stranger(change: dict, words: str) -> None:
    message = {**protocol.decode(protocol.hello("nonce-1", "n1", "n2")), **change}
    with pytest.raises(ProtocolError, match=words):
        protocol.check_hello(message, "nonce-1", "n2")


def test_stages_are_ordered() -> None:
    assert EndState("running").reached("listening")
    assert not EndState("arrived").reached("listening")


@examples(200)
@given(st.one_of(st.binary(max_size=300), st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), st.text()), lambda inner: st.one_of(
    st.lists(inner), st.dictionaries(st.sampled_from(["type", "number", "tests", "run", "from", "to", "stage", "t"]), inner)), max_leaves=8).map(
        lambda value: __import__("json").dumps(value).encode())))
def test_any_line_is_read_or_refused(line: bytes) -> None:
    try:
        message = protocol.decode(line)
        protocol.read_state(message)
        protocol.check_hello(message, "run", "me")
    except ProtocolError:
        pass


@given(st.lists(st.binary(max_size=20), max_size=20))
def test_lines_do_not_depend_on_how_they_arrive(pieces: list[bytes]) -> None:
    buffer = LineBuffer()
    lines = [line for piece in pieces for line in buffer.feed(piece)]
    assert lines == b"".join(pieces).split(b"\n")[:-1]


def test_a_line_without_end_is_refused() -> None:
    buffer = LineBuffer()
    with pytest.raises(ProtocolError):
        for dummy in range(100):
            buffer.feed(b"x" * 65536)


def meeting(port: int, name: str, address: str, **peers: str) -> Rendezvous:
    """Return the started rendezvous of one node."""
    node = Rendezvous("nonce-1", name, address, port, peers, TIMING)
    node.start()
    return node


def test_two_nodes_meet_and_a_late_one_too() -> None:
    port = free_port("127.0.1.1", "127.0.1.2")
    first = meeting(port, "n1", "127.0.1.1", n2="127.0.1.2")
    first.publish("n2", "t/1", EndState("arrived"))
    time.sleep(0.3)
    assert not first.view("n2").met and first.view("n2").dial_failure.kind == "refused"
    second = meeting(port, "n2", "127.0.1.2", n1="127.0.1.1")
    assert second.wait("n1", lambda view: view.test("t/1").stage == "arrived", 3).reachable
    assert first.wait("n2", lambda view: view.alive and view.reachable, 3).reachable
    second.publish("n1", "t/1", EndState("listening"))
    assert first.wait("n2", lambda view: view.test("t/1").reached("listening"), 3).alive
    second.stop()
    assert first.wait("n2", lambda view: view.departed, 3).departed
    first.stop()


@pytest.mark.skipif(not pathlib.Path("/proc/net/if_inet6").exists() or not pathlib.Path("/proc/net/if_inet6").read_text(), reason="no IPv6 here")
def test_management_over_ipv6() -> None:
    with socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        port = probe.getsockname()[1]
    node = meeting(port, "n1", "::1", n2="::1")
    with socket.create_connection(("::1", port), timeout=2) as stranger:
        stranger.sendall(protocol.hello("nonce-1", "n2", "n1"))
        assert b'"from":"n1"' in stranger.recv(4096)
        assert node.wait("n2", lambda view: view.alive, 2).alive
    node.stop()


def test_a_silent_peer_is_lost_in_time() -> None:
    port = free_port("127.0.1.1", "127.0.1.2")
    node = meeting(port, "n1", "127.0.1.1", n2="127.0.1.2")
    with socket.socket() as peer:
        peer.bind(("127.0.1.2", 0))
        peer.connect(("127.0.1.1", port))
        peer.sendall(protocol.hello("nonce-1", "n2", "n1"))
        assert node.wait("n2", lambda view: view.alive, 2).alive
        began = time.monotonic()
        view = node.wait("n2", lambda view: not view.alive, 5)
        assert view.met and not view.alive and not view.departed
        assert time.monotonic() - began < TIMING.silence + 0.5
    node.stop()


def test_an_older_state_changes_nothing() -> None:
    port = free_port("127.0.1.1", "127.0.1.2")
    node = meeting(port, "n1", "127.0.1.1", n2="127.0.1.2")
    with socket.socket() as peer:
        peer.bind(("127.0.1.2", 0))
        peer.connect(("127.0.1.1", port))
        peer.sendall(protocol.hello("nonce-1", "n2", "n1") + protocol.state(5, {"t": EndState("running")}) + protocol.state(3, {"t": EndState("arrived")}))
        node.wait("n2", lambda view: view.test("t").stage == "running", 2)
        time.sleep(0.1)
        assert node.view("n2").test("t").stage == "running"
    node.stop()


def test_name_that_does_not_resolve() -> None:
    port = free_port("127.0.1.1")
    node = meeting(port, "n1", "127.0.1.1", n2="no-such-host.invalid")
    assert node.view("n2").dial_failure.kind == "unresolved"
    node.stop()
