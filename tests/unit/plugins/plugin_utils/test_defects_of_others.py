# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mistakes that validators of such fabrics are known to make, each with a test that this one does not: one section a mistake."""

from __future__ import annotations

import collections
import importlib
import pathlib
from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.module_utils import nccl_tests_output, perftest_output
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.judge import judge
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import make_report
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_view import Pages
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.explaining import FIXTURES, finding, ids, of_file, of_text, words
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_judge import CABLE, run_of, small_rdma_mtu, troubles, wrong_gid, zero_row

HEAD = """# Collective test starting: all_gather_perf
# nThread 1 nGpus 1 minBytes 1073741824 maxBytes 1073741824 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   100 on node1 device  0 [000f:01:00] NVIDIA GB10
#  Rank  1 Group  0 Pid   101 on node2 device  0 [000f:01:00] NVIDIA GB10
{more}#
#{stamp}       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#{stamp}        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
"""
ROW = "  1073741824     268435456     float    none      -1    {time}   {alg}   {bus}       {wrong}    {time}   {alg}   {bus}       {wrong}\n"
FOOT = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {bus}\n#\n# Collective test concluded: all_gather_perf\n"
RDMA = "node1:1:1 [0] NCCL INFO Using network IB\nnode1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0\n"


def table(bus: str, wrong: str = "0", more: str = "") -> str:
    """Return the output of a run of two or more ranks."""
    figures = {"time": "23110", "alg": "46.46", "bus": bus, "wrong": wrong}
    return HEAD.format(more=more, stamp="") + ROW.format(**figures) + FOOT.format(bus=bus if bus[:1].isdigit() else "0")


def rows_of(name: str) -> list[nccl_tests_output.Row]:
    reader = nccl_tests_output.Reader()
    for line in (FIXTURES / "explain/nccl-tests" / name).read_text(encoding="utf-8").splitlines():
        reader.line(line)
    return reader.runs[0].rows


# 1 and 10: columns counted from the right, which times of day (-S), per-iteration columns (-I) and N/A move


def test_columns_go_by_the_heading_and_not_by_their_number() -> None:
    plain, moved = rows_of("all_reduce_1rank_min_bw_failed.txt"), rows_of("all_reduce_1rank_per_iteration_timestamp_nccl_debug_info.txt")
    assert all(row.timestamp and row.out_of_place.iterations for row in moved)
    for row in (*plain, *moved):
        for measure in (row.out_of_place, row.in_place):
            # algbw is size over time, whatever stands beside it
            assert measure.time_us is not None and measure.algbw_gbytes_per_s == pytest.approx(row.size_bytes / measure.time_us / 1e3, rel=0.02, abs=0.01)


# 2: groups of k drop what is left over, and nodes without a partner are not tested


@pytest.mark.parametrize("count", [*range(2, 14), 31, 64])
def test_every_node_sends_and_receives_on_every_rail(count: int) -> None:
    plan = healthy.plan_of("switch", count)
    for stage, roles in (("directed", ("client", "server")), ("bidirectional", ())):
        tests = [test for test in plan["tests"] if test["stage"] == stage]
        for role in roles:
            assert {(test[role], test["rail"]) for test in tests} == {(node, rail) for node in plan["nodes"] for rail in "ab"}
        assert {(test[end], test["rail"]) for test in tests for end in ("client", "server")} == {(node, rail) for node in plan["nodes"] for rail in "ab"}


# 3: half a second, or five, for the server to be ready, and no look whether it is


def test_a_server_that_is_late_is_waited_for(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(pathlib.Path(__file__).resolve().parents[1] / "module_utils"))
    loopback_cluster = importlib.import_module("loopback_cluster")
    pair = loopback_cluster.Loopback(tmp_path, 2)
    identity = pair.test(0, "n1", "n2")
    pair.faults[f"{pair.port(identity)}/server"] = "late"
    records = pair.run()
    assert {(record[identity]["status"], record[identity]["gbps"]) for record in records.values()} == {("ok", 98.21)}
    assert records["n1"][identity]["attempts"] == 1


# 4: the exit status of the server is lost, and a size is looked for as a part of the line


def test_what_the_server_says_counts() -> None:
    data = run_of()
    for record in healthy.records(data, CABLE, "a", "directed", "spark1"):
        if record["role"] == "server":
            record.update(status="failed", error="exit_status", message="ib_write_bw ended with status 1")
    assert [(one["id"], one["subject"]) for one in troubles(judge(data))] == [("rdma.failed", f"{CABLE}/a")]


def test_a_size_is_a_number_and_no_part_of_a_line() -> None:
    text = (FIXTURES / "perftest/ib_write_bw-a-n5.client.txt").read_text(encoding="utf-8")
    output = perftest_output.parse(text)
    row = perftest_output.bandwidth_of(output, 64)
    assert row is not None and row.size_bytes == 64
    assert perftest_output.bandwidth_of(output, 5) is None, "5 stands in every line as the number of iterations"


# 5: a test that is repeated passes with its first success


@pytest.mark.parametrize("good", [0, 1])
def test_one_success_of_two_is_no_pass(good: int) -> None:
    """On a switch each cable is tested with two partners: a cable that fails with one of them only is not green."""
    data = run_of("switch", 6)
    mine = [test["id"] for test in data["plan"]["tests"] if test["stage"] == "directed" and test["client"] == "spark3" and test["rail"] == "a"]
    assert len(mine) == 2
    for record in healthy.records(data):
        if record["id"] == mine[1 - good] and record["gbps"]:
            record["gbps"] *= 0.4
    assert [one["status"] for one in troubles(judge(data))] == ["fail"]


