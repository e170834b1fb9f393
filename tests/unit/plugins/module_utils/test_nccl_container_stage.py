# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the look into an image means: the image's word in place of the host's, what stands in the way, where the two differ, and what is judged of it."""

from __future__ import annotations

import copy
import typing as t

import pytest

from ansible_collections.dgxspark.fabric.plugins.module_utils import nccl_container_stage as stage
from ansible_collections.dgxspark.fabric.plugins.module_utils import nccl_library, nccl_stage
from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_job_spec import parse_job
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_nccl import PROBLEMS
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils.test_nccl_launch import valid_job
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_nccl_proof import bad, fact_of, judged, run_of

IMAGE = "vllm-node:latest"
DEVICES = ["rdma_cm", "uverbs0"]


def report(**changes: t.Any) -> dict[str, t.Any]:
    """Return what a rank says of a node whose image is like its host; names that begin with ``in_`` change the image."""
    host = {
        "gpus": 1,
        "program": "/opt/nccl/bin/all_reduce_perf",
        "stand_in": False,
        "writes_json": True,
        "nccl_library": "/opt/nccl/lib/libnccl.so.2",
        "nccl_version": "2.30.7",
        "known": {nccl_library.MARKER: False, "NCCL_IB_HCA": True},
        "memlock_bytes": "unlimited",
        "infiniband": list(DEVICES),
        "configurations": {},
        "environment": {},
        "installed": {"NCCL_IB_HCA": "rocep1s0f1"},
        "mpi_version": "4.1.6",
    }
    image = {
        **copy.deepcopy({name: host[name] for name in stage.INSIDE}),
        "problem": None,
        "complete": True,
        "engine": "docker",
        "image_id": "ab" * 32,
        "lacks": [],
        "unloadable": [],
        "loader": None,
        "libraries": {"/opt/nccl/lib/libnccl.so.2": "2.30.7"},
    }
    for name, value in changes.items():
        (image if name.startswith("in_") else host)[name.removeprefix("in_")] = value
    return {**host, "container": image}


def test_the_image_speaks_in_place_of_the_host() -> None:
    found = stage.inside(report(in_nccl_version="2.27.3", in_memlock_bytes=65536))
    assert found["nccl_version"] == "2.27.3" and found["memlock_bytes"] == 65536 and found["gpus"] == 1
    assert found["host"]["nccl_version"] == "2.30.7" and found["host"]["memlock_bytes"] == "unlimited"
    refused = stage.inside({**report(), "container": {"problem": {"id": "image_missing"}}})
    assert refused["nccl_version"] == "2.30.7" and refused["host"] == {}
    assert stage.inside({**report(), "container": None})["host"] == {}


def problem(kind: str, text: str = "", engine: str = "docker") -> dict[str, t.Any]:
    """Return the word of a look that an engine refused."""
    return {"container": {"problem": {"id": kind, "engine": engine, "text": text}}}


@pytest.mark.parametrize(
    ("changes", "reason", "words", "fix"),
    [
        ({"container": None}, "image", "no answer in time", "nccl_tests_launch_seconds"),
        (problem("engine_missing", engine="docker or podman"), "engine_missing", "there is no docker or podman in the PATH", "Install docker or podman on n1"),
        (problem("engine_refused", "permission denied"), "engine_refused", "refuses to say whether it has", "group docker"),
        (problem("image_missing", "No such image"), "image_missing", "docker does not have the image", f"docker pull {IMAGE}"),
        (problem("pull_failed", "denied", "podman"), "pull_failed", "podman could not pull", "podman save and podman load"),
        (problem("architecture", "amd64 instead of arm64"), "architecture", "amd64 instead of arm64", "--platform linux/arm64"),
        (problem("not_started", "bad option"), "not_started", "bad option", "nccl_tests_image_options"),
        (problem("new_kind", "strange"), "new_kind", "cannot be run: strange", "by hand on n1"),
        ({"in_lacks": ["grep", "sort"]}, "image_tools", "has no grep, sort", "has these programs"),
        ({"in_program": None}, "image_program", "nccl-tests is not where", "nccl_tests_image_programs"),
        ({"in_unloadable": ["libmpi.so.40"]}, "image_libraries", "libmpi.so.40 is missing there", "nccl_tests_image_libraries"),
        ({"in_unloadable": ["libmpi.so.40", "libcudart.so.13"]}, "image_libraries", "libmpi.so.40, libcudart.so.13 are missing", "--volume"),
        ({"in_loader": "version `GLIBC_2.38' not found"}, "image_libraries", "GLIBC_2.38", "nccl_tests_image_programs"),
        ({"in_nccl_library": None}, "image_libraries", "libnccl.so.2 is not found in the image", "nccl_tests_image_libraries"),
    ],
)
def test_what_stands_in_the_way_is_told_with_its_fix(changes: dict[str, t.Any], reason: str, words: str, fix: str) -> None:
    given = report(**{name: value for name, value in changes.items() if name != "container"})
    given.update({name: value for name, value in changes.items() if name == "container"})
    found = stage.obstacle("n1", IMAGE, given)
    assert found is not None and found[0] == reason
    assert found[1].startswith("n1: ") and IMAGE in found[1] and "fabric_nccl_image" in found[1] and words in found[1]
    assert found[2] and fix in found[3]


