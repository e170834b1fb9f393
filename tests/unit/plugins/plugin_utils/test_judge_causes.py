# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults that figures do not show, or that other cables seem to share: lost packets, prefixes, clocks, tests that could not run."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.judge import judge
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy

CABLE = "spark1:0-spark2:1"
MLX5 = ("port_xmit_packets", "packet_seq_err")
RXE = ("sent_pkts", "rcvd_seq_err")

Data = dict[str, Any]


def run_of(topology: str = "mesh", count: int = 3, **variables: Any) -> Data:
    return healthy.healthy_run(healthy.plan_of(topology, count, **variables))


def broken(report: Data, *statuses: str) -> list[tuple[str, str]]:
    return [(one["id"], one["subject"]) for one in report["findings"] if one["status"] in (statuses or ("fail", "unknown"))]


def passing(report: Data) -> set[str]:
    return {cable["name"] for cable in report["cables"] if cable["status"] == "pass"}


def lose(records: list[Data], back: int, names: tuple[str, str] = MLX5, share: float = 1.0) -> None:
    """Let the senders of some tests go back so many times in 100000 packets; they reach a share of their rate."""
    for record in records:
        if record["role"] == "client":
            record.update(gbps=record["gbps"] * share, counters={names[0]: 100000, names[1]: back})


@pytest.mark.parametrize("names", [MLX5, RXE])
@pytest.mark.parametrize(("back", "share", "status"), [(0, 1.0, None), (3, 1.0, "warn"), (700, 1.0, "fail"), (700, 0.5, "fail"), (9000, 0.02, "fail")])
def test_lost_packets_are_told_by_counters_however_good_the_figure(names: tuple[str, str], back: int, share: float, status: str | None) -> None:
    data = run_of()
    lose(healthy.records(data, CABLE, "a"), back, names, share)
    report = judge(data)
    assert broken(report, "warn", "fail", "unknown") == ([("rdma.loss", f"{CABLE}/a")] if status else [])
    if status == "fail":
        (finding,) = (one for one in report["findings"] if one["id"] == "rdma.loss" and one["status"] == "fail")
        assert finding["actual"] == back / 1000 and "% of the packets" in finding["message"]
        assert passing(report) == {"spark1:1-spark3:0", "spark2:0-spark3:1"}


def test_losses_in_both_directions_are_those_of_the_worse_sender() -> None:
    data = run_of()
    for record in healthy.records(data, CABLE, "b", "bidirectional"):
        record["counters"] = {"port_xmit_packets": 1000, "local_ack_timeout_err": 4 if record["role"] == "server" else 0}
    assert broken(judge(data)) == [("rdma.loss", f"{CABLE}/b")]


def test_hanging_tests_are_explained_by_losses_of_others_on_the_rail() -> None:
    data = run_of()
    lose(healthy.records(data, CABLE, "a", "directed"), 8000)
    for record in healthy.records(data, CABLE, "a", "bidirectional"):
        record.update(status="timeout", gbps=None, message="no end within the deadline")
    assert broken(judge(data)) == [("rdma.loss", f"{CABLE}/a")]


def test_a_path_that_carries_nothing_is_no_loss() -> None:
    data = run_of()
    for record in healthy.records(data, CABLE, "a"):
        record.update(status="timeout", gbps=None, message="no end within the deadline", counters={"sent_pkts": 200, "completer_retry_err": 40})
    assert broken(judge(data)) == [("rdma.timeout", f"{CABLE}/a")]


def test_on_a_switch_losses_are_put_down_to_the_cable_that_all_lossy_tests_share() -> None:
    data = run_of("switch", 4)
    lose(healthy.records(data, "spark3:1-switch", "b"), 900)
    report = judge(data)
    assert broken(report) == [("rdma.loss", "spark3:1-switch/b")]
    assert passing(report) == {f"spark{number}:1-switch" for number in (1, 2, 4)}


def take_link(data: Data, node: str, interface: str) -> None:
    data["nodes"][node]["interfaces"][interface].update(carrier=False, operstate="down", addresses=[], speed_mbps=None)
    data["nodes"][node]["rdma_devices"][data["plan"]["nodes"][node]["interfaces"][interface]["rdma_device"]].update(state="DOWN", gids=[])


