# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The path probe: recorded texts of ping, and whole probes of a node whose programs are played by a function."""

from __future__ import annotations

import json
import pathlib
import threading
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.module_utils import path_prober, path_probe_output as reader
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import NOT_FOUND, Completed

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "ping"


@pytest.mark.parametrize(("name", "sent", "received", "limit", "trouble"), [
    ("full", 3, 3, None, None),
    ("local-mtu", 3, 0, 1500, "local error: message too long, mtu=1500"),
    ("swallowed", 3, 0, None, "sendmsg: No buffer space available"),
    ("nobody", 3, 0, None, None),
    ("no-interface", 0, 0, None, "SO_BINDTODEVICE nosuch: No such device"),
    ("no-address", 3, 0, None, None),
])
def test_recorded_pings(name: str, sent: int, received: int, limit: int | None, trouble: str | None) -> None:
    text = (SAMPLES / f"{name}.txt").read_text(encoding="utf-8")
    assert reader.parse_ping(text) == reader.PingResult(sent, received, limit, trouble)


def test_a_router_names_its_limit() -> None:
    text = "From 192.168.12.9 icmp_seq=1 Frag needed and DF set (mtu = 1500)\n\n3 packets transmitted, 0 received, +3 errors, 100% packet loss, time 402ms\n"
    assert reader.parse_ping(text).limit == 1500
    far = "From 192.168.12.1 icmp_seq=1 Destination Host Unreachable\n3 packets transmitted, 0 received, +3 errors, 100% packet loss, time 402ms\n"
    assert reader.parse_ping(far).trouble == "Destination Host Unreachable"


@given(st.text(), st.text())
def test_any_text_of_ping_is_read(stdout: str, stderr: str) -> None:
    result = reader.parse_ping(stdout, stderr)
    assert 0 <= result.received <= result.sent


DOCUMENTS = st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.just("dev"), inner))


@given(st.one_of(st.text(), DOCUMENTS.map(json.dumps)))
def test_any_route_is_read(text: str) -> None:
    assert isinstance(reader.parse_route_interface(text), str | None)


def test_route() -> None:
    assert reader.parse_route_interface('[{"dst":"192.168.12.2","from":"192.168.12.1","dev":"enp1s0f0np0","uid":0,"cache":[]}]') == "enp1s0f0np0"
    assert reader.parse_route_interface("") is None


@given(st.integers(92, 9216), st.integers(92, 9216))
def test_the_largest_size_is_found(limit: int, high: int) -> None:
    asked: list[int] = []

    def passes(sizes: t.Sequence[int]) -> list[bool]:
        asked.append(len(sizes))
        return [size <= limit for size in sizes]

    if limit < high:
        assert reader.largest_passing(92, high, passes) == limit
        assert len(asked) <= 7
    assert reader.largest_passing(limit + 1, limit + 5, passes) is None


def test_routes_of_one_run_for_several_destinations() -> None:
    text = '[{"dst":"10.0.3.3","dev":"enP7s7","gateway":"10.77.0.1"}]\n[ ]\n[{"dst":"10.0.4.3","dev":"enp1s0f0np0","flags":[]}]\n'
    assert reader.parse_routes_by_destination(text) == {
        "10.0.3.3": {"interface": "enP7s7", "gateway": "10.77.0.1"}, "10.0.4.3": {"interface": "enp1s0f0np0", "gateway": None}}


@given(st.one_of(st.text(), st.lists(DOCUMENTS).map(lambda documents: " ".join(json.dumps(document) for document in documents))))
def test_any_routes_are_read(text: str) -> None:
    assert isinstance(reader.parse_routes_by_destination(text), dict)


class Node:
    """Plays ``ping`` and ``ip``: ``limits`` is the largest packet that passes to an address, ``lost`` the packets that are lost first."""

    def __init__(self, **limits: int) -> None:
        self.limits = {address.replace("_", "."): limit for address, limit in limits.items()}
        self.lost: dict[str, int] = {}
        self.calls: list[list[str]] = []
        self.local_mtu = 9000
        self.installed = True
        self._lock = threading.Lock()

    def run(self, argv: list[str], timeout: float = 20.0) -> Completed:
        """Run a program."""
        with self._lock:
            self.calls.append(argv)
            if argv[:3] == ["ip", "-j", "route"]:
                return Completed(tuple(argv), 0, '[{"dst":"x","dev":"enp1s0f0np0"}]', "")
            if argv[:3] == ["ip", "-j", "neigh"]:
                rows = [{"dst": "10.0.0.2", "dev": "enp1s0f0np0", "lladdr": "52:54:00:02:01:01", "state": ["REACHABLE"]},
                        {"dst": "10.0.0.2", "dev": "enP7s7", "lladdr": "52:54:00:ff:ff:ff", "state": ["STALE"]}]
                return Completed(tuple(argv), 0, json.dumps(rows), "")
            if not self.installed:
                return Completed(tuple(argv), NOT_FOUND, "", "ping is not installed")
            size, count, peer = int(argv[argv.index("-s") + 1]) + 28, int(argv[argv.index("-c") + 1]), argv[-1]
            if size > self.local_mtu:
                return Completed(tuple(argv), 1, f"{count} packets transmitted, 0 received, +3 errors, 100% packet loss, time 405ms\n",
                                 f"ping: local error: message too long, mtu={self.local_mtu}\n")
            received = count if size <= self.limits.get(peer, 0) else 0
            lost = min(received, self.lost.get(peer, 0))
            self.lost[peer] = self.lost.get(peer, 0) - lost
            return Completed(tuple(argv), 0, f"{count} packets transmitted, {received - lost} received, 0% packet loss, time 400ms\n", "")


