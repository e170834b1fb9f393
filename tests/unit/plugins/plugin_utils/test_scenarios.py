# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Scenarios from stored runs: named runs, inference under common conditions, refusals."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import judge_again, make_report, report_files
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_folder import store
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.run_history import newest_for, newest_of, scenario_run
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_inference import inference_cells
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_name import scenario_of
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_table import NOT_MEASURED, cells, remarks, scenario_reports, scenario_rows
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.summary import summary_lines
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.explaining import FIXTURES
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_bottleneck import run
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_judge import run_of
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_report import SCHEMA, schema_errors

LATE = {"p50": 900.0, "p95": 1234.0, "p99": 2000.0}


def report_of(number: int, *runs: dict[str, Any], name: str = "", **plan: Any) -> dict[str, Any]:
    """Return the report of a run, named and with inference where that is asked for."""
    data = run_of(**plan)
    if runs:
        data["inference"] = {"spark1": {"runs": list(runs)}}
    report = make_report(data, started=f"2026-11-30T22:{number:02d}:00Z", run_id=f"20261130T22{number:02d}00Z-ab12")
    return {**report, "scenario": {"name": name, "network": "100G", "notes": "old switch"}} if name else report


def rows_of(reports: dict[str, Any], *names: str) -> list[dict[str, Any]]:
    entries = [{"name": name} for name in names or reports]
    return scenario_rows(entries, scenario_reports(entries, lambda path: {}, reports.get))


def test_inference_under_common_conditions_stands_in_the_table() -> None:
    a = report_of(1, run(2, 60, request_ms=LATE), run(2, 80, conditions={"concurrency": 64}), run(1, 500), name="A", fabric_link_gbps=100)
    b = report_of(2, run(3, 90), run(3, 92))
    rows = rows_of({"A": a, "B": b}, "A", "B", "C")
    assert cells(rows[0])[:3] == ["A", "100G", "3"] and cells(rows[0])[5:] == ["60.0 tokens/s", "1234.0 ms a request"]
    assert cells(rows[1])[5:] == ["91.0 tokens/s", NOT_MEASURED]
    assert cells(rows[2]) == ["C", "200G RoCE", "6", *[NOT_MEASURED] * 4]
    below = remarks(rows)
    assert "concurrency 8" in below[0] and below[1:] == ["A: inference on 2 nodes", "A: old switch"]
    report = {**report_of(3), "scenarios": rows}
    files = report_files(report)
    assert schema_errors(json.loads(files["report.json"])) == []
    for text in (files["report.html"], files["summary.md"], files["scenarios.md"], " ".join(summary_lines(report))):
        assert "1234.0 ms a request" in text and "old switch" in text
    assert files["scenarios.md"].startswith("# Scenarios of spark\n\n| scenario | network | nodes | RDMA | NCCL | inference throughput | P95 |\n")
    assert "* A: run 20261130T220100Z-ab12; not measured: NCCL\n" in files["scenarios.md"]
    assert files["scenarios.md"].endswith("* C: no stored run; not measured: RDMA, NCCL, inference throughput, P95\n")
    assert "scenarios.md" not in report_files(report_of(3))


def test_what_differs_is_named_with_both_runs() -> None:
    a, b = report_of(1, run(2, 60)), report_of(2, run(6, 90, conditions={"quantisation": "int4"}), run(6, 90, conditions={"model": "x", "stack": "y"}))
    with pytest.raises(FabricError) as raised:
        rows_of({"A": a, "B": b})
    text = str(raised.value)
    assert "A (run 20261130T220100Z-ab12) and B (run 20261130T220200Z-ab12)" in text and "quantisation (fp8 and int4)" in text
    assert "inference.yml" in text and "stack" not in text