@pytest.mark.parametrize("changes", [{}, {"in_nccl_library": None, "in_stand_in": True}])
def test_nothing_stands_in_the_way(changes: dict[str, t.Any]) -> None:
    assert stage.obstacle("n1", IMAGE, report(**changes)) is None


CONFIGURATION = "/etc/nccl.conf"
OLD = {CONFIGURATION: {"NCCL_IB_GID_INDEX": "3"}}
DIFFERENCES: list[tuple[dict[str, t.Any], str, str]] = [
    (
        {"in_nccl_version": "2.27.3", "in_libraries": {"/opt/nccl/lib/libnccl.so.2": "2.27.3"}},
        "container_version",
        f"NCCL is 2.27.3 in {IMAGE} and 2.30.7 on the host",
    ),
    ({"in_known": {nccl_library.MARKER: True}}, "container_marker", f"knows {nccl_library.MARKER}, the host's does not know it"),
    ({"known": {nccl_library.MARKER: True}}, "container_marker", f"does not know {nccl_library.MARKER}, the host's knows it"),
    (
        {"in_libraries": {"/opt/nccl/lib/libnccl.so.2": "2.30.7", "/usr/lib/python3/nvidia/nccl/lib/libnccl.so.2": "2.27.5"}},
        "container_library",
        "2.27.5 (/usr/lib/python3/nvidia/nccl/lib/libnccl.so.2)",
    ),
    ({"in_configurations": OLD}, "container_configuration", f"{CONFIGURATION} in {IMAGE} sets NCCL_IB_GID_INDEX=3, the host does not"),
    ({"configurations": OLD}, "container_configuration", f"{CONFIGURATION} on the host sets NCCL_IB_GID_INDEX=3, {IMAGE} does not have it"),
    (
        {"configurations": {CONFIGURATION: {"NCCL_ALGO": "Ring"}}, "in_configurations": {CONFIGURATION: {"NCCL_ALGO": "Tree"}}},
        "container_configuration",
        f"{CONFIGURATION} in {IMAGE} sets NCCL_ALGO=Tree, the host NCCL_ALGO=Ring",
    ),
    (
        {"configurations": {CONFIGURATION: {"NCCL_ALGO": "Ring", "NCCL_NET": "IB"}}, "in_configurations": {CONFIGURATION: {"NCCL_NET": "IB"}}},
        "container_configuration",
        f"{CONFIGURATION} on the host sets NCCL_ALGO=Ring, {IMAGE} does not have it",
    ),
    ({"in_environment": {"NCCL_NET": "Socket"}}, "container_configuration", "its own environment (ENV) in vllm-node:latest sets NCCL_NET=Socket"),
    ({"in_memlock_bytes": 65536}, "container_memlock", "may lock 65536 bytes of memory in vllm-node:latest, any amount on the host"),
    ({"memlock_bytes": 8388608}, "container_memlock", "any amount of memory in vllm-node:latest, 8388608 bytes on the host"),
    ({"in_memlock_bytes": None}, "container_memlock", "an unknown amount"),
    ({"in_infiniband": ["rdma_cm"]}, "container_infiniband", "lacks uverbs0 of the host"),
    ({"in_infiniband": []}, "container_infiniband", "lacks rdma_cm, uverbs0 of the host"),
]


def of_one(**changes: t.Any) -> list[dict[str, t.Any]]:
    """Return the differences of one node."""
    return list(stage.differences(IMAGE, {"n1": stage.inside(report(**changes))}, {"n1": {"NCCL_IB_HCA": "rocep1s0f1"}}))


