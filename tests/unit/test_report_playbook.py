# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/report.yml with a real ansible-playbook: a stored run gives its files again byte for byte, and one of an older version still renders."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import SCHEMA_VERSION, make_report, report_files
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_folder import rewrite
from ansible_collections.dgxspark.fabric.tests.unit.offline_playbook import PROGRAM, run_offline
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.explaining import FIXTURES
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.sweeps import ladder, nccl_sweep
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_bottleneck import run as inference
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_judge import cut, run_of
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_report import schema_errors

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="ansible-playbook is not installed beside this Python")


def content(folder: pathlib.Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}


def test_a_stored_run_is_reproduced_byte_for_byte(tmp_path: pathlib.Path) -> None:
    data = run_of()
    cut(data)
    data |= {"iperf3": ladder(data["plan"]), "nccl": {"spark1": {"runs": [nccl_sweep("all_reduce", list(data["nodes"]))]}}}
    stored = tmp_path / "stored"
    rewrite(stored, report_files(make_report(data)))
    run = run_offline(tmp_path, "report.yml", {"report_from": str(stored), "report_out": str(tmp_path / "again")})
    assert run.returncode == 0, run.stdout + run.stderr
    assert content(tmp_path / "again") == content(stored)
    assert "FAIL link.carrier" in run.stdout


#: The runs of the usual plan: cluster, what is stated of the scenario, nodes and throughput of its inference, and how long 95 % of the requests took at most.
USUAL_PLAN = {
    "A": ("pair", 2, 100, {"network": "100G", "nodes": "2"}, 60, 20000.0),
    "B": ("switch", 6, 100, {"network": "100G", "nodes": "6", "notes": "borrowed switch"}, 90, 14250.0),
    "C": ("switch", 6, 200, {"network": "200G RoCE", "nodes": "6"}, 96, None),
}


def stored_scenarios(base: pathlib.Path, **conditions: dict[str, object]) -> dict[str, str]:
    """Store the runs of the usual plan, some of them under other conditions; return their run ids by name. NCCL was not measured in B."""
    ids = {}
    for number, (name, (topology, count, link, scenario, rate, late)) in enumerate(USUAL_PLAN.items()):
        latency = {"request_ms": {"p95": late}} if late else {}
        measured = inference(count, rate, float(link), conditions.get(name), parallel=f"tensor parallel {count}", **latency)
        data = run_of(topology, count, fabric_link_gbps=link) | {"inference": {"spark1": {"runs": [measured]}}}
        if name != "B":
            data["nccl"] = {"spark1": {"runs": [nccl_sweep("all_reduce", list(data["nodes"]))]}}
        report = make_report(data, run_id=f"20261130T22000{number}Z-ab12")
        ids[name] = report["run_id"]
        rewrite(base / report["run_id"], report_files(report | {"scenario": {"name": name, **scenario}}))
    return ids


def table_of(text: str) -> list[list[str]]:
    """Return the first table of a Markdown text."""
    lines = text[text.index("| scenario |") :].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if not line.startswith("|---")]


def test_the_table_of_scenarios_is_filled_from_stored_runs(tmp_path: pathlib.Path) -> None:
    base = tmp_path / "reports/spark"
    ids = stored_scenarios(base)
    variables = {"report_from": str(base / ids["B"]), "report_out": str(tmp_path / "again")}
    run = run_offline(tmp_path, "report.yml", {**variables, "report_scenarios": [{"name": "A"}, {"run": ids["B"]}, {"name": "C", "run": str(base / ids["C"])}]})
    assert run.returncode == 0, run.stdout + run.stderr
    files = content(tmp_path / "again")
    table = table_of(files["scenarios.md"])
    assert table == table_of(files["summary.md"])
    rdma = {name: row[3] for name, row in zip("ABC", table[1:], strict=True)}
    assert table == [
        ["scenario", "network", "nodes", "RDMA", "NCCL", "inference throughput", "P95"],
        ["A", "100G", "2", rdma["A"], table[1][4], "60.0 tokens/s", "20000.0 ms a request"],
        ["B", "100G", "6", rdma["B"], "not measured", "90.0 tokens/s", "14250.0 ms a request"],
        ["C", "200G RoCE", "6", rdma["C"], table[3][4], "96.0 tokens/s", "not measured"],
    ]
    assert rdma == {"A": "97.0 Gb/s a cable (lowest 97.0)", "B": "97.0 Gb/s a cable (lowest 97.0)", "C": "194.0 Gb/s a cable (lowest 194.0)"}
    assert table[1][4].startswith("all_reduce ") and table[1][4].endswith(" 2 ranks") and table[3][4].endswith(" 6 ranks")
    assert f"* B: run {ids['B']}; not measured: NCCL" in files["scenarios.md"] and "B: borrowed switch" in files["scenarios.md"]
    assert "B: inference split: tensor parallel 6" in files["scenarios.md"]
    report = json.loads(files["report.json"])
    assert [row["run_id"] for row in report["scenarios"]] == list(ids.values()) and schema_errors(report) == []
    for cell in (cell for row in table[1:] for cell in row):
        assert f">{cell}<" in files["report.html"] and cell in run.stdout


