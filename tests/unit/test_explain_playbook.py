# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/explain.yml with a real ansible-playbook: no inventory, no cluster, JSON on stdout, the exit status by the worst finding."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests/unit/fixtures/explain"
PROGRAM = shutil.which("ansible-playbook", path=os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", "")]))

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="ansible-playbook is not installed beside this Python")


def play(folder: pathlib.Path, files: list[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the playbook as a user of the installed collection does, without ansible.cfg and inventory."""
    link = folder / "collections/ansible_collections/dgxspark/fabric"
    if not link.exists():
        link.parent.mkdir(parents=True)
        link.symlink_to(ROOT)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")} | {
        "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
        "ANSIBLE_HOME": str(folder / "home"),
        "HOME": str(folder),
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
    }
    command = [str(PROGRAM), str(ROOT / "playbooks/explain.yml"), "-e", json.dumps({"explain_files": files}), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)


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


def test_a_missing_file_is_a_clear_error(tmp_path: pathlib.Path) -> None:
    run = play(tmp_path, ["nowhere.log"])
    assert run.returncode != 0 and "nowhere.log does not exist" in run.stdout + run.stderr and "Traceback" not in run.stdout + run.stderr
