# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The job of nccl-tests from its first refusal to its results, over ranks on this machine: mpirun and ssh are doubles, the rank program is the real one."""

from __future__ import annotations

import inspect
import json
import os
import pathlib
import stat
import subprocess
import sys
import time
import typing as t

import pytest

from ansible_collections.dgxspark.fabric.plugins.module_utils import command as programs
from ansible_collections.dgxspark.fabric.plugins.module_utils import nccl_rank
from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_job import Machine, NcclTests
from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_job_spec import NcclTest, parse_job
from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_stage import outcome
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils.test_nccl_launch import valid_job

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "fixtures/explain/nccl-tests"
# Takes what mpirun takes and starts the ranks here, one after the other's start; "-np N" and the words from the first "python3" on are all it needs.
MPIRUN = f"""#!{sys.executable}
import os, subprocess, sys
if "--version" in sys.argv:
    print("mpirun (Open MPI) 5.0.7")
    raise SystemExit
if os.path.exists(os.environ.get("DOUBLE_REFUSES", "/nowhere")):
    print("spark2: Permission denied (publickey).", file=sys.stderr)
    raise SystemExit(255)
count = int(sys.argv[sys.argv.index("-np") + 1])
words = sys.argv[sys.argv.index("python3"):]
ranks = [subprocess.Popen([sys.executable, *words[1:]], env={{**os.environ, "OMPI_COMM_WORLD_RANK": str(rank)}}) for rank in range(count)]
raise SystemExit(max(rank.wait() for rank in ranks))
"""
PROGRAM = """#!/bin/sh
# stand-in of dgxspark.fabric
[ -z "$DOUBLE_SLEEPS" ] || exec sleep 60
[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 0
cat <<END
%s
END
"""


