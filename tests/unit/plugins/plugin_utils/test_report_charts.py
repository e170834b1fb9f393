# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Charts of a report: recorded measurements become points, and nothing measured becomes no chart."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.line_chart import Series, drawings, even_steps, powers
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.measured_rows import rungs, sweeps
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import make_report, report_files
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_charts import size_curves, size_text, stream_ladder
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_table import scenario_rows
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.summary import summary_lines
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.sweeps import ladder, nccl_sweep, recorded_iperf3, recorded_nccl, tcp_tests
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_judge import run_of
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_report import schema_errors
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_report_formats import samples_of


def report_with(**measured: Any) -> dict[str, Any]:
    return make_report({**run_of(), "iperf3": {}, **measured})


def test_recorded_runs_of_nccl_tests_become_curves() -> None:
    names = ("all_reduce_2ranks_socket.txt", "all_reduce_4ranks_socket.txt", "alltoall_2ranks_socket.txt")
    report = report_with(nccl={"spark1": recorded_nccl(*names)})
    assert schema_errors(report) == []
    assert [(sweep.collective, sweep.ranks) for sweep in sweeps(report)] == [("all_reduce", 2), ("all_reduce", 4), ("alltoall", 2)]
    sweep = sweeps(report)[0]
    assert [size for size, _busbw, _time in sweep.rows] == sorted(size for size, _busbw, _time in sweep.rows)
    charts = size_curves(report)
    assert [(chart["name"], len(chart["series"])) for chart in charts] == [("all_reduce", 2), ("alltoall", 1)]
    wide, narrow = charts[0]["drawings"]
    assert [len(line["marks"]) for line in wide["lines"]] == [len(one.rows) for one in sweeps(report)[:2]]
    assert not wide["narrow"] and narrow["narrow"]
    page = report_files(report)["report.html"]
    assert "NCCL by message size" in page and "message size" in page and "all_reduce: bus bandwidth" in page


def test_recorded_runs_of_iperf3_become_a_ladder() -> None:
    data = run_of()
    way = {"client": "spark1", "server": "spark2", "rail": "a", "with_twin": False}
    names = {1: "iperf3-P1.json", 4: "iperf3-P4.json", 8: "iperf3-fail-refused.json"}
    records = [recorded_iperf3(names[test["streams"]], test) for test in tcp_tests(data["plan"], **way)]
    report = make_report({**data, "iperf3": {"spark1": {"tests": records}}})
    assert [(rung.streams, rung.rail) for rung in rungs(report)] == [(1, "a"), (4, "a")]
    found = stream_ladder(report)
    assert found is not None and [label["text"] for label in found["drawings"][0]["x_labels"]] == ["1 stream", "4 streams"]
    assert stream_ladder(report, "spark3") is None
    files = report_files(report)
    assert all("TCP by number of streams" in files[name] for name in ("report.html", "spark1.html", "spark2.html", "summary.md"))
    assert "TCP by number of streams" not in files["spark3.html"]


def test_both_rails_at_once_are_one_edge() -> None:
    data = run_of()
    pair = tcp_tests(data["plan"], client="spark1", server="spark2", with_twin=True, streams=4)
    records = [{**recorded_iperf3("iperf3-P4.json", test), "gbps": gbps} for test, gbps in zip(pair, (60.0, 50.0))]
    report = make_report({**data, "iperf3": {"spark1": {"tests": records}}})
    assert [(rung.rail, rung.gbps, rung.expected_gbps) for rung in rungs(report)] == [("both", 110.0, sum(test["expected_gbps"] for test in pair))]
    report = make_report({**data, "iperf3": {"spark1": {"tests": records[:1]}}})
    assert rungs(report) == []


