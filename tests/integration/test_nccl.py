# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The nccl stage on virtual Sparks: the stand-in of nccl-tests moves real data over the fabric's cables, in rank order."""

from __future__ import annotations

import json
import typing as t

import pytest

from conftest import Lab, latest_report, run_playbook

pytestmark = pytest.mark.long

STAND_IN = {
    "nccl_tests_programs": "/usr/lib/sparklab/nccl-tests",
    "nccl_tests_libraries": [],
    "nccl_tests_require_gpu": False,
    "nccl_tests_largest_bytes": 262144,
    "nccl_tests_iterations": 2,
    "nccl_tests_warmup": 1,
    "nccl_tests_collectives": ["all_reduce", "all_gather"],
    "nccl_tests_launch_seconds": 120,
    "nccl_tests_test_seconds": 120,
    "fabric_test_seconds": 2,
}
KEY = "/root/.ssh/id_ed25519"


def let_nodes_in(lab: Lab, count: int) -> None:
    """Give root on every node one key and the others' host keys, where provisioning has not."""
    nodes = [f"spark{number}" for number in range(1, count + 1)]
    addresses = " ".join(f"10.77.0.{10 + number}" for number in range(1, count + 1))
    lab.ssh("spark1", f"test -f {KEY} || ssh-keygen -q -t ed25519 -N '' -f {KEY}")
    private, public = lab.ssh("spark1", f"cat {KEY}"), lab.ssh("spark1", f"cat {KEY}.pub").strip()
    for node in nodes:
        lab.ssh(
            node,
            f"umask 077; mkdir -p /root/.ssh; printf '%s' '{private}' > {KEY}; grep -qF '{public}' /root/.ssh/authorized_keys || "
            f"echo '{public}' >> /root/.ssh/authorized_keys; ssh-keyscan -t ed25519 {addresses} > /root/.ssh/known_hosts 2>/dev/null",
        )


def validate(**extra: t.Any) -> tuple[dict[str, t.Any], dict[str, dict[str, t.Any]]]:
    """Validate with the stand-in as root; return the stage's fact and the findings of its layer by id."""
    run_playbook("playbooks/validate.yml", "-e", json.dumps({**STAND_IN, "fabric_ssh_user": "root", **extra}))
    report = latest_report()
    findings = {finding["id"]: finding for finding in report["findings"] if finding["layer"] == "nccl"}
    return next(iter(report["nccl"].values())), findings


def left(lab: Lab, nodes: t.Iterable[str]) -> list[str]:
    """Return the processes of a launch that are still on a node."""
    return [f"{node}: {line}" for node in nodes for line in lab.ssh(node, "ps -eo args= | grep -E '_perf |prted|mpirun' | grep -v grep || true").splitlines()]


def test_a_mesh_moves_its_data_over_its_cables_in_rank_order(provisioned: Lab) -> None:
    let_nodes_in(provisioned, 3)
    fact, findings = validate()
    assert fact["status"] == "done" and fact["order"] == ["spark1", "spark2", "spark3"] and fact["stand_in"] is True
    for run in fact["runs"]:
        assert run["status"] == "ok" and [device["host"] for device in run["devices"]] == run["nodes"] and run["wrong"] == 0
    whole = [run for run in fact["runs"] if run["group"] == "all" and run["sweep"]]
    for record in whole[0]["rank_records"]:
        fabric = {name: entry["tx_bytes"] for name, entry in record["bytes"]["devices"].items()}
        assert sum(fabric.values()) > record["bytes"]["interfaces"]["enP7s7"]["tx_bytes"] / 4, fabric
    assert findings["nccl.stand_in"]["status"] == "warn" and "nccl.transport" not in findings
    assert not left(provisioned, ["spark1", "spark2", "spark3"])


def test_without_asking_for_the_stand_in_the_stage_is_a_skip(provisioned: Lab) -> None:
    since = provisioned.clock("spark1")
    run_playbook("playbooks/validate.yml", "-e", "fabric_test_seconds=2")
    report = latest_report()
    findings = [finding for finding in report["findings"] if finding["layer"] == "nccl"]
    assert [(finding["id"], finding["status"]) for finding in findings] == [("nccl.measured", "skip")] and "no NVIDIA GPU" in findings[0]["message"]
    assert not [line for line in provisioned.executions("spark1", since) if "nccl" in line]


def test_a_hang_ends_on_every_node(provisioned: Lab) -> None:
    let_nodes_in(provisioned, 3)
    fact, findings = validate(nccl_tests_environment={"STAND_IN_HANG": "1"}, nccl_tests_test_seconds=20, nccl_tests_groups="all")
    assert {run["error"] for run in fact["runs"]} == {"timeout"} and findings["nccl.ran"]["status"] in ("fail", "skip")
    assert not left(provisioned, ["spark1", "spark2", "spark3"])


def test_a_ring_of_four_runs_in_its_physical_order_and_no_other(lab: Lab) -> None:
    lab.call("up", "--topology", "ring", "--nodes", "4")
    lab.call("reset")
    run_playbook("playbooks/provision.yml")
    let_nodes_in(lab, 4)
    fact, _findings = validate()
    assert fact["status"] == "done" and all(run["status"] == "ok" for run in fact["runs"])
    crossed = [fact["order"][place] for place in (0, 2, 1, 3)]
    fact, findings = validate(nccl_tests_order=crossed)
    assert fact["status"] == "refused" and not fact["runs"] and f"{crossed[0]} and {crossed[1]}" in findings["nccl.refused"]["message"]