TARGET = {"segment": "s/a", "interface": "enp1s0f0np0", "rail": "a", "cable": "spark1:0-spark2:1", "address": "10.0.0.1", "mtu": 9000, "peer_node": "spark2",
          "peer_interface": "enp1s0f1np1", "peer_address": "10.0.0.2", "expected_mac": "52:54:00:02:01:01"}
ADDRESSES = {"enp1s0f0np0": {"inet": ["10.0.0.1/24"], "inet6": []}, "enp1s0f1np1": {"inet": [], "inet6": []}}


def probe(node: Node, **changes: t.Any) -> dict[str, t.Any]:
    """Probe one changed target."""
    return path_prober.probe([path_prober.parse_target({**TARGET, **changes})], ADDRESSES, node.run)[0]


def test_healthy_path() -> None:
    node = Node(**{"10_0_0_2": 9000})
    assert probe(node) == {**TARGET, "sent": 3, "received": 3, "small_received": 3, "largest_mtu": None, "neighbour_mac": "52:54:00:02:01:01",
                           "route_interface": "enp1s0f0np0", "error": None}
    pings = [call for call in node.calls if call[0] == "ping"]
    assert sorted(call[call.index("-s") + 1] for call in pings) == ["64", "8972"]
    assert all(call[1:4] == ["-n", "-M", "do"] and call[call.index("-I") + 1] == "enp1s0f0np0" for call in pings)
    assert ["ip", "-j", "route", "get", "10.0.0.2", "from", "10.0.0.1"] in node.calls


def test_black_hole_for_large_packets() -> None:
    record = probe(Node(**{"10_0_0_2": 4200}))
    assert (record["received"], record["small_received"], record["largest_mtu"], record["error"]) == (0, 3, 4200, None)


def test_own_interface_too_small() -> None:
    node = Node(**{"10_0_0_2": 9000})
    node.local_mtu = 1500
    record = probe(node)
    assert (record["received"], record["largest_mtu"], record["error"]) == (0, 1500, "local error: message too long, mtu=1500")


def test_nobody_there() -> None:
    record = probe(Node())
    assert (record["sent"], record["received"], record["small_received"], record["largest_mtu"], record["error"]) == (3, 0, 0, None, None)


def test_some_lost_are_counted_over_more_packets() -> None:
    node = Node(**{"10_0_0_2": 9000})
    node.lost["10.0.0.2"] = 1
    record = probe(node)
    assert record["sent"] == 10 and record["received"] + record["small_received"] == 19


@pytest.mark.parametrize(("changes", "words"), [
    ({"interface": "enp9s0"}, "no interface enp9s0"), ({"interface": "enp1s0f1np1"}, "it has: none"), ({"address": "10.0.0.9"}, "it has: 10.0.0.1"),
])
def test_own_end_not_fit_is_a_record(changes: dict[str, t.Any], words: str) -> None:
    record = probe(Node(), **changes)
    assert words in record["error"] and record["sent"] == 0


def test_ping_missing_names_the_package() -> None:
    node = Node()
    node.installed = False
    record = probe(node)
    assert record["sent"] == 0 and "iputils-ping" in record["error"]


def test_the_kernel_is_asked_about_far_nodes_in_one_run() -> None:
    asked: list[list[str]] = []

    def run(argv: list[str], timeout: float = 20.0) -> Completed:
        asked.append(argv)
        with open(argv[-1], encoding="ascii") as batch:
            assert batch.read() == "route get 10.0.3.3\nroute get 10.0.4.3\n"
        return Completed(tuple(argv), 1, '[{"dst":"10.0.3.3","dev":"enp1s0f0np0","gateway":"10.0.0.2"}]\n', "RTNETLINK answers: Network is unreachable")

    far = [path_prober.parse_far({"node": "spark3", "addresses": ["10.0.3.3", "10.0.4.3"]})]
    records = path_prober.ask_far(far, run)
    assert [(one["kind"], one["peer_node"], one["peer_address"], one["route_interface"], one["gateway"]) for one in records] == [
        ("far", "spark3", "10.0.3.3", "enp1s0f0np0", "10.0.0.2"), ("far", "spark3", "10.0.4.3", None, None)]
    assert len(asked) == 1 and asked[0][:4] == ["ip", "-j", "-force", "-batch"]
    assert path_prober.ask_far([], run) == [] and len(asked) == 1


@pytest.mark.parametrize("addresses", [["x"], ["10.0.0.1 dev lo"], ["fe80::1"]])
def test_far_addresses_are_checked(addresses: list[str]) -> None:
    with pytest.raises(path_prober.TargetError, match="far: addresses of spark3"):
        path_prober.parse_far({"node": "spark3", "addresses": addresses})


@pytest.mark.parametrize("changes", [{"interface": "-x"}, {"peer_address": ""}, {"peer_address": "-f"}, {"mtu": 40}, {"mtu": "9000"}, {"mtu": True}])
def test_target_refused(changes: dict[str, t.Any]) -> None:
    with pytest.raises(path_prober.TargetError):
        path_prober.parse_target({**TARGET, **changes})