@pytest.mark.parametrize("measured", [
    {},
    {"nccl": {"spark1": {"runs": []}}, "iperf3": {"spark1": {"tests": []}}},
    {"nccl": {"spark1": None}, "iperf3": {"spark1": None}},
    {"nccl": {"spark1": {"runs": [{"collective": "all_reduce_perf", "rows": []}]}}},
    {"nccl": {"spark1": {"runs": [{"rows": [{"size_bytes": 8, "out_of_place": {"time_us": None, "busbw_gbytes_per_s": 0.0}, "in_place": None}]}]}}},
    {"iperf3": {"spark1": {"tests": [{"id": "r15-spark1-spark2-a", "role": "client", "status": "failed", "message": "refused", "gbps": None}]}}},
])
def test_what_was_not_measured_has_no_chart(measured: dict[str, Any]) -> None:
    report = report_with(**measured)
    assert size_curves(report) == [] and stream_ladder(report) is None
    page = report_files(report)["report.html"]
    assert "polyline" not in page and 'id="tcp"' not in page and 'id="nccl"' not in page


def test_many_edges_are_summed_up_and_their_table_is_folded() -> None:
    data = run_of("switch", 8)
    report = make_report({**data, "iperf3": ladder(data["plan"])})
    found = stream_ladder(report)
    assert found is not None and found["series"] == ["highest edge", "median edge", "lowest edge"]
    assert found["table"]["folded"] and len(found["table"]["rows"]) == len({(r.client, r.server, r.rail) for r in rungs(report)})
    assert found["drawings"][0]["reference"]["text"] == "expected 109.0"


def test_programs_and_scenarios_get_the_figures_too() -> None:
    data = run_of()
    report = make_report({**data, "iperf3": ladder(data["plan"]), "nccl": {"spark1": {"runs": [nccl_sweep("all_reduce", ["spark1", "spark2", "spark3"])]}}})
    found = samples_of(report)
    assert len(found["tcp_bits_per_second"]) == len(rungs(report)) > 0
    assert found["nccl_bus_bytes_per_second"] == [({"cluster": "spark", "collective": "all_reduce", "ranks": "3"}, pytest.approx(24e9, rel=0.01))]
    lines = summary_lines(report)
    assert "TCP: 92.0 to 96.8 Gb/s with 8 streams, 12 edges measured rail by rail." in lines
    assert "NCCL: all_reduce 24.0 GB/s at 8 GiB, 3 ranks." in lines and len(lines) <= 24
    row = scenario_rows([{"name": "C", "run": "x"}], {"C": report})[2]
    assert row["nccl"] == "all_reduce 24.0 GB/s at 8 GiB, 3 ranks"


def test_the_axis_is_logarithmic_and_a_far_reference_is_left_out() -> None:
    series = [Series("x", ((1024.0, 1.0), (32768.0, 2.0), (1048576.0, 4.0)))]
    wide = drawings(series, size_text, "size", "GB/s", (100.0, "far"))[0]
    places = [mark["x"] for mark in wide["lines"][0]["marks"]]
    assert places[1] - places[0] == pytest.approx(places[2] - places[1], abs=0.2)
    assert wide["reference"] is None
    assert drawings(series, size_text, "size", "GB/s", (5.0, "near"))[0]["reference"]["text"] == "near"
    with pytest.raises(ValueError, match="needs a point"):
        drawings([], size_text, "size", "GB/s")


def test_figures_that_are_all_zero_are_drawn() -> None:
    """nccl-tests prints 0.00 below 5 MB/s, which a fabric that crawls gives at every size."""
    (drawing, *_more) = drawings([Series("a", ((1024.0, 0.0), (2048.0, 0.0)))], size_text, "size", "GB/s", None)
    assert [label["text"] for label in drawing["y_labels"]] == ["0", "1"]
    assert {mark["y"] for mark in drawing["lines"][0]["marks"]} == {drawing["bottom"]}


def test_steps_and_labels() -> None:
    assert even_steps(24.5) == [0, 10, 20, 30]
    assert even_steps(0.31) == [0, 0.1, 0.2, 0.3, 0.4]
    assert powers(1024, 2**33, 5) == [2.0**power for power in (10, 15, 20, 25, 30)]
    assert powers(3.0, 3.5, 5) == [3.0]
    assert [size_text(size) for size in (8, 1024, 1536, 2**30)] == ["8 B", "1 KiB", "1.5 KiB", "1 GiB"]
