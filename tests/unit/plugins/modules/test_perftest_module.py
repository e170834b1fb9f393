# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The module that starts a job: what it refuses, and that the job outlives it."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import typing as t

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.dgxspark.fabric.plugins.module_utils.tool_process import process_identity
from ansible_collections.dgxspark.fabric.plugins.modules import perftest

UNIT = pathlib.Path(__file__).resolve().parents[2]


def job(**changes: t.Any) -> dict[str, t.Any]:
    """Return a job whose one test has a peer that never comes."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    test = {"id": "t", "round": 0, "role": "client", "peer": "n2", "tool": "ib_write_bw", "device": "no_such_device", "interface": "lo", "address": "10.0.0.1",
            "peer_address": "10.0.0.2", "server_address": "127.0.0.2", "port": 18600, "seconds": 5}
    return {"run": "run-of-module", "node": "n1", "control_address": "127.0.0.1", "control_port": port, "peers": {"n2": {"address": "127.0.0.2"}},
            "tests": [test], "start_skew_seconds": 1, "force_busy": True, **changes}


def run_module(capsys: pytest.CaptureFixture[str], arguments: dict[str, t.Any]) -> dict[str, t.Any]:
    """Run the module in this process."""
    with patch_module_args(arguments), pytest.raises(SystemExit):
        perftest.main()
    return json.loads(capsys.readouterr().out)


def run_detached(arguments: dict[str, t.Any]) -> dict[str, t.Any]:
    """Run the module in a process of its own, as on a node."""
    code = (f"import sys; sys.path.insert(0, {str(UNIT)!r}); import conftest, json\n"
            "from ansible.module_utils.testing import patch_module_args\n"
            "from ansible_collections.dgxspark.fabric.plugins.modules import perftest\n"
            f"with patch_module_args(json.loads({json.dumps(arguments)!r})):\n    perftest.main()\n")
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=30)
    return json.loads(done.stdout)


def test_skipped_in_check_mode(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    result = run_module(capsys, {"job": job(), "state_directory": str(tmp_path / "state"), "_ansible_check_mode": True})
    assert (result["skipped"], result["changed"]) == (True, False)
    assert not (tmp_path / "state").exists()


def test_bad_job_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "job.control_port" in run_module(capsys, {"job": job(control_port=0)})["msg"]


def test_place_that_cannot_be_made(capsys: pytest.CaptureFixture[str], tmp_path: pathlib.Path) -> None:
    (tmp_path / "file").write_text("")
    result = run_module(capsys, {"job": job(), "state_directory": str(tmp_path / "file")})
    assert result["failed"] and "root" in result["msg"]


def test_job_outlives_the_module_and_leaves_its_result(tmp_path: pathlib.Path) -> None:
    result = run_detached({"job": job(), "state_directory": str(tmp_path / "state")})
    assert result["status"] == "running" and result["changed"] is False
    assert os.getsid(result["pid"]) not in (os.getsid(0), 0)
    progress = pathlib.Path(result["folder"]) / "progress.json"
    until = time.monotonic() + 15
    while json.loads(progress.read_text())["status"] == "running" and time.monotonic() < until:
        time.sleep(0.1)
    found = json.loads((pathlib.Path(result["folder"]) / "result.json").read_text())
    assert (found["status"], found["tests"][0]["status"]) == ("done", "failed")
    assert (tmp_path / "state/job.log").read_text() == ""


def test_next_job_ends_the_one_before(tmp_path: pathlib.Path) -> None:
    state = str(tmp_path / "state")
    waiting = job(start_skew_seconds=60)
    waiting["tests"][0]["device"] = "x"
    first = run_detached({"job": {**waiting, "tests": [], "deadline_seconds": 60}, "state_directory": state})
    second = run_detached({"job": job(run="run-of-module-2"), "state_directory": state})
    assert second["status"] == "running"
    assert process_identity(first["pid"]) != first["identity"]
    assert not pathlib.Path(first["folder"]).exists()
    os.kill(second["pid"], signal.SIGTERM)


def test_taken_port_is_a_result_not_a_failure(tmp_path: pathlib.Path) -> None:
    wanted = job()
    with socket.socket() as other:
        other.bind(("127.0.0.1", wanted["control_port"]))
        other.listen(1)
        result = run_detached({"job": wanted, "state_directory": str(tmp_path / "state")})
    assert result["status"] == "not_started" and "failed" not in result
    assert str(wanted["control_port"]) in result["msg"] and "fabric_control_port" in result["msg"]
