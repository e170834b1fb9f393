# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Command lines of a launch, reasons not to launch, what follows from a library, the job's input."""

from __future__ import annotations

import json
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.module_utils import launch_refusals, nccl_launch, nccl_library
from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_job_spec import JobInputError, parse_job

RING = [("spark1", "spark2"), ("spark2", "spark4"), ("spark4", "spark3"), ("spark3", "spark1")]
ORDER = ["spark1", "spark2", "spark4", "spark3"]


def valid_job(**changes: t.Any) -> dict[str, t.Any]:
    """Return a job over two nodes."""
    return {
        "run": "a1b2c3d4",
        "node": "spark1",
        "shape": "pair",
        "order": ["spark1", "spark2"],
        "planned_order": ["spark1", "spark2"],
        "addresses": {"spark1": "10.0.0.1", "spark2": "10.0.0.2"},
        "links": [["spark1", "spark2"]],
        "networks": ["10.0.0.0/24"],
        "fabric_networks": ["192.168.177.0/24"],
        "environments": {"spark1": [{"name": "NCCL_IB_HCA", "value": "rocep1s0f1", "reason": "r"}]},
        "programs": "/opt/nccl/bin",
        "libraries": ["/opt/nccl/lib"],
        "largest_bytes": 1 << 20,
        "memory_share": 0.25,
        "iterations": 5,
        "warmup": 1,
        "launch_seconds": 30,
        "test_seconds": 60,
        "tests": [{"id": "all_reduce-all", "collective": "all_reduce", "nodes": ["spark1", "spark2"], "begin": 4096, "end": 0, "factor": 2, "repeats": 1}],
        **changes,
    }


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("mpirun (Open MPI) 4.1.6\n\nReport bugs to", (4, 1, 6)),
        ("mpirun (Open MPI) 5.0.7\n", (5, 0, 7)),
        ("HYDRA build details:\n Version: 4.1", None),
        ("", None),
    ],
)
def test_the_version_of_open_mpi_is_read(text: str, version: tuple[int, ...] | None) -> None:
    assert nccl_launch.parse_version(text) == version


@pytest.mark.parametrize(
    ("version", "oob", "agent"),
    [((4, 1, 6), ["--mca", "oob_tcp_if_include"], ["--mca", "plm_rsh_agent"]), ((5, 0, 7), ["--prtemca", "prte_if_include"], ["--prtemca", "plm_ssh_agent"])],
)
def test_everything_of_mpi_runs_on_the_management_network(version: tuple[int, ...], oob: list[str], agent: list[str]) -> None:
    command = nccl_launch.mpirun_command("/usr/bin/mpirun", version, "/run/hosts", 3, ["10.0.0.0/24", "10.1.0.0/16"], 60, True, ["prog", "x"])
    text = " ".join(command)
    assert " ".join([*oob, "10.0.0.0/24,10.1.0.0/16"]) in text and "--mca btl_tcp_if_include 10.0.0.0/24,10.1.0.0/16" in text
    assert " ".join([*agent, "ssh -o BatchMode=yes"]) in text and "StrictHostKeyChecking" not in text and "UserKnownHostsFile" not in text
    assert command[:6] == ["/usr/bin/mpirun", "--allow-run-as-root", "-np", "3", "--hostfile", "/run/hosts"] and command[-2:] == ["prog", "x"]
    assert "--allow-run-as-root" not in nccl_launch.mpirun_command("mpirun", version, "h", 3, ["10.0.0.0/24"], 60, False, [])


@pytest.mark.parametrize(
    ("version", "networks", "words"), [((3, 1, 0), ["10.0.0.0/24"], "openmpi-bin"), ((), ["10.0.0.0/24"], "none"), ((5, 0, 0), [], "fabric_management")]
)
def test_what_cannot_be_launched_says_why(version: tuple[int, ...], networks: list[str], words: str) -> None:
    with pytest.raises(nccl_launch.LaunchError, match=words):
        nccl_launch.mpirun_command("mpirun", version, "h", 2, networks, 60, False, [])


