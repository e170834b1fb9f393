# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/explain.yml with a real ansible-playbook: no inventory, no cluster, JSON on stdout, the exit status by the worst finding."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest

from ansible_collections.dgxspark.fabric.tests.unit.offline_playbook import PROGRAM, run_offline

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests/unit/fixtures/explain"

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="ansible-playbook is not installed beside this Python")


def play(folder: pathlib.Path, files: list[str | None], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Explain files."""
    return run_offline(folder, "explain.yml", {"explain_files": files}, *arguments)


def printed(stdout: str) -> dict:
    """Return the JSON on stdout: from the line ``{`` to the line ``}``."""
    lines = stdout.splitlines()
    return json.loads("\n".join(lines[lines.index("{") : lines.index("}") + 1]))


def test_a_good_file(tmp_path: pathlib.Path) -> None:
    run = play(tmp_path, [str(FIXTURES / "situations/18-pair-on-different-ports.log")], "-e", "explain_out=sub/findings.json")
    assert run.returncode == 0, run.stdout + run.stderr
    document = printed(run.stdout)
    assert document["verdict"]["status"] == "pass"
    assert json.loads((tmp_path / "sub/findings.json").read_text(encoding="utf-8")) == document


def test_a_fault_and_what_is_known_of_the_cluster(tmp_path: pathlib.Path) -> None:
    files = [str(FIXTURES / "field/F44-speed.txt"), str(FIXTURES / "situations/04-nm-mirror-tree")]
    run = play(tmp_path, files, "-e", "explain_link_gbps=100", "--check")
    assert run.returncode != 0
    assert {finding["id"] for finding in printed(run.stdout)["findings"] if finding["status"] == "fail"} == {"address.dhcp", "address.renderer"}


def test_findings_never_take_the_place_of_a_log(tmp_path: pathlib.Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    log = logs / "nccl.log"
    text = (FIXTURES / "situations/18-pair-on-different-ports.log").read_text(encoding="utf-8")
    log.write_text(text, encoding="utf-8")
    (tmp_path / "link.json").symlink_to(log)
    for files, out in ((["logs/nccl.log"], "./logs/../logs/nccl.log"), ([str(log)], "link.json"), (["logs"], "logs/new.json")):
        run = play(tmp_path, files, "-e", f"explain_out={out}")
        assert run.returncode != 0 and f"explain_out: {out} " in run.stdout + run.stderr and "name a file elsewhere" in run.stdout + run.stderr
    assert log.read_text(encoding="utf-8") == text and [path.name for path in logs.iterdir()] == ["nccl.log"]


@pytest.mark.parametrize("entry", ["", " ", None], ids=["empty", "blank", "null"])
def test_an_empty_entry_does_not_read_the_whole_folder(tmp_path: pathlib.Path, entry: str | None) -> None:
    run = play(tmp_path, [entry])
    assert run.returncode != 0 and "explain_files: entry 1 is empty" in run.stdout + run.stderr


def test_a_missing_file_is_a_clear_error(tmp_path: pathlib.Path) -> None:
    run = play(tmp_path, ["nowhere.log"])
    assert run.returncode != 0 and "nowhere.log does not exist" in run.stdout + run.stderr and "Traceback" not in run.stdout + run.stderr