@pytest.mark.parametrize(("changes", "kind", "words"), DIFFERENCES)
def test_a_difference_is_found_and_nothing_else(changes: dict[str, t.Any], kind: str, words: str) -> None:
    found = of_one(**changes)
    assert [one["id"] for one in found] == [kind] and found[0]["nodes"] == ["n1"]
    assert found[0]["message"].startswith("n1: ") and words in found[0]["message"] and found[0]["fix"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        # The plan's own value in the image's environment, and the version that NVIDIA's images are labelled with.
        {"in_environment": {"NCCL_IB_HCA": "rocep1s0f1", "NCCL_VERSION": "2.30.7-1"}},
        # Nothing is compared with what the host does not tell.
        {"nccl_version": None, "known": {}},
        {"infiniband": [], "in_infiniband": ["uverbs0"]},
        {"configurations": OLD, "in_configurations": OLD},
        {"configurations": {CONFIGURATION: {}}, "in_configurations": {"/root/.nccl.conf": {}}},
    ],
)
def test_no_difference(changes: dict[str, t.Any]) -> None:
    assert not of_one(**changes)


def test_another_image_under_the_same_name_is_told_once() -> None:
    reports = {"n1": stage.inside(report()), "n2": stage.inside(report(in_image_id="cd" * 32))}
    found = list(stage.differences(IMAGE, reports, {}))
    assert [(one["id"], one["nodes"]) for one in found if one["id"] == "container_image"] == [("container_image", ["n1", "n2"])]
    assert "n1 has abababababab, n2 has cdcdcdcdcdcd" in found[0]["message"]


def verdict_of(**reports: dict[str, t.Any]) -> nccl_stage.Verdict:
    """Return what the look at two nodes with an image means."""
    container = {"image": IMAGE, "options": ["--ipc=host"], "pull_seconds": 5}
    job = parse_job(valid_job(container=container, require_gpu=False))
    return nccl_stage.judge(job, {node: stage.inside(one) for node, one in reports.items()})


def test_an_obstacle_on_any_node_stops_the_tests() -> None:
    verdict = verdict_of(spark1=report(), spark2={**report(), **problem("image_missing", "No such image")})
    assert (verdict.status, verdict.reason) == ("failed", "image_missing") and verdict.message.startswith("spark2: ") and verdict.cause
    assert not [one for one in verdict.problems if one["id"].startswith("container_")]


def test_differences_do_not_stop_the_tests() -> None:
    verdict = verdict_of(spark1=report(in_memlock_bytes=65536), spark2=report(in_memlock_bytes=65536))
    assert verdict.status == "running"
    told = [one for one in verdict.problems if one["id"] in ("container_memlock", "memlock")]
    assert len(told) == 4 and all(IMAGE in one["message"] for one in told)


def test_images_with_other_libraries_stop_the_tests() -> None:
    verdict = verdict_of(spark1=report(), spark2=report(in_nccl_version="2.27.3"))
    assert verdict.reason == "nccl_mismatch" and "spark2 has 2.27.3" in verdict.message


RULES = {f"nccl.{name}": "fail" if name == "container_infiniband" else "warn" for name in PROBLEMS if name.startswith("container_")}


@pytest.mark.parametrize(("rule", "status"), RULES.items())
def test_each_difference_is_a_finding(rule: str, status: str) -> None:
    plan = healthy.plan_of("mesh", 3)
    problems = [{"id": rule.removeprefix("nccl."), "nodes": ["spark2"], "message": "spark2: it differs", "fix": "mend it"}]
    findings = judged(plan, fact_of(plan, run_of(plan, busbw=24.0), image=IMAGE, problems=problems))
    assert bad(findings) == {rule: status} and "spark2: it differs" in findings[rule]["message"]
    assert {name: findings[name]["status"] for name in RULES if name != rule} == dict.fromkeys([name for name in RULES if name != rule], "pass")


def test_without_an_image_nothing_is_said_of_one() -> None:
    plan = healthy.plan_of("mesh", 3)
    assert not set(RULES) & set(judged(plan, fact_of(plan, run_of(plan, busbw=24.0))))


def test_an_obstacle_is_the_finding_of_the_launch() -> None:
    plan = healthy.plan_of("mesh", 3)
    reason, message, cause, fix = t.cast(tuple[str, str, str, str], stage.obstacle("spark2", IMAGE, {**report(), **problem("image_missing")}))
    fact = {**fact_of(plan), "status": "failed", "reason": reason, "message": message, "cause": cause, "fix": fix, "image": IMAGE}
    found = judged(plan, fact)["nccl.launch"]
    assert found["status"] == "fail" and message in found["message"] and found["cause"] == cause and found["fix"] == fix