def test_the_words_of_a_program_survive_ssh() -> None:
    command = nccl_launch.ssh_command("10.0.0.2", ["python3", "-c", "print('a b')", '{"x": 1}'])
    assert command[-1] == """'python3' '-c' 'print('"'"'a b'"'"')' '{"x": 1}'""" and command[-2] == "10.0.0.2" and command[-3] == "--"


@pytest.mark.parametrize(
    ("memory", "wanted", "share", "expected"),
    [
        (128 << 30, 1 << 30, 0.25, 1 << 30),
        (8 << 30, 16 << 30, 0.25, 512 << 20),
        (100 << 20, 1 << 30, 0.25, 8 << 20),
        (0, 1 << 30, 0.25, 0),
        (1 << 40, 3 << 20, 0.5, 2 << 20),
    ],
)
def test_sizes_come_from_free_memory(memory: int, wanted: int, share: float, expected: int) -> None:
    assert nccl_launch.largest_size(memory, wanted, share) == expected


def test_a_physical_order_is_accepted_and_the_natural_one_refused() -> None:
    assert launch_refusals.order_refusals(ORDER, RING, "ring", ORDER) == []
    refusals = launch_refusals.order_refusals(["spark1", "spark2", "spark3", "spark4"], RING, "ring", ORDER)
    assert [refusal.nodes for refusal in refusals] == [("spark2", "spark3"), ("spark4", "spark1")]
    assert "have no cable between them" in refusals[0].message and "spark1, spark2, spark4, spark3" in refusals[0].fix
    assert launch_refusals.order_refusals(["spark1", "spark3"], [], "switch", ORDER) == []


@pytest.mark.parametrize("order", [["spark1", "spark9"], ["spark1", "spark1"]])
def test_an_order_of_strangers_is_refused(order: list[str]) -> None:
    assert launch_refusals.order_refusals(order, RING, "ring", ORDER)[0].id == "order"


@pytest.mark.parametrize("shape", ["mesh", "ring"])
@pytest.mark.parametrize(
    ("addresses", "environment", "words"),
    [
        ({"spark1": "192.168.177.11"}, {}, "192.168.177.11 lies on 192.168.177.0/24"),
        ({"spark1": "10.0.0.1"}, {"NCCL_SOCKET_IFNAME": "enp1s0f0np0"}, "NCCL_SOCKET_IFNAME"),
        ({"spark1": "10.0.0.1"}, {"NCCL_SOCKET_IFNAME": "=enP2p1s0f1np1,enP7s7"}, "NCCL_SOCKET_IFNAME"),
        ({"spark1": "10.0.0.1"}, {"NCCL_COMM_ID": "192.168.177.12:2222"}, "NCCL_COMM_ID"),
        ({"spark1": "10.0.0.1"}, {"MASTER_ADDR": "192.168.177.12"}, "MASTER_ADDR"),
    ],
)
def test_a_rendezvous_on_the_fabric_is_refused_without_a_switch(shape: str, addresses: dict[str, str], environment: dict[str, str], words: str) -> None:
    refusals = launch_refusals.meeting_refusals(shape, addresses, ["192.168.177.0/24"], {"spark1": environment})
    assert len(refusals) == 1 and words in refusals[0].message and refusals[0].nodes == ("spark1",)
    assert launch_refusals.meeting_refusals("switch", addresses, ["192.168.177.0/24"], {"spark1": environment}) == []


def test_a_rendezvous_on_management_is_accepted() -> None:
    environment = {"NCCL_SOCKET_IFNAME": "enP7s7"}
    assert launch_refusals.meeting_refusals("ring", {"spark1": "10.0.0.1", "spark2": "spark2.lan"}, ["192.168.177.0/24"], {"spark1": environment}) == []
    assert launch_refusals.meeting_refusals("ring", {}, [], {"spark1": {"NCCL_SOCKET_IFNAME": "^enp1s0f0np0"}}) == []