def test_three_that_share_nothing_together_are_refused() -> None:
    one, two, three = ({"concurrency": number} for number in (1, 2, 3))
    reports = {"A": report_of(1, run(2, 1, None, one), run(2, 1, None, two)), "B": report_of(2, run(2, 1, None, two), run(2, 1, None, three)),
               "C": report_of(3, run(2, 1, None, one), run(2, 1, None, three))}
    with pytest.raises(FabricError, match=r"that A and B and C share; A \(run 20261130T220100Z-ab12\) and C \(run .*\) differ in concurrency \(2 and 1\)"):
        rows_of(reports)


def test_scenarios_of_as_many_nodes_must_split_the_model_alike() -> None:
    two, six, pipeline = (run(nodes, 60, parallel=text) for nodes, text in ((2, "tensor parallel 2"), (6, "tensor parallel 6"), (6, "pipeline parallel 6")))
    a = report_of(1, two, name="A")
    rows = rows_of({"A": a, "B": report_of(2, six, pipeline), "C": report_of(3, pipeline)}, "A", "B", "C")
    assert [row["parallel"] for row in rows] == ["tensor parallel 2", "pipeline parallel 6", "pipeline parallel 6"]
    assert "B: inference on 6 nodes, split: pipeline parallel 6" in remarks(rows)
    with pytest.raises(FabricError, match=r"B \(run 20261130T220200Z-ab12\) and C \(run 20261130T220300Z-ab12\) .*parallel \(tensor parallel 6 and pipeline"):
        rows_of({"A": a, "B": report_of(2, six), "C": report_of(3, pipeline)})
    with pytest.raises(FabricError, match=r"parallel \(tensor parallel 6 and not stated\)"):
        rows_of({"B": report_of(2, six), "C": report_of(3, run(6, 90))})


def test_inference_of_other_nodes_or_links_is_left_out_and_told() -> None:
    unstated = run(2, 70)
    del unstated["conditions"]["stack"]
    a = report_of(1, run(2, 60), run(3, 99), run(2, 200, 400.0), unstated)
    a["scenario"] = {"name": "A", "nodes": "2"}
    b = report_of(2, run(3, 90))
    b["scenario"] = {"name": "B", "nodes": "6"}
    rows = rows_of({"A": a, "B": b}, "A", "B")
    assert [cells(row)[2] + ": " + cells(row)[5] for row in rows[:2]] == ["2: 60.0 tokens/s", "6: not measured"]
    reasons = ("inference run 4 of spark1 does not state its conditions stack", "inference run 3 of spark1 was measured at 400G, the plan of its run has 200G")
    assert remarks(rows)[1:] == [
        f"A: left out: {'; '.join(reasons)}",
        "B: left out: inference was measured on 3 nodes, not on 6"]


def test_many_reasons_are_counted() -> None:
    found = inference_cells({"A": report_of(1, *(run(2, 60, errors=1) for _place in range(5)))})["A"]
    assert found.inference is None and str(found.left_out).endswith("; 2 more")


def test_a_figure_by_hand_is_not_compared() -> None:
    reports = {"A": report_of(1, run(2, 60)), "B": report_of(2, run(6, 90, conditions={"quantisation": "int4"}))}
    entries = [{"name": "A"}, {"name": "B", "inference": "88 tokens/s"}]
    rows = scenario_rows(entries, scenario_reports(entries, lambda path: {}, reports.get))
    assert [cells(row)[5] for row in rows] == ["60.0 tokens/s", "88 tokens/s", NOT_MEASURED]


def test_runs_with_errors_or_of_other_scenarios_do_not_count() -> None:
    report = report_of(1, run(2, 60, errors=3))
    report["inference"]["spark1 in run 20261130T220900Z-ab12"] = {"runs": [run(2, 99)]}
    cell = inference_cells({"A": report})["A"]
    assert cell.inference is None and str(cell.left_out).startswith("inference run 1 of spark1 had errors")


