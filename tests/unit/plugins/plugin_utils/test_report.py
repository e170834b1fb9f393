# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report: its schema, its files, its folder and its summary."""

from __future__ import annotations

import json
import os
import pathlib
import re
from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils import report as report_module
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import judge_again, make_report, report_files
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_folder import load, rewrite, store
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.results import collect_results
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.summary import WIDTH, summary_lines
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_judge import CABLE, FAULTS, check_run, cut, run_of, slow_one_way

SCHEMA = pathlib.Path(report_module.__file__).resolve().parents[2] / "docs/report.schema.json"


def schema_errors(report: dict[str, Any]) -> list[str]:
    jsonschema = pytest.importorskip("jsonschema")
    if not SCHEMA.is_file():
        pytest.skip("the documents are not part of this copy")
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    return [f"{'/'.join(map(str, error.path))}: {error.message}" for error in validator.iter_errors(report)]


@pytest.mark.parametrize("fault", [None, *FAULTS], ids=lambda fault: fault[0].__name__ if fault else "healthy")
def test_reports_follow_the_schema(fault: Any) -> None:
    data = run_of()
    if fault:
        fault[0](data)
    report = make_report(data)
    assert schema_errors(json.loads(report_files(report)["report.json"])) == []


def test_reports_of_check_mode_and_of_dead_nodes_follow_the_schema() -> None:
    data = check_run()
    data["nodes"]["spark2"] = None
    data["not_tested"] = ["spark3"]
    data["drift"] = [{"host": "spark1", "subject": "enp1s0f0np0", "key": "mtu", "wanted": 9000, "live": 1500, "message": "MTU 1500, wanted 9000"}]
    assert schema_errors(json.loads(report_files(make_report(data))["report.json"])) == []


def test_a_report_knows_its_run() -> None:
    report = make_report(run_of("pair", 2), started="2026-11-30T22:15:00Z", finished="2026-11-30T22:16:30Z")
    assert re.fullmatch(r"20261130T221500Z-[0-9a-f]{4}", report["run_id"])
    assert (report["started"], report["finished"]) == ("2026-11-30T22:15:00Z", "2026-11-30T22:16:30Z")
    assert re.fullmatch(r"\d+\.\d+\.\d+", report["collection_version"])


def test_every_direction_of_every_rail_has_its_figure_and_evidence() -> None:
    report = make_report(run_of())
    for cable in report["cables"]:
        for rail in cable["rails"].values():
            ways = [(one["client"], one["server"], one["stage"]) for one in rail["measurements"]]
            assert len(ways) == len(set(ways)) == 3
            for one in rail["measurements"]:
                assert one["gbps"] > 0
                assert {"command", "device", "gid_ipv4", "rdma_mtu"} <= set(one["evidence"])


def test_judging_a_stored_report_gives_its_findings_byte_for_byte(tmp_path: pathlib.Path) -> None:
    data = run_of()
    cut(data)
    files = report_files(make_report(data))
    rewrite(tmp_path, files)
    assert report_files(judge_again(load(tmp_path))) == files
    assert report_files(judge_again(load(tmp_path / "report.json"))) == files


@pytest.mark.parametrize(("content", "words"), [
    ("[]", "is no report"),
    ("{", "is not JSON"),
    ("{}", "no schema_version"),
    ('{"schema_version": 99}', "schema version 99"),
])
def test_a_file_that_is_no_report_is_refused(tmp_path: pathlib.Path, content: str, words: str) -> None:
    (tmp_path / "report.json").write_text(content, encoding="utf-8")
    with pytest.raises(FabricError, match=words):
        judge_again(load(tmp_path))


def test_a_missing_file_is_named(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FabricError, match="nowhere cannot be read"):
        load(tmp_path / "nowhere")


def run_id(number: int) -> str:
    return f"20261130T2215{number:02d}Z-ab12"


def test_a_run_is_stored_whole_and_latest_points_at_it(tmp_path: pathlib.Path) -> None:
    files = report_files(make_report(run_of("pair", 2)))
    target = store(tmp_path / "reports", "lab", run_id(1), files, keep=20)
    assert sorted(path.name for path in target.iterdir()) == [
        "fabric.prom", "junit.xml", "report.html", "report.json", "spark1.html", "spark1.json", "spark2.html", "spark2.json", "summary.md"
    ]
    latest = tmp_path / "reports/lab/latest"
    assert os.readlink(latest) == run_id(1)
    store(tmp_path / "reports", "lab", run_id(2), files, keep=20)
    assert os.readlink(latest) == run_id(2)
    assert sorted(path.name for path in (tmp_path / "reports/lab").iterdir()) == [run_id(1), run_id(2), "latest"]


def test_only_the_newest_runs_are_kept_and_nothing_else_is_touched(tmp_path: pathlib.Path) -> None:
    base = tmp_path / "lab"
    (base / "20200101T000000Z-0000").mkdir(parents=True)  # looks like a run but holds no report
    (base / "notes").mkdir()
    for number in range(5):
        store(tmp_path, "lab", run_id(number), {"report.json": "{}"}, keep=3)
    assert sorted(path.name for path in base.iterdir()) == ["20200101T000000Z-0000", run_id(2), run_id(3), run_id(4), "latest", "notes"]


def test_keeping_no_run_keeps_the_new_one(tmp_path: pathlib.Path) -> None:
    store(tmp_path, "lab", run_id(1), {"report.json": "{}"}, keep=0)
    assert (tmp_path / "lab/latest/report.json").is_file()


