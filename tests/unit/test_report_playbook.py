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
