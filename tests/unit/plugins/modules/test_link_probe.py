# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The link probe with real frames between network namespaces. Skipped where this process may not make them."""

from __future__ import annotations

import concurrent.futures
import time
import typing as t

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.link_probe_end import finish_command, read_result
from ansible_collections.dgxspark.fabric.tests.unit.plugins.modules import wires as wires_module

pytestmark = pytest.mark.skipif(not wires_module.usable(), reason="needs root and network namespaces")

NODES = ("spark1", "spark2", "spark3")
MESH = (("spark1:0", "spark2:1"), ("spark2:0", "spark3:1"), ("spark3:0", "spark1:1"))
Found = dict[str, dict[str, t.Any]]


@pytest.fixture
def make(tmp_path):
    """Return a function that lays wires; they are taken away after the test."""
    laid = []

    def lay(nodes=NODES, cables=MESH):
        laid.append(wires_module.Wires(tmp_path, nodes, cables))
        return laid[-1]

    yield lay
    for one in laid:
        one.close()


def probe(wires: wires_module.Wires, skew: float = 0.0, raised: bool = False, **options: t.Any) -> Found:
    """Start all nodes one after the other, then end them one after the other."""
    started = {}
    for node in wires.nodes:
        started[node] = wires.start(node, **options)
        assert not started[node].get("failed"), started[node]
        time.sleep(skew)
    settle = 12.0 if raised else 2.0

    def end(node: str) -> dict[str, t.Any]:
        found = read_result(wires.shell(finish_command(started[node]["folder"], min(settle, 2.0), raised)))
        assert found is not None and found["complete"]
        return found

    with concurrent.futures.ThreadPoolExecutor() as pool:
        return dict(zip(wires.nodes, pool.map(end, wires.nodes), strict=True))


def heard(found: Found, node: str, interface: str) -> set[tuple[str, int, str]]:
    """Return whom an interface hears, its own twin aside."""
    return {(entry["node"], entry["port"], entry["rail"]) for entry in found[node]["interfaces"][interface]["heard"] if entry["node"] != node}


def test_a_mesh_hears_both_twins_at_the_other_end_whatever_the_start(make) -> None:
    wires = make()
    found = probe(wires, skew=1.0)
    for interface in ("enp1s0f0np0", "enP2p1s0f0np0"):
        assert heard(found, "spark1", interface) == {("spark2", 1, "a"), ("spark2", 1, "b")}
    assert heard(found, "spark3", "enp1s0f1np1") == {("spark2", 0, "a"), ("spark2", 0, "b")}
    entry = found["spark1"]["interfaces"]["enp1s0f0np0"]
    assert entry["state"] == "probed" and entry["carrier"] is True and entry["strangers"] == []
    assert all(one["direct"] for one in entry["heard"])
    assert 4 <= entry["sent"] <= 4 * (found["spark1"]["seconds"] + 1)


def test_a_switch_is_heard_by_broadcast_alone(make) -> None:
    wires = make(NODES[:2], (("switch", "spark1:1", "spark2:1"),))
    found = probe(wires)
    assert heard(found, "spark1", "enp1s0f1np1") == {("spark2", 1, "a"), ("spark2", 1, "b")}
    assert not any(one["direct"] for one in found["spark1"]["interfaces"]["enp1s0f1np1"]["heard"])
    assert found["spark1"]["interfaces"]["enp1s0f0np0"]["carrier"] is False and heard(found, "spark1", "enp1s0f0np0") == set()


def test_one_twin_without_carrier_hears_nobody(make) -> None:
    wires = make()
    wires.cut_rail("spark1:0", "b")
    found = probe(wires)
    assert heard(found, "spark1", "enP2p1s0f0np0") == set() and heard(found, "spark1", "enp1s0f0np0") == {("spark2", 1, "a"), ("spark2", 1, "b")}
    assert heard(found, "spark2", "enp1s0f1np1") == {("spark1", 0, "a")}


def test_a_port_that_is_off_is_left_alone_or_raised_and_restored(make) -> None:
    wires = make()
    wires.down("spark1", "enp1s0f0np0")
    entry = probe(wires)["spark1"]["interfaces"]["enp1s0f0np0"]
    assert entry["state"] == "admin down, not probed" and entry["heard"] == [] and entry["sent"] == 0
    assert not wires.is_up("spark1", "enp1s0f0np0")
    found = probe(wires, raised=True, raise_ports=True, run="testrun2", interfaces=["enp1s0f0np0", "enp1s0f1np1"])
    entry = found["spark1"]["interfaces"]["enp1s0f0np0"]
    assert entry["raised"] and entry["state"] == "probed" and heard(found, "spark1", "enp1s0f0np0") == {("spark2", 1, "a")}
    deadline = time.monotonic() + 5
    while wires.is_up("spark1", "enp1s0f0np0") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not wires.is_up("spark1", "enp1s0f0np0")


def test_check_mode_raises_nothing(make) -> None:
    wires = make(NODES[:2], (("spark1:1", "spark2:1"),))
    wires.down("spark1", "enp1s0f1np1")
    started = wires.start("spark1", raise_ports=True, _ansible_check_mode=True)
    assert started["raised"] == [] and not wires.is_up("spark1", "enp1s0f1np1")
    assert read_result(wires.shell(finish_command(started["folder"], 0.0, False)))["complete"]


def test_another_cluster_is_a_stranger(make) -> None:
    wires = make(NODES[:2], (("spark1:1", "spark2:1"),))
    first = wires.start("spark1")
    second = wires.start("spark2", cluster="other")
    ends = [read_result(wires.shell(finish_command(one["folder"], 2.0, False))) for one in (first, second)]
    entry = ends[0]["interfaces"]["enp1s0f1np1"]
    assert {one["node"] for one in entry["heard"]} <= {"spark1"}
    assert {(one["cluster"], one["node"]) for one in entry["strangers"]} == {("other", "spark2")}


def test_a_probe_ends_by_itself_and_a_new_one_ends_the_old(make) -> None:
    wires = make(NODES[:1], ())
    wires.start("spark1", window_seconds=600)
    second = wires.start("spark1", run="testrun2", window_seconds=1)
    found = read_result(wires.shell(f"sleep 3; printf '@@fabric@@\\n'; cat {second['folder']}/result.json; printf '\\n@@fabric@@\\n'"))
    assert found["complete"] is False and not (wires.folder / "spark1/testrun1").exists()


@pytest.mark.parametrize(("options", "words"), [
    ({"run": "x"}, "expected 6 to 64 letters or digits"), ({"window_seconds": 5000}, "window_seconds is 5000"),
    ({"interfaces": ["lo"]}, "lo of spark1 is no fabric"),
])
def test_bad_options_fail_with_a_reason(make, options, words) -> None:
    wires = make(NODES[:1], ())
    assert words in wires.start("spark1", **options)["msg"]