@pytest.mark.parametrize(("version", "refused"), [("2.30.7", False), ("2.31.2", False), ("2.30.4", True), ("2.28.9", True), (None, False)])
def test_an_old_nccl_is_refused_where_routing_is_needed(version: str | None, refused: bool) -> None:
    assert bool(launch_refusals.version_refusals({"spark1": version}, "2.30.7")) is refused
    assert launch_refusals.version_refusals({"spark1": version}, None) == []


def test_the_marker_decides_on_a_ring_and_nowhere_else() -> None:
    entries = [{"name": "NCCL_ALGO", "value": "Ring", "reason": "r"}, {"name": "NCCL_MIN_NCHANNELS", "value": "2", "reason": "the user's"}]
    known = {"NCCL_SWITCHLESS_RING_ONLY": True}
    values = {entry["name"]: entry["value"] for entry in nccl_library.adapted(entries, known, "ring", "upstream")}
    assert values == {"NCCL_ALGO": "Ring", "NCCL_MIN_NCHANNELS": "2", "NCCL_SWITCHLESS_RING_ONLY": "1", "NCCL_MAX_NCHANNELS": "4"}
    for shape, profile, knows in (("mesh", "upstream", True), ("ring", "runtime_connect", True), ("ring", "upstream", False)):
        assert nccl_library.adapted(entries, {"NCCL_SWITCHLESS_RING_ONLY": knows}, shape, profile) == entries
    assert "ncclTransportTreeConnect" in (nccl_library.tree_risk({"NCCL_SWITCHLESS_RING_ONLY": False}, "ring", "upstream") or "")
    assert nccl_library.tree_risk(known, "ring", "upstream") is None and nccl_library.tree_risk({}, "ring", "upstream") is None
    assert nccl_library.ignored({"NCCL_ALGO": "Ring", "NCCL_X": "1"}, {"NCCL_ALGO": True, "NCCL_X": False}) == ["NCCL_X"]


def test_a_job_is_read() -> None:
    job = parse_job(json.loads(json.dumps(valid_job())))
    assert job.environment("spark1") == {"NCCL_IB_HCA": "rocep1s0f1"} and job.environment("spark2") == {} and job.tests[0].end == 0
    assert job.deadline >= job.launch_seconds + job.test_seconds


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"run": "x"}, "run: expected"),
        ({"order": []}, "no node is named"),
        ({"order": ["spark1", "../x"]}, "nodes' names"),
        ({"addresses": {"spark1": "10.0.0.1"}}, "no management address of spark2"),
        ({"addresses": {"spark1": "-oProxy", "spark2": "x"}}, "no address"),
        ({"networks": ["10.0.0.0/33"]}, "is no network"),
        ({"memory_share": 2}, "memory_share"),
        ({"iterations": True}, "iterations"),
        ({"tests": [{"collective": "gossip"}]}, "gossip"),
        ({"tests": [{**valid_job()["tests"][0], "id": "a/b"}]}, "no name of a test"),
        ({"environments": []}, None),
        ({"links": {}}, None),
        ({"tests": "x"}, "expected a list"),
    ],
)
def test_bad_jobs_end_in_a_sentence(changes: dict[str, t.Any], words: str | None) -> None:
    if words is None:
        parse_job(valid_job(**changes))
        return
    with pytest.raises(JobInputError, match=words):
        parse_job(valid_job(**changes))


@given(
    st.dictionaries(st.sampled_from(sorted(valid_job())), st.one_of(st.none(), st.integers(), st.text(max_size=5), st.lists(st.text(max_size=3), max_size=2)))
)
def test_no_job_raises_anything_else(changes: dict[str, t.Any]) -> None:
    try:
        parse_job(valid_job(**changes))
    except JobInputError:
        pass
