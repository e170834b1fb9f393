# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role nccl_tests with an image, over namespaces with real ssh, Open MPI and podman, and the stand-in of nccl-tests.

The image is made of files of this machine: nothing is pulled. Each node has a store, a runtime folder and shared memory of its own.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import typing as t

import pytest

from conftest import ROOT
from test_nccl_launch import Cluster, Node, Stage

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces with processes of their own need root"),
    pytest.mark.skipif(
        not all(shutil.which(name) for name in ("podman", "runc", "mpicc", "mpirun", "ip", "/usr/sbin/sshd")),
        reason="podman, runc, libopenmpi-dev, openmpi-bin, iproute2 or openssh-server is missing",
    ),
]

IMAGE = "localhost/fabric-stand-in:1"
TOOLS = ("sh", "timeout", "cat", "tr", "grep", "sort", "ls", "env", "find")
VARIABLES = f"fabric_topology: pair\nfabric_management_interface: enP7s7\nfabric_nccl_image: {IMAGE}\n"
MEMLOCK = 4096000
#: Given outright: the engine's defaults are above what a machine that is a container itself may raise.
LIMITS = [f"--ulimit={name}={value}:{value}" for name, value in (("nproc", 1000), ("nofile", 1000), ("memlock", MEMLOCK))]
ENGINE = "#!/bin/sh\nexec /root/engine --storage-driver vfs --root /root/store --runroot /run/store --cgroup-manager cgroupfs --runtime runc \"$@\"\n"
MARKER = "NCCL_SWITCHLESS_RING_ONLY"


def library(version: str, *names: str) -> bytes:
    """Return a library of a version that knows some variables: what is read of it are the texts in it."""
    return b"\0".join([b"", f"NCCL version {version}+cuda13.0".encode(), *(name.encode() for name in names), b""])


def loaded_by(program: pathlib.Path) -> set[str]:
    """Return the files that the loader takes for a program or a library."""
    said = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    return set(re.findall(r"(/\S+) \(0x", said))


@pytest.fixture(scope="module")
def made() -> t.Iterator[pathlib.Path]:
    """Compile the stand-in, and pack an image that can run it: a shell, some tools, Open MPI with its parts, another NCCL, an old nccl.conf."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fabric-image-", dir="/var/lib"))
    folder.chmod(0o755)
    (folder / "programs").mkdir()
    program = folder / "programs/all_reduce_perf"
    subprocess.run(["mpicc", "-O2", "-o", str(program), str(ROOT / "tests/lab/image/stand_in.c")], check=True)
    root = folder / "root"
    for name in ("bin", "tmp", "etc", "dev", "proc", "sys", "root", "opt/nccl"):
        (root / name).mkdir(parents=True)
    tools = {name: pathlib.Path(t.cast(str, shutil.which(name))).resolve() for name in TOOLS}
    for name, path in tools.items():
        shutil.copy(path, root / "bin" / name)
    told = subprocess.run(["ompi_info", "--path", "pkglibdir", "--path", "pkgdatadir", "--parsable"], capture_output=True, text=True, check=True).stdout
    parts = [pathlib.Path(line.rpartition(":")[2]) for line in told.splitlines() if line.startswith("path:")]
    parts += [*pathlib.Path("/usr/lib").glob("*/pmix2"), *pathlib.Path("/usr/share").glob("pmix*"), pathlib.Path("/etc/openmpi")]
    for place in (part for part in parts if part.is_dir()):
        shutil.copytree(place, root / str(place).strip("/"), dirs_exist_ok=True, ignore_dangling_symlinks=True)
    for path in {*tools.values(), program, *(file for part in parts for file in part.rglob("*.so*"))}:
        for needed in loaded_by(path):
            (root / needed.strip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(needed, root / needed.strip("/"))
    (root / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n", encoding="utf-8")
    (root / "etc/nccl.conf").write_text("# left over\nNCCL_IB_GID_INDEX=3\n", encoding="utf-8")
    (root / "opt/tests").mkdir()
    shutil.copy(program, root / "opt/tests")
    (root / "opt/nccl/libnccl.so.2").write_bytes(library("2.27.3"))
    subprocess.run(["tar", "-C", str(root), "-cf", str(folder / "image.tar"), "."], check=True)
    yield folder
    shutil.rmtree(folder)


def give_engine(node: Node) -> None:
    """Give a node podman with a store of its own."""
    home, engine = node.folder / "root", t.cast(str, shutil.which("podman"))
    shutil.copy(engine, home / "engine")
    (home / "wrapper").write_text(ENGINE, encoding="utf-8")
    (home / "wrapper").chmod(0o755)
    node.run(f"mount -t tmpfs shm /dev/shm && mount --bind /root/wrapper {engine}")


@pytest.fixture
def stage(made: pathlib.Path) -> t.Iterator[Stage]:
    """Make two nodes that have the image, which the first makes and the second loads, as one would."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fabric-gpu-", dir="/var/lib"))
    cluster = Cluster(folder / "nodes", 2)
    try:
        cluster.up()
        first, second = cluster.nodes
        for node in cluster.nodes:
            give_engine(node)
        first.run(f"podman import -q {made}/image.tar {IMAGE} && podman save -q -o {folder}/saved.tar {IMAGE}")
        second.run(f"podman load -q -i {folder}/saved.tar")
        yield Stage(cluster, folder, made / "programs")
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)


