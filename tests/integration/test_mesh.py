# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The main job on a mesh of three: provision, measure, check, and the verdict on faults."""

from __future__ import annotations

import pathlib
import re
import subprocess
import time

import pytest

from conftest import QUICK, ROOT, Lab, Run, ansible_environment, broken, latest_report, run_playbook, start_playbook

CABLE = "spark1:0-spark2:1"


def cables_by_status(report: dict) -> dict[str, list[str]]:
    """Return the names of cables by their status."""
    found: dict[str, list[str]] = {}
    for cable in report["cables"]:
        found.setdefault(cable["status"], []).append(cable["name"])
    return found


def test_every_cable_rail_and_direction_is_measured(provisioned: Lab) -> None:
    report = latest_report()
    assert report["verdict"]["status"] == "pass"
    directions: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for cable in report["cables"]:
        for rail, verdict in cable["rails"].items():
            for measurement in verdict["measurements"]:
                if measurement["stage"] != "directed":
                    continue
                assert measurement["gbps"] > 0
                directions.setdefault((cable["name"], rail), set()).add((measurement["client"], measurement["server"]))
                evidence = measurement["evidence"]
                assert evidence["command"][0].endswith("ib_write_bw")
                assert "-d" in evidence["command"] and evidence["device"] in evidence["command"]
                assert evidence["rdma_mtu"] == 4096
                assert evidence["gid_ipv4"].startswith("192.168.")
    assert len(directions) == 6
    assert all(len(ways) == 2 for ways in directions.values())


@pytest.mark.long  # the mesh scenario of molecule runs twice in every `make test`
def test_a_second_run_changes_nothing(provisioned: Lab) -> None:
    run = run_playbook("site.yml", *QUICK)
    assert run.status == 0
    assert set(run.changed.values()) == {0}


def test_check_reports_no_drift_within_the_budget(provisioned: Lab) -> None:
    since = {node: provisioned.clock(node) for node in ("spark1", "spark2", "spark3")}
    run = run_playbook("site.yml", "--check", "--diff")
    assert run.status == 0
    assert set(run.changed.values()) == {0}
    for node, moment in since.items():
        executions = provisioned.executions(node, moment)
        assert 1 <= len(executions) <= 10, executions


def test_validate_stays_within_the_budget(provisioned: Lab) -> None:
    since = provisioned.clock("spark1")
    assert run_playbook("playbooks/validate.yml", *QUICK).status == 0
    executions = provisioned.executions("spark1", since)
    assert 1 <= len(executions) <= 8, executions


def test_live_mtu_drift_is_shown_and_mended(provisioned: Lab) -> None:
    provisioned.ssh("spark2", "ip link set enp1s0f0np0 mtu 1500")
    check = run_playbook("site.yml", "--check", "--diff")
    assert check.status != 0
    assert re.search(r"^-.*mtu: 1500$", check.output, re.M), "the diff shows the live MTU"
    assert re.search(r"^\+.*mtu: 9000$", check.output, re.M)
    assert "enp1s0f0np0" in check.output
    mended = run_playbook("site.yml", *QUICK)
    assert mended.status == 0
    assert mended.changed["spark2"] > 0
    assert provisioned.ssh("spark2", "cat /sys/class/net/enp1s0f0np0/mtu").strip() == "9000"


def test_a_cut_cable_is_named_and_the_others_pass(faultless: Lab) -> None:
    faultless.fault("cut", CABLE)
    run = run_playbook("playbooks/validate.yml", *QUICK)
    assert run.status != 0
    report = latest_report()
    assert cables_by_status(report) == {"fail": [CABLE], "pass": ["spark1:1-spark3:0", "spark2:0-spark3:1"]}
    (finding,) = broken(report)
    assert (finding["layer"], finding["cable"]) == ("link", CABLE)
    assert {"spark1", "spark2"} <= set(finding["nodes"])
    assert CABLE in run.output


def test_an_mtu_hole_fails_in_the_path_layer(faultless: Lab) -> None:
    faultless.fault("mtu", CABLE, "1500")
    run = run_playbook("playbooks/validate.yml", *QUICK)
    assert run.status != 0
    report = latest_report()
    assert cables_by_status(report)["fail"] == [CABLE]
    assert {(finding["layer"], finding["cable"]) for finding in broken(report)} == {("path", CABLE)}


@pytest.mark.long
def test_one_fork_gives_the_same_verdict(provisioned: Lab) -> None:
    run: Run = run_playbook("playbooks/validate.yml", "--forks", "1", *QUICK)
    assert run.status == 0
    assert all(rail["status"] == "pass" for cable in latest_report()["cables"] for rail in cable["rails"].values())


@pytest.mark.long
def test_an_installed_collection_needs_no_configuration(provisioned: Lab, tmp_path: pathlib.Path) -> None:
    environment = ansible_environment()
    environment["ANSIBLE_COLLECTIONS_PATH"] = str(tmp_path / "collections")
    environment["ANSIBLE_CONFIG"] = str(tmp_path / "empty.cfg")
    (tmp_path / "empty.cfg").touch()
    for command in (["build", str(ROOT), "--output-path", str(tmp_path)],
                    ["install", "--offline", "-p", str(tmp_path / "collections"), str(tmp_path / "dgxspark-fabric-0.1.0.tar.gz")]):
        subprocess.run(["ansible-galaxy", "collection", *command], check=True, env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL)
    run = run_playbook("dgxspark.fabric.site", "--forks", "1", *QUICK, inventory=ROOT / "inventories/lab", cwd=tmp_path, environment=environment)
    assert run.status == 0
    assert set(run.changed.values()) == {0}
    assert latest_report(root=tmp_path)["verdict"]["status"] == "pass"


def test_a_node_that_dies_while_measuring_costs_its_own_cables_alone(faultless: Lab) -> None:
    # The last test: a machine that was switched off comes back as it was before it was provisioned.
    process = start_playbook("playbooks/validate.yml")
    seen = ""
    deadline = time.monotonic() + 300
    # Kill it when the load tests have begun.
    while time.monotonic() < deadline and process.poll() is None:
        if "ib_write_bw" in faultless.ssh("spark3", "pgrep -a ib_write_bw || true", check=False):
            break
        time.sleep(0.5)
    faultless.fault("kill", "spark3")
    try:
        seen, _unused = process.communicate(timeout=420)
    except subprocess.TimeoutExpired:
        process.kill()
        pytest.fail("validate.yml did not end by itself\n" + process.communicate()[0])
    print(seen)
    assert process.returncode != 0
    report = latest_report()
    by_status = cables_by_status(report)
    assert by_status.get("pass") == [CABLE]
    assert any(finding["nodes"] == ["spark3"] and finding["layer"] == "node" for finding in broken(report))
    healthy = next(cable for cable in report["cables"] if cable["name"] == CABLE)
    assert all(any(m["gbps"] for m in rail["measurements"]) for rail in healthy["rails"].values())
