# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Screen, then diagnose: what is repeated, and what the repetitions make of the verdict."""

from __future__ import annotations

import copy
import json
from collections import Counter
from typing import Any, Callable

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils import checks_retests
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.diagnosis import diagnosis_plan
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.job_results import after, by_tool
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.judge import judge
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.localise import Transfer, places
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.results import collect_results
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy, test_judge

Data = dict[str, Any]
CABLE = test_judge.CABLE


def diagnosed(data: Data, figure: Callable[[Data], float | None]) -> Data:
    """Add a diagnosis in which each test reaches what ``figure`` says of it (a share of the expected rate, None for a failure)."""
    data["diagnosis"] = diagnosis_plan(data)["tests"]
    for test in data["diagnosis"]:
        share = figure(test)
        for role in ("client", "server"):
            record = healthy.end_record(test, role, data["plan"])
            if share is None:
                record.update(status="failed", gbps=None, error="transport_retry_exceeded", message="Failed status 12")
            elif role == "client":
                record["gbps"] = share * test["expected_gbps"]
            data["perftest"][test[role]]["tests"].append(record)
    return data


def told(data: Data) -> list[tuple[str, str, str]]:
    """Return what is neither pass nor skip: id, status, subject."""
    return [(one["id"], one["status"], one["subject"]) for one in test_judge.troubles(judge(data))]


@pytest.mark.parametrize(("topology", "count"), [("pair", 2), ("mesh", 3), ("ring", 4), ("switch", 5)])
def test_a_healthy_cluster_has_nothing_to_repeat(topology: str, count: int) -> None:
    plan = diagnosis_plan(test_judge.run_of(topology, count))
    assert (plan["tests"], plan["rounds"], plan["further_tests"], plan["measuring"]) == ([], 0, [], [])


@pytest.mark.parametrize("fault", [test_judge.cut, test_judge.mtu_hole, test_judge.firewall, test_judge.without_perftest, test_judge.no_rdma_device])
def test_what_has_its_cause_already_is_not_repeated(fault: Callable[[Data], None]) -> None:
    data = test_judge.run_of()
    fault(data)
    assert diagnosis_plan(data)["tests"] == []


def test_what_fell_short_is_repeated_alone_with_and_without_its_twin_and_both_ways() -> None:
    data = test_judge.run_of()
    test_judge.slow_one_way(data)
    plan = diagnosis_plan(data)
    assert Counter((test["kind"], test["client"], test["rail"], test["with_twin"]) for test in plan["tests"]) == {
        ("repeat", "spark1", "a", True): 2, ("repeat", "spark1", "b", True): 2, ("alone", "spark1", "a", False): 2, ("alone", "spark2", "a", False): 2}
    assert plan["measuring"] == ["spark1", "spark2"] and plan["rounds"] == 6
    assert {test["expected_gbps"] for test in plan["tests"] if test["kind"] == "alone"} == {109.0}
    assert {tuple(test["cables"]) for test in plan["tests"]} == {(CABLE,)}
    swapped = next(test for test in plan["tests"] if test["client"] == "spark2")
    assert (swapped["client_device"], swapped["server_device"]) == ("rocep1s0f1", "rocep1s0f0")


def test_cables_without_a_common_node_are_diagnosed_at_once() -> None:
    data = test_judge.run_of("ring", 4)
    for cable in ("spark1:0-spark2:1", "spark3:0-spark4:1"):
        for record in healthy.records(data, cable, "a", "directed"):
            record["gbps"] = None if record["gbps"] is None else 0.5 * record["gbps"]
    plan = diagnosis_plan(data)
    for number in range(plan["rounds"]):
        tests = [test for test in plan["tests"] if test["round"] == number]
        assert len({test["port"] for test in tests}) == len(tests)
        assert {test["cables"][0] for test in tests} == {"spark1:0-spark2:1", "spark3:0-spark4:1"}
    limited = test_judge.run_of("ring", 4, fabric_max_concurrent_tests=2)
    for record in healthy.records(limited, rail="a", stage="directed"):
        record["gbps"] = None if record["gbps"] is None else 0.5 * record["gbps"]
    assert max(Counter(test["round"] for test in diagnosis_plan(limited)["tests"]).values()) == 2