# 6: thirteen tokens or nothing, figures cut to whole numbers, and the node left over is paired with a busy one


def test_fractions_are_kept_and_other_numbers_of_columns_are_read() -> None:
    assert finding(of_text(table("23.49") + RDMA), "nccl.bandwidth")["actual"] == 23.49
    unchecked = of_text(table("23.49", "N/A") + RDMA)
    assert finding(unchecked, "nccl.bandwidth")["actual"] == 23.49 and "nccl.not_checked" in ids(unchecked)


@pytest.mark.parametrize("count", range(3, 14))
@pytest.mark.parametrize("pairs", ["neighbours", "all"])
def test_no_node_has_two_tests_at_once(count: int, pairs: str) -> None:
    plan = healthy.plan_of("switch", count, fabric_switch_pairs=pairs)
    busy: dict[tuple[Any, ...], int] = collections.Counter()
    for test in plan["tests"]:
        ends = ("sends", "receives") if test["stage"] == "directed" else ("both", "both")
        for end, what in zip(("client", "server"), ends):
            busy[test["round"], test[end], test["rail"], what] += 1
    assert max(busy.values()) == 1


# 7: an odd node is paired with the empty string, and one limit serves all hardware


@pytest.mark.parametrize("count", [3, 5, 7, 63])
def test_every_test_has_two_different_nodes(count: int) -> None:
    plan = healthy.plan_of("switch", count)
    assert all(test["client"] in plan["nodes"] and test["server"] in plan["nodes"] and test["client"] != test["server"] for test in plan["tests"])


def test_limits_follow_the_hardware() -> None:
    for link, share in ((100, 49.0), (200, 98.0)):
        tests = healthy.plan_of("pair", 2, fabric_link_gbps=link)["tests"]
        assert {test["expected_gbps"] for test in tests if test["stage"] == "directed"} == {share}
    assert judge(run_of("pair", 2, fabric_link_gbps=100))["verdict"]["status"] == "pass"


# 8: red is the largest value, so the best bandwidth looks like the worst


def test_the_best_figure_never_looks_like_a_fault() -> None:
    data = run_of()
    for record in healthy.records(data, CABLE, "a", "directed"):
        record["gbps"] = record["gbps"] and record["gbps"] * 1.05
    for record in healthy.records(data, CABLE, "b", "directed"):
        record["gbps"] = record["gbps"] and record["gbps"] * 0.5
    cell = {rail["rail"]: rail["ways"]["forward"] for row in Pages(make_report(data)).rows if row["name"] == CABLE for rail in row["rails"]}
    assert cell["a"]["status"] == "pass" and cell["b"]["status"] == "fail"
    assert cell["a"]["bar"]["value"] > cell["b"]["bar"]["value"]


# 9: the average is printed and never judged, and a run over TCP looks well


def test_a_low_average_and_a_run_over_tcp_fail() -> None:
    assert "nccl.bandwidth" in ids(of_text(table("3.04") + RDMA), "fail")
    assert ids(of_file("explain/field/F58-socket.log"), "fail") == {"nccl.transport"}


# 10: a limit that nothing can be compared with passes


@pytest.mark.parametrize("text", [table("nan") + RDMA, table("23.4").partition("  1073741824")[0], "", "nothing of the kind\n"])
def test_no_number_is_no_pass(text: str) -> None:
    assert of_text(text)["verdict"]["status"] == "fail"


def test_a_load_test_without_a_figure_is_no_pass() -> None:
    data = run_of()
    for record in healthy.records(data, CABLE, "a", "directed"):
        record["gbps"] = None
    assert [(one["id"], one["status"]) for one in troubles(judge(data))] == [("rdma.measured", "unknown")]


# 11: a ring's limit of 10 GB/s also passes a ring that lost one twin of each hop, and two runs one after the other are added up


def test_a_ring_that_lost_one_twin_of_each_hop_fails() -> None:
    more = "#  Rank  2 Group  0 Pid   102 on node3 device  0 [000f:01:00] NVIDIA GB10\n"
    document = of_text(table("12.1", more=more) + RDMA, topology="ring")
    assert finding(document, "nccl.bandwidth")["status"] == "fail" and "one rail of two" in words(document)


def test_rails_are_added_up_only_where_they_ran_together() -> None:
    data = run_of("pair", 2)
    sums = {}
    for together in (True, False):
        if not together:
            for test in data["plan"]["tests"]:
                test["round"] += 10 if test["rail"] == "b" else 0
        report = judge(data)
        sums[together] = [one["status"] for one in report["findings"] if one["id"] == "rdma.cable_bandwidth"]
    assert sums == {True: ["pass"], False: ["skip"]}


# 12: nobody looks whether both twins carried data, with the right GID and MTU, nor says which cable


@pytest.mark.parametrize(("fault", "rule_id"), [(zero_row, "rdma.zero"), (wrong_gid, "rdma.gid"), (small_rdma_mtu, "rdma.mtu")])
def test_the_wrong_way_is_seen_and_the_cable_named(fault: Any, rule_id: str) -> None:
    data = run_of()
    fault(data)
    assert [(one["id"], one["cable"]) for one in troubles(judge(data))] == [(rule_id, CABLE)]


def test_tests_use_the_devices_at_the_ends_of_the_cable() -> None:
    plan = healthy.plan_of("ring", 5)
    for test in plan["tests"]:
        for end in ("client", "server"):
            interface = next(one for one in plan["nodes"][test[end]]["interfaces"].values() if one["rdma_device"] == test[f"{end}_device"])
            assert (interface["cable"], interface["rail"], interface["address"]) == (test["cables"][0], test["rail"], test[f"{end}_address"])