def test_a_failed_write_leaves_nothing_behind(tmp_path: pathlib.Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        store(tmp_path, "lab", run_id(1), {"nowhere/report.json": "{}"}, keep=3)
    assert list((tmp_path / "lab").iterdir()) == []


@pytest.mark.parametrize("cluster", ["../x", "a/b", "", ".."])
def test_a_cluster_name_that_is_no_folder_name_is_refused(tmp_path: pathlib.Path, cluster: str) -> None:
    with pytest.raises(FabricError, match="fabric_cluster_name"):
        store(tmp_path, cluster, run_id(1), {}, keep=3)


def test_a_host_has_its_own_part() -> None:
    data = run_of()
    cut(data)
    files = report_files(make_report(data))
    document = json.loads(files["spark3.json"])
    assert document["host"] == "spark3"
    assert {cable["name"] for cable in document["cables"]} == {"spark1:1-spark3:0", "spark2:0-spark3:1"}
    assert all("spark3" in finding["nodes"] for finding in document["findings"])
    assert [finding["id"] for finding in json.loads(files["spark1.json"])["findings"] if finding["status"] == "fail"] == ["link.carrier"]


def test_markdown_names_findings_and_figures() -> None:
    data = run_of()
    slow_one_way(data)
    text = report_files(make_report(data))["summary.md"]
    assert "**FAIL**" in text
    assert f"| FAIL | `rdma.rail_bandwidth` | {CABLE}/a |" in text
    assert f"| {CABLE} | a | 65.0 | 97.0 | 210.9 | 98.0 / 213.0 | FAIL in layer rdma |" in text


def test_summary_of_a_healthy_mesh_fits_a_screen() -> None:
    lines = summary_lines(make_report(run_of()))
    assert len(lines) <= 24
    assert all(len(line) <= WIDTH for line in lines)
    assert [line for line in lines if line.startswith(f"{CABLE}  a")] == [f"{CABLE}  a        97.0  97.0      210.9  98.0 / 213.0  pass"]
    assert lines[-2].startswith("Verdict: PASS")
    assert "\x1b" not in "".join(lines)


def test_summary_tells_failures_first() -> None:
    data = run_of()
    cut(data)
    lines = summary_lines(make_report(data))
    assert lines[1] == f"FAIL link.carrier on {CABLE}"
    assert any(line.strip().startswith("cause:") for line in lines) and any(line.strip().startswith("fix:") for line in lines)
    assert lines.index(next(line for line in lines if line.startswith("cable "))) > 1


def test_summary_of_a_large_healthy_cluster_is_short() -> None:
    lines = summary_lines(make_report(run_of("switch", 64)))
    assert len(lines) <= 8
    assert any("All 128 rails pass" in line for line in lines)


def test_summary_in_check_mode_lists_drift_and_says_what_was_skipped() -> None:
    data = check_run()
    assert "Drift: none." in summary_lines(make_report(data))
    data["drift"] = [{"host": "spark1", "subject": "enp1s0f0np0", "key": "mtu", "wanted": 9000, "live": 1500, "message": "MTU 1500, wanted 9000"}]
    lines = summary_lines(make_report(data))
    assert "Drift (1):" in lines
    assert "  spark1 enp1s0f0np0: MTU 1500, wanted 9000" in lines
    assert "Load tests: skipped in check mode." in lines
    assert f"{CABLE}  a     pass" in lines


def test_results_are_gathered_from_host_variables() -> None:
    data = run_of()
    hostvars = {
        name: {
            "fabric_plan": data["plan"],
            "fabric_node": data["nodes"][name],
            "fabric_paths": data["paths"][name],
            "fabric_perftest": data["perftest"][name],
            "fabric_drift": [{"subject": "x", "key": "mtu"}],
        }
        for name in data["plan"]["nodes"]
    }
    hostvars["spark2"] = {"fabric_lost": "RDMA measurement: no answer"}
    found = collect_results(hostvars, ["spark1", "spark2", "spark3"], ["spark1", "spark2"], "validate")
    assert found["plan"] == data["plan"]
    assert found["nodes"] == {"spark1": data["nodes"]["spark1"], "spark2": None}
    assert found["unreachable"] == {"spark2": "RDMA measurement: no answer"}
    assert found["not_tested"] == ["spark3"]
    assert set(found["paths"]) == set(found["perftest"]) == {"spark1"}
    assert found["drift"] == [{"host": "spark1", "subject": "x", "key": "mtu"}]


def test_a_host_without_variables_is_named() -> None:
    with pytest.raises(FabricError, match="no variables of host spark9"):
        collect_results({}, ["spark9"], ["spark9"])


def test_a_rail_without_an_address_is_one_warning_on_a_pair() -> None:
    data = run_of("pair", 2)
    plan = data["plan"]
    healthy.take_addresses(plan, "b")
    report = make_report(healthy.healthy_run(plan))
    troubles = [(one["id"], one["status"], one["scope"], one["rail"]) for one in report["findings"] if one["status"] in ("fail", "unknown", "warn")]
    assert troubles == [("address.no_ipv4", "warn", "rail", "b")]
    assert report["verdict"]["status"] == "pass"
    plan["shape"] = "mesh"
    report = make_report(healthy.healthy_run(plan))
    assert [one["id"] for one in report["findings"] if one["status"] in ("fail", "unknown", "warn")] == ["address.no_ipv4_switchless"]
    assert report["verdict"]["status"] == "fail"