def test_repeating_can_be_switched_off() -> None:
    data = test_judge.run_of("mesh", 3, fabric_test_repeats=0)
    test_judge.slow_rail(data)
    assert diagnosis_plan(data)["tests"] == []


def test_always_bad_stays_what_it_was() -> None:
    data = test_judge.run_of()
    test_judge.slow_one_way(data)
    assert told(diagnosed(data, lambda test: 0.6 if test["client"] == "spark1" and test["rail"] == "a" else 0.99)) == [
        ("rdma.rail_bandwidth", "fail", f"{CABLE}/a")]


def test_now_and_then_is_flaky_and_never_good_at_first_success() -> None:
    data = test_judge.run_of()
    test_judge.slow_one_way(data)
    runs = iter([0.6, 0.99, 0.99, 0.99, 0.99, 0.99, 0.99, 0.99])
    data = diagnosed(data, lambda test: next(runs))
    (finding,) = test_judge.troubles(judge(data))
    assert (finding["id"], finding["status"], finding["subject"], finding["actual"]) == ("rdma.flaky", "fail", f"{CABLE}/a", 2)
    assert "spark1 -> spark2 fell short in 2 of 3 runs: 65.0 of 98.0 Gb/s, 58.8 of 98.0 Gb/s" in finding["message"]
    assert any(key.startswith("d0-") for key in finding["evidence"])


def test_good_again_and_again_when_alone_is_a_warning() -> None:
    data = test_judge.run_of()
    test_judge.slow_one_way(data)
    data = diagnosed(data, lambda test: 0.99)
    (finding,) = test_judge.troubles(judge(data))
    assert (finding["id"], finding["status"], finding["actual"]) == ("rdma.unsteady", "warn", 1)
    assert "1 of 3 runs" in finding["message"]


@pytest.mark.parametrize("fault", [test_judge.zero_row, test_judge.retry_exceeded, test_judge.hanging])
def test_no_figure_at_first_and_a_good_one_later_is_flaky(fault: Callable[[Data], None]) -> None:
    data = test_judge.run_of()
    fault(data)
    found = told(diagnosed(data, lambda test: 0.99))
    assert [(rule, status) for rule, status, _subject in found] == [("rdma.flaky", "fail")]


def test_good_alone_and_never_together_is_what_both_rails_share() -> None:
    data = test_judge.run_of()
    for record in healthy.records(data, CABLE, stage="directed"):
        record["gbps"] = None if record["gbps"] is None else 49.0
    data = diagnosed(data, lambda test: 0.5 if test["kind"] == "repeat" else 0.9)
    (finding,) = test_judge.troubles(judge(data))
    assert (finding["id"], finding["status"], finding["subject"]) == ("rdma.shared_limit", "fail", CABLE)
    assert "98.1 of 109.0 Gb/s" in finding["message"]


def test_one_way_good_and_both_ways_bad_each_time_is_a_degraded_cable() -> None:
    data = test_judge.run_of()
    test_judge.degraded_cable(data)
    assert told(diagnosed(data, lambda test: 0.56)) == [("rdma.degraded_cable", "fail", CABLE)]


def test_a_diagnosis_that_never_ran_changes_nothing() -> None:
    data = test_judge.run_of()
    test_judge.slow_rail(data)
    before = told(copy.deepcopy(data))
    data["diagnosis"] = diagnosis_plan(data)["tests"]
    assert told(data) == before