@pytest.mark.parametrize(("topology", "count", "cable", "interfaces"), [
    ("switch", 3, "spark1:1-switch", ("enp1s0f1np1", "enP2p1s0f1np1")), ("switch", 2, "spark1:1-switch", ("enp1s0f1np1", "enP2p1s0f1np1")),
    ("mesh", 3, CABLE, ("enp1s0f0np0", "enP2p1s0f0np0")), ("ring", 4, CABLE, ("enp1s0f0np0", "enP2p1s0f0np0"))])
@pytest.mark.parametrize("rail", [None, "b"])
def test_tests_that_one_end_hindered_are_no_fault_of_the_other_end(
    topology: str, count: int, cable: str, interfaces: tuple[str, str], rail: str | None
) -> None:
    data = run_of(topology, count)
    for interface in interfaces if rail is None else interfaces[1:]:
        take_link(data, "spark1", interface)
    for entry in healthy.entries(data, cable, rail):
        entry.update(received=0, small_received=0)
    left_out = {"status": "not_run", "gbps": None, "latency_us": None, "error": "link_down", "message": "the link on spark1 is down", "guilty_node": "spark1"}
    for stage in (None, "read", "send", "write_latency", "send_latency"):
        for record in healthy.records(data, cable, rail, stage):
            record.update(left_out)
    for record in healthy.records(data, cable, rail, where="iperf3"):
        record.update(left_out)
    report = judge(data)
    assert broken(report) == [("link.carrier", cable) if rail is None else ("link.one_twin", f"{cable}/b")]
    others = {one["name"]: one["status"] for one in report["cables"] if one["name"] != cable}
    assert set(others.values()) == ({"skip"} if (topology, count, rail) == ("switch", 2, None) else {"pass"})


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize(("rule_id", "status", "error"), [("rdma.control_port", "control_blocked", "control_timeout"), ("rdma.tool", "failed", "tool_missing")])
def test_on_a_switch_a_node_that_cannot_be_met_spoils_its_own_cable_alone(count: int, rule_id: str, status: str, error: str) -> None:
    data = run_of("switch", count, fabric_rdma_tests=[], fabric_iperf3_streams=[])
    tests = {test["id"]: test for test in data["plan"]["tests"]}
    for node, job in data["perftest"].items():
        for record in job["tests"]:
            test = tests[record["id"]]
            if "spark2" in (test["client"], test["server"]) and (rule_id == "rdma.tool" or test["server"] == "spark2"):
                told = node == ("spark2" if rule_id == "rdma.tool" else test["client"])
                other = next(name for name in (test["client"], test["server"]) if name != node)
                words = "spark2 cannot be met"
                mine = status if told or rule_id == "rdma.tool" else "peer_absent"
                record.update(status=mine, gbps=None, error=error, message=words if told else f"{other} says: {words}")
    report = judge(data)
    assert broken(report) == [(rule_id, "spark2")]
    others = {one["name"]: one["status"] for one in report["cables"] if one["name"] != "spark2:1-switch"}
    assert set(others.values()) <= ({"pass", "skip"} if count == 2 else {"pass"})


@pytest.mark.parametrize(("found", "says"), [("192.168.177.12/28", "/28"), ("192.168.177.12/16", "/16")])
def test_a_wrong_prefix_is_told_at_its_interface_alone(found: str, says: str) -> None:
    data = run_of()
    data["nodes"]["spark2"]["interfaces"]["enp1s0f1np1"]["addresses"] = [found]
    report = judge(data)
    assert broken(report, "warn", "fail", "unknown") == [("address.prefix", "spark2:enp1s0f1np1")]
    (finding,) = (one for one in report["findings"] if one["status"] == "fail")
    assert says in finding["message"] and "/24" in finding["message"]


@pytest.mark.parametrize(("offset", "status", "says"), [
    (None, None, ""), (4.0, None, ""), (-75.0, "warn", "1.2 minutes behind"), (86400.0, "fail", "1.0 days ahead of"), (-7200.0, "fail", "2.0 hours behind")])
def test_a_clock_that_is_wrong_is_named(offset: float | None, status: str | None, says: str) -> None:
    data = run_of()
    data["nodes"]["spark2"]["clock_offset_seconds"] = offset
    report = judge(data)
    found = [one for one in report["findings"] if one["status"] in ("warn", "fail", "unknown")]
    assert [(one["id"], one["subject"], one["status"]) for one in found] == ([("node.clock", "spark2", status)] if status else [])
    assert all(says in one["message"] for one in found)
    assert passing(report) == {cable["name"] for cable in data["plan"]["cables"]}
