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


def test_the_table_of_scenarios_is_filled_from_stored_runs(tmp_path: pathlib.Path) -> None:
    """A: 100G, two nodes; B: 100G, three; C: not measured yet; then a run under other conditions, which is refused."""
    base = tmp_path / "reports/spark"
    named = {"A": inference(2, 60), "B": inference(3, 84), "X": inference(3, 84, conditions={"model": "other"})}
    for number, (name, measured) in enumerate(named.items()):
        data = run_of(fabric_link_gbps=100) | {"inference": {"spark1": {"runs": [measured]}}}
        scenario = {"name": name, "network": "100G", "nodes": str(measured["nodes"])}
        report = make_report(data, run_id=f"20261130T22000{number}Z-ab12") | {"scenario": scenario}
        rewrite(base / report["run_id"], report_files(report))
    variables = {"report_from": str(base / "20261130T220001Z-ab12"), "report_out": str(tmp_path / "again")}
    run = run_offline(tmp_path, "report.yml", {**variables, "report_scenarios": [{"name": "A"}, {"run": "20261130T220001Z-ab12"}, {"name": "C"}]})
    assert run.returncode == 0, run.stdout + run.stderr
    lines = content(tmp_path / "again")["summary.md"].splitlines()
    start = lines.index("## Scenarios")
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start:] if line.startswith("|")][:5]
    assert table[0] == ["scenario", "network", "nodes", "RDMA", "NCCL", "inference throughput", "P95"]
    assert [[row[index] for index in (0, 1, 2, 5)] for row in table[2:]] == [
        ["A", "100G", "2", "60.0 tokens/s"], ["B", "100G", "3", "84.0 tokens/s"], ["C", "200G RoCE", "6", "not measured"]]
    before = content(tmp_path / "again")
    run = run_offline(tmp_path, "report.yml", {**variables, "report_scenarios": [{"name": "A"}, {"name": "X"}]})
    assert run.returncode != 0 and "model (GLM-5.2 and other)" in run.stdout and content(tmp_path / "again") == before


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
