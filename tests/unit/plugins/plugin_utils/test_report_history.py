# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs beside each other: the last good one, a named baseline, noise, and the table of scenarios."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.comparison import compare, digest
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import judge_again, make_report, report_files
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_folder import load, store
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.run_history import comparisons, named_run, spared
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_table import NOT_MEASURED, cells, scenario_reports, scenario_rows
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.summary import summary_lines
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_judge import CABLE, check_run, cut, run_of
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_report import schema_errors


def run_id(number: int) -> str:
    return f"20261130T22{number:02d}00Z-ab12"


def report_of(number: int, factor: float = 1.0, cable: str | None = None, data: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the report of a mesh whose figures (of one cable, or all) are multiplied."""
    data = data or run_of()
    for record in healthy.records(data, cable):
        if record["gbps"]:
            record["gbps"] = round(record["gbps"] * factor, 3)
    return make_report(data, started=f"2026-11-30T22:{number:02d}:00Z", run_id=run_id(number))


def keep(base: pathlib.Path, *reports: dict[str, Any]) -> pathlib.Path:
    """Store reports; return the folder of the cluster's runs."""
    for report in reports:
        store(base, report["cluster"], report["run_id"], report_files(report), keep=20)
    return base / "spark"


def test_the_last_good_run_is_compared_with(tmp_path: pathlib.Path) -> None:
    broken = run_of()
    cut(broken)
    runs = keep(tmp_path, report_of(1), report_of(2), report_of(3, data=broken), report_of(4, data=check_run()))
    report = report_of(5, 0.88, CABLE)
    found = comparisons(report, runs, None, 5.0)
    assert [(entry["against"], entry["run_id"]) for entry in found] == [("last_good", run_id(2))]
    assert {entry["cable"] for entry in found[0]["regressions"]} == {CABLE}
    assert len(found[0]["regressions"]) == 6 and found[0]["improvements"] == [] and found[0]["compared"] == 18
    assert all(entry["change_percent"] == pytest.approx(-12, abs=0.2) for entry in found[0]["regressions"])
    assert "6 figures slower, worst spark1:0-spark2:1 rail a" in found[0]["message"]
    report["comparison"] = found
    assert schema_errors(json.loads(report_files(report)["report.json"])) == []


def test_the_first_run_is_compared_with_nothing(tmp_path: pathlib.Path) -> None:
    assert comparisons(report_of(1), tmp_path / "spark", None, 10.0) == []


def test_a_run_is_not_compared_with_later_ones(tmp_path: pathlib.Path) -> None:
    runs = keep(tmp_path, report_of(7))
    assert comparisons(report_of(5), runs, None, 10.0) == []


def test_a_baseline_is_named_by_run_or_path(tmp_path: pathlib.Path) -> None:
    runs = keep(tmp_path, report_of(1, 0.9), report_of(2))
    report = report_of(5)
    for name in (run_id(1), str(runs / run_id(1)), str(runs / run_id(1) / "report.json")):
        found = comparisons(report, runs, name, 5.0)
        assert [entry["against"] for entry in found] == ["last_good", "baseline"]
        assert len(found[1]["improvements"]) == 18
    assert spared(runs, found) == {run_id(1), run_id(2)}
    with pytest.raises(FabricError, match="report_baseline: .*nowhere cannot be read"):
        comparisons(report, runs, str(tmp_path / "nowhere"), 5.0)
    (tmp_path / "report.json").write_text('{"plan": {}}', encoding="utf-8")
    with pytest.raises(FabricError, match="is no report of this collection"):
        named_run(str(tmp_path), runs)


def test_noise_is_the_range_of_the_good_runs_before_when_there_are_enough(tmp_path: pathlib.Path) -> None:
    runs = keep(tmp_path, report_of(1, 0.92), report_of(2, 1.0), report_of(3, 0.96))
    noisy = comparisons(report_of(5, 0.89), runs, None, 1.0)[0]
    assert noisy["regressions"] == []
    slow = comparisons(report_of(6, 0.86), runs, None, 1.0)[0]
    assert len(slow["regressions"]) == 18
    assert {(entry["noise_percent"], entry["noise_runs"]) for entry in slow["regressions"]} == {(8.3, 3)}
    calm = keep(tmp_path / "calm", report_of(1), report_of(2), report_of(3))
    assert comparisons(report_of(5, 0.985), calm, None, 1.0)[0]["regressions"] == []


def repeated(report: dict[str, Any], *factors: float) -> dict[str, Any]:
    """Return a report in which every figure of one cable was taken several times."""
    for cable in report["cables"]:
        for row in cable["rails"].values() if cable["name"] == CABLE else ():
            row["measurements"] = [{**one, "gbps": one["gbps"] * factor} for one in row["measurements"] for factor in factors]
    return report


def test_repeats_within_an_earlier_run_tell_noise_too() -> None:
    before, now = digest(repeated(report_of(1), 1.0, 0.93, 0.96)), digest(report_of(2, 0.88))
    found = compare(now, before, "baseline", (), 2.0)
    assert {entry["cable"] for entry in found["regressions"]} == {"spark1:1-spark3:0", "spark2:0-spark3:1"}
    slow = compare(digest(report_of(3, 0.8)), before, "baseline", (), 2.0)
    mine = [entry for entry in slow["regressions"] if entry["cable"] == CABLE]
    assert {(entry["noise_percent"], entry["noise_runs"], entry["noise_repeats"]) for entry in mine} == {(7.3, 0, 3)}
    assert all(entry["before_gbps"] == pytest.approx(0.93 * 97.02, rel=0.01) for entry in mine if entry["stage"] == "directed")


def test_a_rail_that_flickers_now_does_not_hide_its_loss() -> None:
    before, now = digest(report_of(1)), digest(repeated(report_of(2), 1.0, 0.2, 0.99))
    found = compare(now, before, "baseline", (), 10.0)
    assert {entry["cable"] for entry in found["regressions"]} == {CABLE}
    failed = report_of(3)
    for cable in failed["cables"]:
        for row in cable["rails"].values():
            row["measurements"] = [{**row["measurements"][0], "state": "failed", "gbps": None}, *row["measurements"]]
    assert None in digest(failed).figures.values()


def test_runs_removed_with_the_old_ones_spare_what_was_compared_with(tmp_path: pathlib.Path) -> None:
    runs = keep(tmp_path, *(report_of(number) for number in range(1, 5)))
    store(tmp_path, "spark", run_id(6), {"report.json": "{}"}, keep=1, spare=frozenset({run_id(1)}))
    assert sorted(path.name for path in runs.iterdir()) == [run_id(1), run_id(6), "latest"]


def test_lost_figures_new_cables_versions_and_checks_are_told() -> None:
    data = run_of()
    cut(data)
    data["nodes"]["spark1"]["kernel"] = "6.11"
    before = run_of()
    before["nodes"]["spark1"]["kernel"] = "6.8"
    now, then = digest(report_of(5, data=data)), digest(report_of(1, data=before))
    found = compare(now, then, "last_good")
    assert {entry["cable"] for entry in found["regressions"]} == {CABLE}
    assert all(entry["now_gbps"] is None and entry["change_percent"] is None for entry in found["regressions"])
    assert found["versions"] == [{"node": "spark1", "what": "kernel", "before": "6.8", "now": "6.11"}]
    assert found["newly_broken"] == [{"id": "link.carrier", "subject": CABLE}] and found["mended"] == []
    back = compare(then, now, "baseline")
    assert back["mended"] == found["newly_broken"] and back["regressions"] == []
    pair = digest(make_report(run_of("pair", 2), run_id=run_id(6)))
    found = compare(pair, then, "baseline")
    assert found["new_cables"] == ["spark1:1-spark2:1"] and len(found["gone_cables"]) == 3


def test_figures_with_other_expectations_are_not_compared() -> None:
    slow = make_report(run_of("mesh", 3, fabric_link_gbps=100), run_id=run_id(5))
    found = compare(digest(slow), digest(report_of(1)), "last_good")
    assert found["compared"] < 18 and found["not_alike"] > 0 and found["regressions"] == []
    assert "not compared, since other rates are expected now" in found["message"]


def test_a_comparison_is_told_everywhere(tmp_path: pathlib.Path) -> None:
    runs = keep(tmp_path, report_of(1))
    report = report_of(5, 0.8, CABLE)
    report["comparison"] = comparisons(report, runs, None, 10.0)
    line = f"Compared against the last good run {run_id(1)}: 6 figures slower"
    assert sum(text.startswith(line) for text in summary_lines(report)) == 1
    files = report_files(report)
    assert f"## Compared against the last good run {run_id(1)}" in files["summary.md"]
    assert "Compared with earlier runs" in files["report.html"] and "-20.0 %" in files["report.html"]
    assert 'dgxspark_fabric_regressions{cluster="spark",against="last_good"} 6' in files["fabric.prom"]


def test_judging_again_keeps_the_comparison(tmp_path: pathlib.Path) -> None:
    runs = keep(tmp_path, report_of(1))
    report = report_of(5, 0.8)
    report["comparison"] = comparisons(report, runs, None, 10.0)
    files = report_files(report)
    assert report_files(judge_again(json.loads(files["report.json"]))) == files


def test_a_report_from_before_comparisons_still_renders() -> None:
    old = json.loads(report_files(report_of(1))["report.json"])
    assert not {"comparison", "scenarios", "redacted"} & set(old)
    again = judge_again(old)
    assert "Compared with" not in report_files(again)["report.html"]


def test_a_summary_with_comparison_is_at_most_a_screen() -> None:
    report = report_of(5)
    report["comparison"] = [compare(digest(report), digest(report_of(1)), "last_good")]
    assert len(summary_lines(report)) <= 24


def rows_of(entries: list[dict[str, Any]], load_run: Callable[[str], Mapping[str, Any]] = lambda name: {}) -> list[dict[str, Any]]:
    """Return the table of these entries, with no named run stored."""
    return scenario_rows(entries, scenario_reports(entries, load_run, lambda name: None))


def test_scenarios_are_filled_from_runs_and_by_hand(tmp_path: pathlib.Path) -> None:
    keep(tmp_path, report_of(1))
    runs = tmp_path / "spark"
    rows = rows_of([{"name": "B", "run": run_id(1), "nccl": "21.9 GB/s"}], lambda name: load(runs / name))
    assert [row["scenario"] for row in rows] == ["A", "B", "C"]
    assert cells(rows[0]) == ["A", "100G", "2", *[NOT_MEASURED] * 4]
    assert cells(rows[1]) == ["B", "200G RoCE", "3", "194.0 Gb/s a cable (lowest 194.0)", "21.9 GB/s", NOT_MEASURED, NOT_MEASURED]
    report = {**report_of(5), "scenarios": rows}
    assert schema_errors(json.loads(report_files(report)["report.json"])) == []
    files = report_files(report)
    assert files["summary.md"].count(NOT_MEASURED) == files["report.html"].count(f">{NOT_MEASURED}<") == 10
    assert any(line.startswith("C         200G RoCE") for line in summary_lines(report))


def test_other_scenarios_have_rows_of_their_own() -> None:
    rows = rows_of([{"name": "old switch", "network": "100G"}])
    assert [cells(row)[:3] for row in rows] == [["old switch", "100G", NOT_MEASURED]]


@pytest.mark.parametrize(("entries", "words"), [
    ([{"run": "x"}], "entry 1 has no name, and neither has its run"),
    ([{"name": "A"}, {"name": "A"}], "entry 2 has the name 'A'"),
    ([{"name": "A", "rum": "x"}], "unknown field rum"),
])
def test_bad_scenarios_are_refused(entries: list[dict[str, Any]], words: str) -> None:
    with pytest.raises(FabricError, match=words):
        rows_of(entries)
