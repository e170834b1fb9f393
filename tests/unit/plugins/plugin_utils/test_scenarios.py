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
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.run_history import newest_of
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_inference import inference_cells
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_name import scenario_of
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_table import NOT_MEASURED, cells, remarks, scenario_reports, scenario_rows
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.summary import summary_lines
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
    assert len(below) == 2 and "concurrency 8" in below[0] and below[1] == "A: old switch"
    report = {**report_of(3), "scenarios": rows}
    files = report_files(report)
    assert schema_errors(json.loads(files["report.json"])) == []
    for text in (files["report.html"], files["summary.md"], " ".join(summary_lines(report))):
        assert "1234.0 ms a request" in text and "old switch" in text


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
    with pytest.raises(FabricError, match="A, B, C measured inference under no conditions that all of them share"):
        rows_of(reports)


def test_a_figure_by_hand_is_not_compared() -> None:
    reports = {"A": report_of(1, run(2, 60)), "B": report_of(2, run(6, 90, conditions={"quantisation": "int4"}))}
    entries = [{"name": "A"}, {"name": "B", "inference": "88 tokens/s"}]
    rows = scenario_rows(entries, scenario_reports(entries, lambda path: {}, reports.get))
    assert [cells(row)[5] for row in rows] == ["60.0 tokens/s", "88 tokens/s", NOT_MEASURED]


def test_runs_with_errors_or_of_other_scenarios_do_not_count() -> None:
    report = report_of(1, run(2, 60, errors=3))
    report["inference"]["spark1 in run 20261130T220900Z-ab12"] = {"runs": [run(2, 99)]}
    assert inference_cells({"A": report}) == {}


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
