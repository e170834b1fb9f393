# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Launches that go wrong, over namespaces with real ssh and Open MPI and the stand-in of nccl-tests: each ends within its deadline, with its cause."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import typing as t

import pytest

from conftest import ROOT, ansible_environment

sys.path.insert(0, str(ROOT / "tests/gpu"))

from namespaces import Cluster, Node  # noqa: E402

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces with processes of their own need root"),
    pytest.mark.skipif(
        not all(shutil.which(name) for name in ("mpicc", "mpirun", "ip", "/usr/sbin/sshd")),
        reason="libopenmpi-dev, openmpi-bin, iproute2 or openssh-server is missing",
    ),
]

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv", "alltoall")
RING = "fabric_topology: ring\nfabric_ring_order: [spark1, spark2, spark4, spark3]\nfabric_management_interface: enP7s7\n"
#: Where a node's own NCCL library is: a private folder, so that it can differ between the nodes.
LIBRARIES = "/root/lib"
#: Each node takes itself for a machine with a core to spin on while it waits; here they share one machine's.
YIELDING = {"OMPI_MCA_mpi_yield_when_idle": "1"}


class Stage:
    """The nodes, the stand-in, and how the stage is run over them."""

    def __init__(self, cluster: Cluster, folder: pathlib.Path, programs: pathlib.Path) -> None:
        self.cluster, self.folder, self.programs = cluster, folder, programs

    @property
    def nodes(self) -> list[Node]:
        """The nodes in the order of the inventory."""
        return self.cluster.nodes

    def library(self, versions: t.Sequence[str], *names: str) -> None:
        """Give each node a library of a version that knows some variables: what is read of it are the texts in it."""
        for node, version in zip(self.nodes, versions):
            place = node.folder / "root/lib/libnccl.so.2"
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(b"\0".join([b"", f"NCCL version {version}+cuda13.0".encode(), *(name.encode() for name in names), b""]))

    def run(self, variables: str = RING, **extra: t.Any) -> tuple[dict[str, t.Any], dict[str, dict[str, t.Any]], float]:
        """Run the stage; return its fact, the findings of its layer by id, and the seconds that it took."""
        inventory = self.cluster.inventory(variables)
        settings = {
            "nccl_tests_programs": str(self.programs),
            "nccl_tests_libraries": [LIBRARIES],
            "nccl_tests_largest_bytes": 65536,
            "nccl_tests_iterations": 3,
            "nccl_tests_require_gpu": False,
            "nccl_tests_collectives": ["all_reduce"],
            "nccl_tests_groups": "all",
            "nccl_tests_poll_seconds": 1,
            "nccl_tests_launch_seconds": 30,
            "nccl_tests_test_seconds": 60,
            "report_dir": str(self.folder / "reports"),
            **extra,
            "nccl_tests_environment": {**YIELDING, **extra.get("nccl_tests_environment", {})},
        }
        began = time.monotonic()
        done = subprocess.run(
            ["ansible-playbook", "-i", str(inventory), str(ROOT / "tests/gpu/nccl.yml"), "-e", json.dumps(settings)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=ansible_environment(),
            timeout=400,
            check=False,
        )
        print(done.stdout[-3000:], done.stderr[-3000:])
        assert done.returncode == 0
        report = json.loads((self.folder / "reports/namespaces/latest/report.json").read_text(encoding="utf-8"))
        findings = {finding["id"]: finding for finding in report["findings"] if finding["layer"] == "nccl"}
        return next(iter(report["nccl"].values())), findings, time.monotonic() - began

    def left(self) -> list[str]:
        """Return the processes of launches that are still on a node: each node has process numbers of its own."""
        found = []
        for node in self.nodes:
            if pathlib.Path(f"/proc/{node.pid}").exists():
                lines = node.run("ps -eo args= | grep -E '_perf|orted|mpirun|nccl' | grep -v grep", check=False).splitlines()
                found += [f"{node.name}: {line[:120]}" for line in lines]
        return found


@pytest.fixture(scope="module")
def programs() -> t.Iterator[pathlib.Path]:
    """Compile the stand-in."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fabric-stand-in-", dir="/var/lib"))
    folder.chmod(0o755)
    subprocess.run(["mpicc", "-O2", "-o", str(folder / "all_reduce_perf"), str(ROOT / "tests/lab/image/stand_in.c")], check=True)
    for name in COLLECTIVES[1:]:
        (folder / f"{name}_perf").symlink_to("all_reduce_perf")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def stage(programs: pathlib.Path) -> t.Iterator[Stage]:
    """Make four nodes."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fabric-gpu-", dir="/var/lib"))
    cluster = Cluster(folder / "nodes", 4)
    try:
        cluster.up()
        yield Stage(cluster, folder, programs)
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)