def left(stage: Stage) -> list[str]:
    """Return the processes and containers of launches that are still on a node."""
    containers = [f"{node.name}: {line}" for node in stage.nodes for line in node.run("podman ps -a --format '{{.Names}} {{.State}}'").splitlines()]
    return [*stage.left(), *containers]


@pytest.mark.parametrize("programs", ["", "/opt/tests"])
def test_the_tests_run_in_the_image_which_is_compared_with_its_host(stage: Stage, programs: str) -> None:
    stage.library(["2.30.7"] * 2, MARKER)
    # With nccl-tests in the image the host has none: what runs can only be the image's.
    own = {"nccl_tests_programs": "/nowhere"} if programs else {}
    fact, findings, _seconds = stage.run(
        VARIABLES, nccl_tests_image_options=LIMITS, nccl_tests_image_libraries=["/opt/nccl"], nccl_tests_image_programs=programs, **own)
    assert fact["status"] == "done" and fact["image"] == IMAGE, fact["message"]
    assert len(fact["runs"]) == 2 and {run["status"] for run in fact["runs"]} == {"ok"}
    for run in fact["runs"]:
        assert [device["host"] for device in run["devices"]] == ["spark1", "spark2"] and run["json"]["agrees"]
    told = {name: finding["message"] for name, finding in findings.items() if name.startswith("nccl.container_") and finding["status"] != "pass"}
    assert set(told) == {"nccl.container_version", "nccl.container_marker", "nccl.container_configuration", "nccl.container_memlock"}
    assert {findings[name]["status"] for name in told} == {"warn"}
    assert f"spark1: NCCL is 2.27.3 in {IMAGE} and 2.30.7 on the host" in told["nccl.container_version"]
    assert f"does not know {MARKER}, the host's knows it" in told["nccl.container_marker"]
    assert f"/etc/nccl.conf in {IMAGE} sets NCCL_IB_GID_INDEX=3, the host does not" in told["nccl.container_configuration"]
    assert f"spark2: a process may lock {MEMLOCK} bytes of memory in {IMAGE}" in told["nccl.container_memlock"]
    assert findings["nccl.stand_in"]["status"] == "warn" and not left(stage)


def test_a_node_without_the_image_is_named_before_anything_runs(stage: Stage) -> None:
    stage.nodes[1].run(f"podman rmi -f {IMAGE}")
    fact, findings, _seconds = stage.run(VARIABLES, nccl_tests_image_options=LIMITS)
    assert (fact["status"], fact["reason"]) == ("failed", "image_missing") and not fact["runs"]
    assert f"spark2: podman does not have the image {IMAGE}" in findings["nccl.launch"]["message"] and "spark1: " not in findings["nccl.launch"]["message"]
    assert "podman save on a node that has it" in findings["nccl.launch"]["fix"] and not left(stage)


def test_an_option_that_the_engine_refuses_is_named(stage: Stage) -> None:
    fact, findings, _seconds = stage.run(VARIABLES, nccl_tests_image_options=[*LIMITS, "--device=/dev/nothing-there"])
    assert fact["reason"] == "not_started" and "/dev/nothing-there" in findings["nccl.launch"]["message"]
    assert "nccl_tests_image_options" in findings["nccl.launch"]["fix"] and not left(stage)


def test_a_hang_in_the_image_ends_at_the_deadline_and_leaves_no_container(stage: Stage) -> None:
    fact, _findings, seconds = stage.run(
        VARIABLES, nccl_tests_image_options=LIMITS, nccl_tests_environment={"STAND_IN_HANG": "1"}, nccl_tests_test_seconds=10)
    assert {run["error"] for run in fact["runs"]} == {"timeout"} and all(record["deadline"] for run in fact["runs"] for record in run["rank_records"])
    assert seconds < 150 and not left(stage)