def test_the_report_keeps_the_repetitions() -> None:
    data = test_judge.run_of()
    test_judge.slow_rail(data)
    report = judge(diagnosed(data, lambda test: 0.6))
    rail = next(cable for cable in report["cables"] if cable["name"] == CABLE)["rails"]["a"]
    assert Counter(one["kind"] for one in rail["retests"]) == {"repeat": 6, "alone": 8}
    assert judge(json.loads(json.dumps({**data}))) == report


def transfers(bad: Callable[[str, str, str], bool]) -> list[Transfer]:
    """Return the one-way transfers of a ring of four, both rails."""
    found = []
    for here in range(4):
        there, cable = (here + 1) % 4, f"c{here}"
        for sender, receiver in ((f"n{here}", f"n{there}"), (f"n{there}", f"n{here}")):
            found += [Transfer(sender, receiver, cable, cable, rail, bad(sender, receiver, rail)) for rail in "ab"]
    return found


@pytest.mark.parametrize(("bad", "wanted"), [
    (lambda sender, receiver, rail: "n1" in (sender, receiver), {("c0", "a"): ("node", "n1"), ("c1", "b"): ("node", "n1")}),
    (lambda sender, receiver, rail: rail == "a" and "n1" in (sender, receiver), {("c0", "a"): ("node_rail", "n1"), ("c1", "a"): ("node_rail", "n1")}),
    (lambda sender, receiver, rail: rail == "b" and sender == "n2", {("c1", "b"): ("node_sends", "n2"), ("c2", "b"): ("node_sends", "n2")}),
    (lambda sender, receiver, rail: rail == "b" and receiver == "n2", {("c1", "b"): ("node_receives", "n2"), ("c2", "b"): ("node_receives", "n2")}),
    (lambda sender, receiver, rail: {sender, receiver} == {"n0", "n1"}, {("c0", "a"): ("cable", None), ("c0", "b"): ("cable", None)}),
    (lambda sender, receiver, rail: {sender, receiver} == {"n0", "n1"} and rail == "a", {("c0", "a"): ("rail", None)}),
    (lambda sender, receiver, rail: (sender, receiver, rail) == ("n0", "n1", "a"), {("c0", "a"): ("direction", None)}),
    (lambda sender, receiver, rail: rail == "a", {(f"c{place}", "a"): ("everything", None) for place in range(4)}),
])
def test_faults_are_put_where_the_tests_that_share_something_point(bad: Callable[[str, str, str], bool], wanted: dict[Any, Any]) -> None:
    found = {key: (place.kind, place.node) for key, place in places(transfers(bad)).items()}
    assert {key: found[key] for key in wanted} == wanted
    assert all(place.text for place in places(transfers(bad)).values())


def test_results_of_two_jobs() -> None:
    fact = {"run": "r", "node": "n", "status": "done", "message": "", "version": "6.24", "tests": [
        {"id": "a", "tool": "ib_write_bw"}, {"id": "b", "tool": "iperf3", "version": "3.18"}]}
    perftest, iperf3 = by_tool(fact)
    assert ([test["id"] for test in perftest["tests"]], perftest["version"]) == (["a"], "6.24")
    assert ([test["id"] for test in iperf3["tests"]], iperf3["version"]) == (["b"], "3.18")
    both = after(perftest, {**fact, "status": "not_started", "tests": [{"id": "d"}]})
    assert (both["status"], [test["id"] for test in both["tests"]]) == ("done", ["a", "d"])
    assert after(perftest, {"status": "lost", "message": "gone", "tests": []})["status"] == "lost"
    collected = collect_results({"n": {"fabric_plan": {"cables": []}, "fabric_iperf3": iperf3, "fabric_diagnosis": [{"id": "d"}]}}, ["n"], ["n"])
    assert (collected["iperf3"], collected["diagnosis"]) == ({"n": iperf3}, [{"id": "d"}])


def test_without_repetitions_there_are_no_facts() -> None:
    assert checks_retests.retest_facts([{"test": "a", "state": "ok"}], {}, bool) is None