def test_scenarios_without_a_run_have_empty_cells_and_a_run_is_named_afterwards(tmp_path: pathlib.Path) -> None:
    stored = tmp_path / "reports/spark/20261130T220000Z-ab12"
    rewrite(stored, report_files(make_report(run_of("pair", 2, fabric_link_gbps=100), run_id=stored.name)))
    variables = {"report_from": str(stored), "report_scenario": {"name": "A", "network": "100G", "nodes": 2}}
    run = run_offline(tmp_path, "report.yml", {**variables, "report_scenarios": [{"name": name} for name in "ABC"]})
    assert run.returncode == 0, run.stdout + run.stderr
    missing = ["not measured"] * 4
    table = table_of(content(stored)["scenarios.md"])
    assert table[1:] == [["A", "100G", "2", "97.0 Gb/s a cable (lowest 97.0)", *missing[:3]], ["B", "100G", "6", *missing], ["C", "200G RoCE", "6", *missing]]
    assert json.loads(content(stored)["report.json"])["scenario"] == {"name": "A", "network": "100G", "nodes": "2"}


@pytest.mark.parametrize(("conditions", "scenarios", "words"), [
    ({"B": {"model": "other"}}, [{"name": "A"}, {"name": "B"}],
     "A (run 20261130T220000Z-ab12) and B (run 20261130T220001Z-ab12) differ in model (GLM-5.2 and other). Measure them under the same conditions"),
    ({"C": {"stack": "vLLM 0.13", "concurrency": 64}}, [{"name": name} for name in "ABC"],
     "A (run 20261130T220000Z-ab12) and C (run 20261130T220002Z-ab12) differ in concurrency (8 and 64), stack (vLLM 0.12 and vLLM 0.13)"),
    ({}, [{"name": "A", "run": "20261130T220009Z-ab12"}], "report_scenarios: "),
    ({}, [{"name": "A", "network": "100G", "speed": 1}], "entry 1 has the unknown field speed"),
])
def test_scenarios_that_cannot_stand_beside_each_other_are_refused(
    tmp_path: pathlib.Path, conditions: dict[str, dict[str, object]], scenarios: list[dict[str, object]], words: str
) -> None:
    base = tmp_path / "reports/spark"
    ids = stored_scenarios(base, **conditions)
    before = content(base / ids["A"])
    run = run_offline(tmp_path, "report.yml", {"report_from": str(base / ids["A"]), "report_scenarios": scenarios})
    assert run.returncode != 0 and words in run.stdout + run.stderr and "Traceback" not in run.stdout + run.stderr
    assert content(base / ids["A"]) == before


def test_a_run_of_an_older_version_still_renders(tmp_path: pathlib.Path) -> None:
    stored = tmp_path / "old"
    stored.mkdir()
    shutil.copy(FIXTURES / "report-version-1.json", stored / "report.json")
    run = run_offline(tmp_path, "report.yml", {"report_from": str(stored), "report_out": str(tmp_path / "again")})
    assert run.returncode == 0, run.stdout + run.stderr
    old = json.loads((stored / "report.json").read_text(encoding="utf-8"))
    files = content(tmp_path / "again")
    new = json.loads(files["report.json"])
    assert (old["schema_version"], new["schema_version"]) == (1, SCHEMA_VERSION) and schema_errors(new) == []
    # Newer rules may say more of the same fault.
    verdict = ("id", "subject", "status", "actual", "expected")
    broken = [[{key: one[key] for key in verdict} for one in report["findings"] if one["status"] in ("fail", "unknown")] for report in (old, new)]
    assert broken[0] == broken[1] != []
    assert new["verdict"]["message"] == old["verdict"]["message"] and new["run_id"] == old["run_id"]
    assert "Against the last good run" in files["report.html"] and "10 %, stated" in files["report.html"]