@pytest.fixture
def machine(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Return a launching node whose mpirun starts ranks here and whose ssh runs commands here."""
    folder = tmp_path / "bin"
    folder.mkdir()
    text = (SAMPLES / "all_reduce_2ranks_socket.txt").read_text(encoding="utf-8")
    for name, content in (("mpirun", MPIRUN), ("all_reduce_perf", PROGRAM % text)):
        path = folder / name
        path.write_text(content, encoding="utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("DOUBLE_REFUSES", str(tmp_path / "refuses"))

    def run(argv: t.Sequence[str], timeout: float = 20.0) -> programs.Completed:
        words = ["sh", "-c", argv[-1]] if argv[0] == "ssh" else list(argv)
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, check=False)
        return programs.Completed(tuple(argv), done.returncode, done.stdout, done.stderr)

    return Machine(tmp_path / "state", inspect.getsource(nccl_rank), lambda name: str(folder / name), run)


def job_of(tmp_path: pathlib.Path, **changes: t.Any) -> dict[str, t.Any]:
    """Return a job over two nodes that are both this machine."""
    return valid_job(
        **{
            "run": f"unit{os.getpid()}{time.monotonic_ns()}",
            "addresses": {"spark1": "127.0.0.1", "spark2": "127.0.0.2"},
            "programs": str(tmp_path / "bin"),
            "networks": ["127.0.0.0/8"],
            "require_gpu": False,
            "libraries": [],
            "launch_seconds": 20,
            "test_seconds": 20,
            **changes,
        }
    )


def test_a_run_leaves_figures_and_no_files(machine: Machine, tmp_path: pathlib.Path) -> None:
    job = parse_job(job_of(tmp_path))
    tests = NcclTests(job, machine)
    tests.open()
    fact = tests.run()
    assert fact["status"] == "done" and fact["mpi"]["version"] == "5.0.7" and fact["stand_in"] is True
    (run,) = fact["runs"]
    # Both ranks of the double are this machine, so the hosts that the recorded output lists are not where they ran.
    assert run["error"] == "order" and run["rows"][-1]["size_bytes"] == 67108864 and run["devices"][1]["host"] == "spark2"
    assert [record["exit_code"] for record in run["rank_records"]] == [0, 0] and all(record["log"] is None for record in run["rank_records"])
    assert json.loads((machine.directory / job.run / "result.json").read_text(encoding="utf-8"))["status"] == "done"
    assert json.loads((machine.directory / job.run / "progress.json").read_text(encoding="utf-8"))["status"] == "done"
    assert not os.path.exists(f"/tmp/dgxspark-fabric-nccl-{os.getuid()}-{job.run}")


def test_a_hang_ends_at_the_deadline(machine: Machine, tmp_path: pathlib.Path) -> None:
    tests = NcclTests(parse_job(job_of(tmp_path, test_seconds=2, added={"DOUBLE_SLEEPS": "1"})), machine)
    tests.open()
    began = time.monotonic()
    fact = tests.run()
    assert time.monotonic() - began < 20
    assert fact["runs"][0]["error"] == "timeout" and all(record["deadline"] for record in fact["runs"][0]["rank_records"])


def test_a_launch_that_is_refused_is_classified(machine: Machine, tmp_path: pathlib.Path) -> None:
    (tmp_path / "refuses").touch()
    tests = NcclTests(parse_job(job_of(tmp_path)), machine)
    tests.open()
    fact = tests.run()
    assert fact["status"] == "failed" and fact["reason"] == "launch" and "spark1, spark2" in fact["message"]
    assert [failure["name"] for failure in fact["failures"]] == ["ssh_denied"] and not fact["runs"]


def test_nothing_starts_in_an_order_without_cables(machine: Machine, tmp_path: pathlib.Path) -> None:
    tests = NcclTests(parse_job(job_of(tmp_path, shape="ring", links=[])), machine)
    tests.open()
    fact = tests.run()
    assert fact["status"] == "refused" and fact["reason"] == "order" and not fact["mpi"] and not fact["nodes"]


def test_a_rank_on_the_wrong_node_does_not_start(machine: Machine, tmp_path: pathlib.Path) -> None:
    tests = NcclTests(parse_job(job_of(tmp_path, addresses={"spark1": "127.0.0.1", "spark2": "192.0.2.77"})), machine)
    tests.open()
    fact = tests.run()
    assert fact["status"] == "failed" and "nothing came from spark2" in fact["message"] and "rank 1 belongs on spark2" in fact["tail"]


def test_a_missing_program_is_named(machine: Machine, tmp_path: pathlib.Path) -> None:
    tests = NcclTests(parse_job(job_of(tmp_path, programs="/nowhere")), machine)
    tests.open()
    fact = tests.run()
    assert fact["reason"] == "program_missing" and "/nowhere" in fact["message"]


def test_a_library_is_read_by_its_texts(tmp_path: pathlib.Path) -> None:
    library = tmp_path / "libnccl.so.2"
    library.write_bytes(b"x\0NCCL version 2.30.7+cuda13.0\0NCCL_SWITCHLESS_RING_ONLY\0NCCL_ALGO_MORE\0")
    names = ["NCCL_SWITCHLESS_RING_ONLY", "NCCL_ALGO"]
    assert nccl_rank.search_file(str(library), names) == ("2.30.7", {"NCCL_SWITCHLESS_RING_ONLY": True, "NCCL_ALGO": False})
    assert nccl_rank.search_file(str(tmp_path / "none"), names) == (None, {})


def test_the_installed_environment_wins_over_the_plans(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "nccl.env"
    document = {
        "environments": [{"NCCL_ALGO": "Ring", "OMPI_MCA_btl_tcp_if_include": "enP7s7"}],
        "environment_file": str(installed),
        "libraries": ["/opt/lib"],
        "added": {"X": "1"},
    }
    monkeypatch.setenv("NCCL_LEFT", "over")
    monkeypatch.setenv("OMPI_MCA_btl_tcp_if_include", "10.0.0.0/24")
    planned = nccl_rank.environment_for(document, 0)
    assert planned["NCCL_ALGO"] == "Ring" and "NCCL_LEFT" not in planned and planned["X"] == "1" and planned["LD_LIBRARY_PATH"].startswith("/opt/lib")
    assert planned["OMPI_MCA_btl_tcp_if_include"] == "10.0.0.0/24"
    installed.write_text('# why\nNCCL_ALGO=Tree\nexport NCCL_IB_HCA="a,b"\nNCCL_DEBUG=INFO\nTOKEN=secret\n', encoding="utf-8")
    found = nccl_rank.environment_for(document, 0)
    assert found["NCCL_ALGO"] == "Tree" and found["NCCL_IB_HCA"] == "a,b" and "NCCL_DEBUG" not in found and "TOKEN" not in found


ROWS = (
    "        1024           256     float     sum      -1     4.10    0.25    0.25       {0}     0.31    3.29    3.29       0\n"
    "# Out of bounds values : {0} {1}\n# Avg bus bandwidth    : 1 \n#\n# Collective test concluded: all_reduce_perf\n"
)
HEAD = (
    "# Collective test starting: all_reduce_perf\n# Using devices\n#  Rank  0 Group  0 Pid 1 on spark1 device  0 [0x01] GB10\n"
    "#  Rank  1 Group  0 Pid 2 on spark2 device  0 [0x01] GB10\n"
)
GOOD = [{"node": "spark1", "hostname": "spark1", "exit_code": 0}, {"node": "spark2", "hostname": "spark2", "exit_code": 0}]


@pytest.mark.parametrize(
    ("out", "exit_code", "ranks", "timed_out", "error"),
    [
        (HEAD + ROWS.format(0, "OK"), 0, GOOD, False, ""),
        (HEAD + ROWS.format(3, "FAILED"), 7, GOOD, False, "wrong_data"),
        (HEAD + ROWS.format(0, "OK"), 0, GOOD, True, "timeout"),
        (HEAD + ROWS.format(0, "OK"), 0, [GOOD[0], {**GOOD[1], "hostname": "other"}], False, "order"),
        (HEAD + ROWS.format(0, "OK"), 3, GOOD, False, "exit_status"),
        (HEAD + ROWS.format(0, "OK"), 0, [GOOD[0], {"node": "spark2"}], False, "exit_status"),
        (HEAD, 0, GOOD, False, "no_figure"),
        ("", 0, GOOD, False, "ranks"),
        (HEAD.replace("#  Rank  1 Group  0 Pid 2 on spark2 device  0 [0x01] GB10\n", "") + ROWS.format(0, "OK"), 0, GOOD, False, "ranks"),
        (
            "".join(f"# Using devices\n#  Rank  0 Group  0 Pid {pid} on spark{pid} device  0 [0x01] GB10\n" + ROWS.format(0, "OK") for pid in (1, 2)),
            0,
            GOOD,
            False,
            "no_mpi",
        ),
    ],
)
def test_what_an_output_means(out: str, exit_code: int, ranks: list[dict[str, t.Any]], timed_out: bool, error: str) -> None:
    test = NcclTest("x", "all_reduce", ("spark1", "spark2"), 1024, 1024, 2, 1, "all", True)
    found = outcome(test, out, exit_code, timed_out, ranks)
    assert found["error"] == error and (found["status"] == "ok") is (error == "") and bool(found["message"]) is bool(error)
