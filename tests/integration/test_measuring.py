# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measuring on a mesh of three: everything that is measured, faults that only a load shows, and what the repetitions make of them."""

from __future__ import annotations

import json
import time
import typing as t

import pytest

from conftest import Lab, broken, latest_report, run_playbook, start_playbook

pytestmark = pytest.mark.long

CABLE = "spark1:0-spark2:1"
#: The screening alone, and repetitions of what fell short.
SCREEN = {"fabric_test_seconds": 3, "fabric_rdma_tests": [], "fabric_iperf3_streams": []}
#: A tenth of what a rail reaches in emulation.
SLOW = "20mbit"


def validate(**variables: t.Any) -> tuple[int, dict[str, t.Any]]:
    """Run validate and return its status and its report."""
    run = run_playbook("playbooks/validate.yml", "-e", json.dumps({**SCREEN, **variables}), timeout=1800)
    return run.status, latest_report()


def rail_of(report: dict[str, t.Any], cable: str, rail: str) -> dict[str, t.Any]:
    """Return a rail of the report."""
    return next(one for one in report["cables"] if one["name"] == cable)["rails"][rail]


def others(report: dict[str, t.Any]) -> set[str]:
    """Return the statuses of all cables but the one with the fault."""
    return {one["status"] for one in report["cables"] if one["name"] != CABLE}


def test_everything_is_measured_in_one_execution(provisioned: Lab) -> None:
    since = provisioned.clock("spark1")
    status, report = validate(fabric_rdma_tests=["latency", "read", "send"], fabric_iperf3_streams=[1, 4, 8], fabric_test_seconds=2)
    assert status == 0, [finding["message"] for finding in broken(report)]
    assert 1 <= len(provisioned.executions("spark1", since)) <= 8
    assert report["diagnosis"] == []
    for cable in report["cables"]:
        for rail in cable["rails"].values():
            found = {(one["stage"], one["streams"], one["with_twin"]) for one in rail["further"] if one["state"] == "ok"}
            assert {stage for stage, _streams, _twin in found} == {"write_latency", "send_latency", "read", "send", "tcp"}
            assert {streams for stage, streams, _twin in found if stage == "tcp"} == {1, 4, 8}
            for one in rail["further"]:
                if one["stage"].endswith("latency"):
                    figures = one["latency_us"]
                    assert 0 < figures["min"] <= figures["typical"] <= figures["p99"] <= figures["p99_9"]
                if one["stage"] == "tcp":
                    assert one["evidence"]["command"][0].endswith("iperf3") and one["evidence"]["version"]
                    assert one["evidence"]["path_mtu_bytes"] == 9000


@pytest.mark.parametrize(("direction", "words"), [((), "both"), (("--from", "spark1"), "only spark1 -> spark2")])
def test_a_slow_cable_is_named_with_its_direction(faultless: Lab, direction: tuple[str, ...], words: str) -> None:
    faultless.fault("rate", CABLE, SLOW, *direction)
    status, report = validate()
    assert status != 0 and others(report) == {"pass"}
    found = broken(report)
    assert {(finding["layer"], finding["cable"]) for finding in found} == {("rdma", CABLE)}
    assert words in " ".join(finding["message"] for finding in found)
    assert {test["kind"] for test in report["diagnosis"]} == {"repeat", "alone"}
    assert {one["state"] for one in rail_of(report, CABLE, "a")["retests"]} <= {"ok", "timeout", "failed"}


def test_one_slow_rail_is_named_and_its_twin_is_not(faultless: Lab) -> None:
    faultless.ssh("spark1", f"tc qdisc add dev enp1s0f0np0 root netem rate {SLOW} limit 10000")
    try:
        status, report = validate()
    finally:
        faultless.ssh("spark1", "tc qdisc del dev enp1s0f0np0 root", check=False)
    assert status != 0 and others(report) == {"pass"}
    assert {finding["subject"] for finding in broken(report)} == {f"{CABLE}/a"}
    assert rail_of(report, CABLE, "b")["status"] == "pass"


def test_lost_packets_show_although_the_tools_exit_0(faultless: Lab) -> None:
    faultless.fault("loss", CABLE, "10")
    status, report = validate()
    assert status != 0 and others(report) == {"pass"}
    assert {finding["cable"] for finding in broken(report)} == {CABLE}
    assert {finding["layer"] for finding in broken(report)} <= {"path", "rdma"}


def test_a_killed_server_is_no_slow_cable(faultless: Lab) -> None:
    process = start_playbook("playbooks/validate.yml", "-e", json.dumps({**SCREEN, "fabric_test_seconds": 8}))
    until = time.monotonic() + 300
    while time.monotonic() < until and process.poll() is None:
        # A server's command line has no address at its end.
        if faultless.ssh("spark2", "pgrep -f 'ib_write_bw .*-u [0-9]+$' && sleep 3 && pkill -KILL -f 'ib_write_bw .*-u [0-9]+$'", check=False):
            break
        time.sleep(0.5)
    output, _unused = process.communicate(timeout=900)
    print(output)
    assert process.returncode != 0
    report = latest_report()
    assert {finding["id"] for finding in broken(report)} <= {"rdma.flaky", "rdma.failed"}
    assert all("spark2" in finding["nodes"] for finding in broken(report))
    assert report["diagnosis"], "what failed is repeated"


def test_two_runs_agree(provisioned: Lab) -> None:
    runs = [validate() for _run in range(2)]
    assert [status for status, _report in runs] == [0, 0]
    first, second = ([(cable["name"], cable["status"]) for cable in report["cables"]] for _status, report in runs)
    assert first == second
