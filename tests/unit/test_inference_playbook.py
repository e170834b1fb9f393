# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook inference with a real ansible-playbook, driven from the controller: broken endpoints, and results that are taken over."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import make_report, report_files
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_folder import store
from ansible_collections.dgxspark.fabric.tests.unit.offline_playbook import ROOT, run_playbook
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils.openai_server import serving
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils.test_inference_results import FIXTURES
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_judge import run_of

INVENTORY = """
spark:
  vars: {fabric_topology: mesh}
  hosts: {spark1: , spark2: , spark3: }
"""
STATED = {"inference_bench_quantisation": "fp8", "inference_bench_context_tokens": 4096, "inference_bench_stack": "llama.cpp b1"}


def run(folder: pathlib.Path, **variables: Any) -> Any:
    (folder / "inventory.yml").write_text(INVENTORY, encoding="utf-8")
    out = folder / "inference.json"
    given = {"inference_bench_out": str(out), "inference_bench_report_dir": str(folder / "reports"), "inference_bench_from": "localhost", **STATED, **variables}
    done = run_playbook(folder, ROOT / "playbooks/inference.yml", "-i", "inventory.yml", "-e", json.dumps(given))
    return done, json.loads(out.read_text(encoding="utf-8")) if out.exists() else None


@pytest.mark.parametrize(("fault", "check", "text"), [
    ("http", "inference.http", "CUDA error: out of memory"), ("stalled", "inference.stalled", "nothing came for 1 s"),
    ("truncated", "inference.truncated", "the stream ended after 3 pieces"), ("refused", "inference.refused", "nothing listens there")])
def test_a_broken_endpoint_fails_with_its_finding(tmp_path: pathlib.Path, fault: str, check: str, text: str) -> None:
    with serving("good" if fault == "refused" else fault) as server:
        url = "http://127.0.0.1:9" if fault == "refused" else f"{server.url}/v1"
        done, written = run(tmp_path, inference_bench_url=url, inference_bench_stall_seconds=1, inference_bench_state_directory=str(tmp_path / "state"))
    assert done.returncode == 2, done.stdout + done.stderr
    bad = [finding for finding in written["verdict"]["findings"] if finding["status"] == "fail"]
    assert [finding["id"] for finding in bad] == [check]
    assert text in bad[0]["message"]
    assert f"FAIL {check}: " in done.stdout and bad[0]["fix"] in done.stdout


def test_results_are_taken_over_and_added_to_the_stored_run(tmp_path: pathlib.Path) -> None:
    report = make_report(run_of("mesh"))
    stored = store(tmp_path / "reports", report["cluster"], report["run_id"], report_files(report), 20, [])
    entries = [{"path": str(FIXTURES / "aiperf-0.13.0.json"), "nodes": 3}]
    done, written = run(tmp_path, inference_bench_import=entries, fabric_cluster_name=report["cluster"])
    assert done.returncode == 0, done.stdout + done.stderr
    assert written["verdict"]["status"] == "pass"
    assert "tiny on 3 nodes, 2 at once: " in done.stdout
    again = json.loads((stored / "report.json").read_text(encoding="utf-8"))
    (measured,) = again["inference"].values()
    assert measured["runs"][0]["source"] == entries[0]["path"]
    assert "inference.ttft" in {finding["id"] for finding in again["findings"]}
    assert "bottleneck" in again


def test_bad_input_names_its_variable(tmp_path: pathlib.Path) -> None:
    done, _written = run(tmp_path, inference_bench_url="spark1")
    assert done.returncode == 2
    assert "inference_bench_url: expected a URL such as http://192.168.1.10:8000" in done.stdout