def test_a_named_run_is_found_kept_and_survives_judging_again(tmp_path: pathlib.Path) -> None:
    for number, name in ((1, "A"), (2, "B"), (3, "A"), (4, ""), (5, "")):
        report = report_of(number, name=name)
        store(tmp_path, report["cluster"], report["run_id"], report_files(report), keep=1)
    base = tmp_path / "spark"
    assert sorted(path.name[9:13] for path in base.iterdir() if path.name != "latest") == ["2201", "2202", "2203", "2205"]
    (base / "20261130T220900Z-ab12").mkdir()
    (base / "20261130T220900Z-ab12/report.json").write_text("{", encoding="utf-8")
    found = newest_of("A", base)
    assert found is not None and found["run_id"] == "20261130T220300Z-ab12" and schema_errors(found) == []
    assert judge_again(found)["scenario"] == found["scenario"]
    assert newest_of("C", base) is None and newest_of("A", tmp_path / "none") is None


@pytest.mark.parametrize(("given", "words"), [
    ({"nam": "A"}, "unknown field 'nam'; expected name, network, nodes, notes"),
    ({"network": "100G"}, "has no name"),
])
def test_a_scenario_that_cannot_be_stored(given: dict[str, Any], words: str) -> None:
    with pytest.raises(FabricError, match=f"report_scenario: {words}"):
        scenario_of(given)


def test_a_scenario_is_stored_as_texts() -> None:
    assert scenario_of({"name": " A ", "nodes": 2, "notes": "", "network": None}) == {"name": "A", "nodes": "2"}
    assert scenario_of({}) == {}
    stored = json.loads(SCHEMA.read_text(encoding="utf-8"))["properties"]["scenario"]["properties"]
    assert set(stored) == {"name", "network", "nodes", "notes"}


def test_the_run_just_judged_counts_as_it_is_now(tmp_path: pathlib.Path) -> None:
    for number, name in ((1, "A"), (2, "")):
        report = report_of(number, name=name)
        store(tmp_path, report["cluster"], report["run_id"], report_files(report), keep=9)
    base, now = tmp_path / "spark", report_of(2, name="A")
    assert scenario_run(now["run_id"], base, now) is now and newest_for("A", base, now) is now
    older = newest_for("A", base, report_of(3))
    assert older is not None and older["run_id"] == "20261130T220100Z-ab12" and newest_for("C", base, now) is None


@pytest.mark.parametrize(("document", "words"), [
    ({}, "it has no schema_version"),
    ({"schema_version": 99, "scenario": {"name": "A"}}, "has schema version 99, this collection knows"),
    ({"schema_version": 2, "run_id": "x", "scenario": "A", "plan": []}, "the run of A is no report of this collection"),
    ({"schema_version": 2, "run_id": "x", "plan": {"link_gbps": "fast", "nodes": []}, "not_tested": []}, "the run of A is no report"),
])
def test_a_run_that_is_no_report_is_refused(tmp_path: pathlib.Path, document: dict[str, Any], words: str) -> None:
    (tmp_path / "20261130T220100Z-ab12").mkdir()
    (tmp_path / "20261130T220100Z-ab12/report.json").write_text(json.dumps(document), encoding="utf-8")
    entries = [{"name": "A", "run": "20261130T220100Z-ab12"}]
    with pytest.raises(FabricError, match=f"report_scenarios: .*{words}"):
        scenario_rows(entries, scenario_reports(entries, lambda name: scenario_run(name, tmp_path, report_of(2)), lambda name: None))
    if document.get("schema_version") == 99:
        with pytest.raises(FabricError, match=f"report_scenarios: the newest run of A: .*{words}"):
            newest_for("A", tmp_path, report_of(2))


def test_a_run_of_an_older_version_fills_a_row() -> None:
    old = json.loads((FIXTURES / "report-version-1.json").read_text(encoding="utf-8"))
    row = rows_of({"old": old})[0]
    assert old["schema_version"] == 1 and row["run_id"] == old["run_id"] and row["rdma"] and row["inference"] is None