def test_the_ring_runs_in_its_physical_order(stage: Stage) -> None:
    stage.library(["2.30.7"] * 4, "NCCL_IB_HCA", "NCCL_ALGO")
    fact, findings, _seconds = stage.run(nccl_tests_collectives=list(COLLECTIVES), nccl_tests_groups="usual")
    assert fact["status"] == "done" and fact["order"] == ["spark1", "spark2", "spark4", "spark3"]
    whole = [run for run in fact["runs"] if run["group"] == "all"]
    assert {run["collective"] for run in whole} == {f"{name}_perf" for name in COLLECTIVES} - {"alltoall_perf"}
    for run in fact["runs"]:
        assert run["status"] == "ok" and [device["host"] for device in run["devices"]] == run["nodes"]
        assert run["json"]["agrees"] and all(row["out_of_place"]["wrong"] == 0 for row in run["rows"])
    assert [entry["collective"] for entry in fact["not_run"]] == ["alltoall"] and "no cable" in fact["not_run"][0]["reason"]
    assert findings["nccl.stand_in"]["status"] == "warn" and "nccl.transport" not in findings
    assert findings["nccl.trees"]["status"] == "warn" and "ncclTransportTreeConnect" in findings["nccl.trees"]["message"]
    assert not stage.left()


def test_a_library_that_knows_the_marker_gets_it(stage: Stage) -> None:
    names = ("NCCL_SWITCHLESS_RING_ONLY", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")
    stage.library(["2.30.7"] * 4, *names)
    fact, findings, _seconds = stage.run()
    assert fact["nodes"]["spark1"]["known"]["NCCL_SWITCHLESS_RING_ONLY"] is True
    assert findings["nccl.trees"]["status"] == "pass"


def test_the_natural_order_is_refused_before_anything_starts(stage: Stage) -> None:
    fact, findings, _seconds = stage.run(nccl_tests_order=["spark1", "spark2", "spark3", "spark4"])
    assert fact["status"] == "refused" and fact["reason"] == "order" and not fact["runs"] and not fact["nodes"]
    assert {tuple(problem["nodes"]) for problem in fact["problems"]} == {("spark2", "spark3"), ("spark4", "spark1")}
    assert "spark2 and spark3" in findings["nccl.refused"]["message"] and "spark1, spark2, spark4, spark3" in findings["nccl.refused"]["fix"]


@pytest.mark.parametrize("topology", ["mesh", "ring"])
def test_a_rendezvous_on_the_fabric_is_refused(stage: Stage, topology: str) -> None:
    if topology == "mesh":
        stage.cluster.nodes[3:] = []
    variables = f"fabric_topology: {topology}\nfabric_nccl_environment: {{NCCL_SOCKET_IFNAME: enp1s0f0np0}}\n"
    fact, findings, _seconds = stage.run(variables)
    assert fact["reason"] == "rendezvous" and "NCCL_SOCKET_IFNAME=enp1s0f0np0" in findings["nccl.refused"]["message"]


def test_nccl_that_is_too_old_is_refused(stage: Stage) -> None:
    stage.library(["2.28.9"] * 4)
    fact, findings, _seconds = stage.run()
    assert fact["status"] == "refused" and fact["reason"] == "version" and not fact["runs"]
    assert "2.28.9" in findings["nccl.refused"]["message"] and "2.30.7" in findings["nccl.refused"]["message"]


def test_different_versions_are_named(stage: Stage) -> None:
    stage.library(["2.30.7", "2.30.7", "2.31.2", "2.30.7"])
    fact, findings, _seconds = stage.run()
    assert fact["reason"] == "nccl_mismatch" and "spark3 has 2.31.2" in findings["nccl.launch"]["message"]


def test_broken_ssh_is_named(stage: Stage) -> None:
    public = stage.cluster.key.with_suffix(".pub").read_text(encoding="utf-8")
    # The controller gets in, the other nodes do not.
    (stage.nodes[2].folder / "root/.ssh/authorized_keys").write_text(f'from="10.99.77.254" {public}', encoding="utf-8")
    fact, findings, seconds = stage.run()
    assert fact["reason"] == "launch" and seconds < 90
    assert "Permission denied" in findings["nccl.launch"]["message"] and "authorized_keys" in findings["nccl.launch"]["cause"]
    assert not stage.left()


def test_missing_mpirun_is_named(stage: Stage) -> None:
    stage.nodes[0].run("mount --bind /dev/null $(readlink -f $(command -v mpirun))")
    fact, findings, _seconds = stage.run()
    assert fact["reason"] == "mpirun_missing" and "openmpi-bin" in findings["nccl.launch"]["fix"]


def test_wrong_data_fails_whatever_the_speed(stage: Stage) -> None:
    fact, findings, _seconds = stage.run(nccl_tests_environment={"STAND_IN_WRONG": "1"})
    assert {run["error"] for run in fact["runs"]} == {"wrong_data"} and findings["nccl.wrong_data"]["status"] == "fail"


def test_a_hang_ends_at_the_deadline_on_every_node(stage: Stage) -> None:
    fact, findings, seconds = stage.run(nccl_tests_environment={"STAND_IN_HANG": "1"}, nccl_tests_test_seconds=8)
    assert {run["error"] for run in fact["runs"]} == {"timeout"} and findings["nccl.ran"]["status"] in ("fail", "skip")
    assert all(record["deadline"] for run in fact["runs"] for record in run["rank_records"])
    assert seconds < 150 and not stage.left()


def test_a_node_that_dies_in_mid_run_ends_the_run_on_all_others(stage: Stage) -> None:
    def kill() -> None:
        until = time.monotonic() + 90
        while time.monotonic() < until and not stage.nodes[2].run("pgrep -x all_reduce_perf", check=False).strip():
            time.sleep(0.3)
        os.kill(stage.nodes[2].pid, 9)

    killer = threading.Thread(target=kill)
    killer.start()
    fact, _findings, seconds = stage.run(nccl_tests_environment={"STAND_IN_HANG": "1"}, nccl_tests_test_seconds=25, nccl_tests_launch_seconds=15)
    killer.join()
    assert fact["status"] == "done" and all(run["status"] == "failed" for run in fact["runs"])
    assert "spark3 gave no answer" in fact["runs"][0]["message"] or fact["runs"][0]["error"] == "timeout"
    assert seconds < 240 and not stage.left()


PLAYBOOK = """
- hosts: spark
  gather_facts: false
  tasks:
    - ansible.builtin.import_role:
        name: dgxspark.fabric.plan
    - ansible.builtin.import_role:
        name: dgxspark.fabric.nccl
      vars:
        nccl_plan: "{{ fabric_plan }}"
"""
MAKEFILES = {
    "nccl": "src.build:\n\tmkdir -p $(BUILDDIR)/lib $(BUILDDIR)/include\n\techo 'NCCL version 2.30.7' > $(BUILDDIR)/lib/libnccl.so.2\n"
    "\techo > $(BUILDDIR)/include/nccl.h\n",
    "tests": "all:\n\tmkdir -p $(BUILDDIR)\n\techo > $(BUILDDIR)/all_reduce_perf\n",
}


def make_sources(folder: pathlib.Path) -> dict[str, dict[str, str]]:
    """Make small repositories and return them as the role takes them."""
    sources = {}
    for name, makefile in MAKEFILES.items():
        place = folder / f"source-{name}"
        place.mkdir()
        (place / "Makefile").write_text(makefile, encoding="utf-8")
        git = ["git", "-C", str(place), "-c", "user.name=t", "-c", "user.email=t@example.invalid"]
        for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"], ["tag", "v1"]):
            subprocess.run([*git, *arguments], check=True)
        commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
        sources[name] = {"tag": "v1", "commit": commit, "url": place.as_uri()}
    return sources


def test_nccl_is_built_once_and_distributed(stage: Stage) -> None:
    playbook = stage.folder / "build.yml"
    playbook.write_text(PLAYBOOK, encoding="utf-8")
    for node in stage.nodes:
        node.run(
            "mkdir -p /root/cuda/bin /root/mpi/include; printf '#!/bin/sh\\necho release 13.0\\n' > /root/cuda/bin/nvcc; chmod +x /root/cuda/bin/nvcc; "
            "touch /root/mpi/include/mpi.h"
        )
    settings = {
        "nccl_build": True,
        "nccl_sources": make_sources(stage.folder),
        "nccl_base": "/root/nccl",
        "nccl_cuda_home": "/root/cuda",
        "nccl_mpi_home": "/root/mpi",
        "nccl_libraries": ["/root/nccl/current/lib"],
        "nccl_environment_path": "/root/etc/nccl.env",
        "nccl_hostfile_path": "/root/etc/hostfile",
    }

    def run(*more: str) -> dict[str, int]:
        done = subprocess.run(
            ["ansible-playbook", "-i", str(stage.cluster.inventory(RING)), str(playbook), "-e", json.dumps(settings), *more],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env=ansible_environment(),
            check=False,
        )
        print(done.stdout[-4000:], done.stderr[-2000:])
        assert done.returncode == 0
        return {host: int(changed) for host, changed in re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)", done.stdout.rpartition("PLAY RECAP")[2], re.M)}

    assert set(run("--check").values()) == {2} and not (stage.nodes[0].folder / "root/nccl").exists()
    assert set(run().values()) == {2}
    for node in stage.nodes:
        assert (node.folder / "root/nccl/current/bin/all_reduce_perf").exists() and "NCCL_ALGO=Ring" in (node.folder / "root/etc/nccl.env").read_text("utf-8")
        assert [path.name for path in (node.folder / "root/nccl").glob("*.tar")] == (
            [f"{node.run('readlink /root/nccl/current').strip()}.tar"] * (node.name == "spark1")
        )
    assert set(run().values()) == {0}
