# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cabling of a mesh of three, found at layer 2: as planned, swapped, to the wrong node, half of it down, switched off."""

from __future__ import annotations

import re
import typing as t

import pytest
import yaml

from conftest import QUICK, ROOT, Lab, broken, latest_report, run_playbook

CABLE, OTHER = "spark1:0-spark2:1", "spark2:0-spark3:1"


@pytest.fixture(scope="module")
def bare(mesh: Lab) -> Lab:
    """Return a mesh on which nothing was provisioned."""
    return mesh


@pytest.fixture
def miswired(bare: Lab) -> t.Iterator[Lab]:
    """Return the bare mesh for a test that moves plugs; they are put back after it."""
    yield bare
    bare.fault("clear")


def test_discover_needs_no_address_and_finds_the_plan(bare: Lab) -> None:
    since = bare.clock("spark1")
    run = run_playbook("playbooks/discover.yml", "-e", "cabling_raise_ports=true")
    assert run.status == 0
    assert "Cabling found: a mesh; 3 nodes, 3 cables." in run.output and "Every cable is where the plan has it." in run.output
    assert len(bare.executions("spark1", since)) <= 3


@pytest.mark.long
def test_discover_writes_an_inventory_without_a_plan(bare: Lab, tmp_path) -> None:
    inventory = yaml.safe_load((ROOT / "inventories/lab/hosts.yml").read_text(encoding="utf-8"))
    variables = yaml.safe_load((ROOT / "inventories/lab/group_vars/spark.yml").read_text(encoding="utf-8"))
    inventory["spark"]["vars"] = {name: value for name, value in variables.items() if not name.startswith("fabric_")}
    without = tmp_path / "hosts.yml"
    without.write_text(yaml.safe_dump(inventory), encoding="utf-8")
    written = tmp_path / "found/hosts.yml"
    run = run_playbook("playbooks/discover.yml", "-e", "cabling_raise_ports=true", "-e", f"cabling_inventory={written}", inventory=without)
    assert run.status == 0
    assert yaml.safe_load(written.read_text(encoding="utf-8"))["spark"]["vars"]["fabric_topology"] == "mesh"
    plan = run_playbook("playbooks/plan.yml", "-e", f"plan_dir={tmp_path}/plan", inventory=written)
    assert plan.status == 0


def test_swapped_plugs_stop_provisioning_before_anything_is_written(miswired: Lab) -> None:
    miswired.fault("swap", CABLE, OTHER)
    run = run_playbook("site.yml", *QUICK)
    assert run.status != 0
    assert "spark2 port 0 and spark2 port 1 are swapped" in run.output and "Exchange the two plugs at spark2." in run.output
    for node in ("spark1", "spark2", "spark3"):
        assert miswired.ssh(node, "ls /etc/netplan/40-cx7.yaml 2>/dev/null || true").strip() == ""


@pytest.mark.long
def test_cables_to_other_nodes_than_planned_are_told_with_both_ends(bare: Lab) -> None:
    run = run_playbook("playbooks/discover.yml", "-e", "cabling_raise_ports=true", "-e", '{"fabric_ring_order": ["spark1", "spark3", "spark2"]}')
    assert run.status != 0
    assert "cable 2 (spark1:0-spark3:1) goes from spark3 port 1 to spark2 port 0, expected spark1 port 0." in run.output


@pytest.mark.long
def test_a_port_that_is_off_is_said_to_be_and_left_alone(bare: Lab) -> None:
    bare.ssh("spark3", "ip link set enp1s0f0np0 down; ip link set enP2p1s0f0np0 down")
    run = run_playbook("playbooks/discover.yml")
    assert "spark3 port 0: admin down, not probed" in run.output
    raised = run_playbook("playbooks/discover.yml", "-e", "cabling_raise_ports=true")
    assert raised.status == 0 and "Every cable is where the plan has it." in raised.output
    flags = bare.ssh("spark3", "ip -o link show enp1s0f0np0")
    assert not re.search(r"<[^>]*\bUP\b", flags), "the port is off again"


@pytest.mark.long
def test_a_swap_is_a_finding_of_layer_link(faultless: Lab) -> None:
    faultless.fault("swap", CABLE, OTHER)
    run = run_playbook("playbooks/validate.yml", *QUICK)
    assert run.status != 0
    found = broken(latest_report())
    assert {(one["id"], one["layer"], one["cable"]) for one in found} == {("link.cabling", "link", CABLE), ("link.cabling", "link", OTHER)}
    assert "Exchange the two plugs at spark2." in found[0]["fix"]


@pytest.mark.long
def test_a_twin_without_a_link_leaves_the_other_rail_its_verdict(faultless: Lab) -> None:
    faultless.fault("twin-down", "spark1", "enP2p1s0f0np0")
    run = run_playbook("playbooks/discover.yml")
    assert run.status == 0 and "spark1 port 0 (rail b has no link) -- spark2 port 1" in run.output
    assert run_playbook("playbooks/validate.yml", *QUICK).status != 0
    report = latest_report()
    assert [(one["id"], one["subject"]) for one in broken(report)] == [("link.one_twin", f"{CABLE}/b")]
    rails = next(cable for cable in report["cables"] if cable["name"] == CABLE)["rails"]
    assert rails["a"]["status"] == "pass" and rails["b"]["layer"] == "link"


@pytest.mark.long
def test_validate_stays_within_the_budget_of_executions(provisioned: Lab) -> None:
    since = provisioned.clock("spark2")
    assert run_playbook("playbooks/validate.yml", *QUICK).status == 0
    executions = provisioned.executions("spark2", since)
    assert 3 <= len(executions) <= 8, executions
    since = provisioned.clock("spark2")
    assert run_playbook("site.yml", "--check").status == 0
    executions = provisioned.executions("spark2", since)
    assert len(executions) <= 10, executions


@pytest.mark.long
def test_a_cluster_in_use_is_not_measured(faultless: Lab) -> None:
    load = "systemd-run --quiet --unit=fabric-test-load ib_write_bw -x 1 -p 19999 --run_infinitely -D 5"
    faultless.ssh("spark2", f"{load} -d rocep1s0f1")
    try:
        faultless.ssh("spark2", "for i in $(seq 20); do grep -q :4E1F /proc/net/tcp /proc/net/tcp6 && break; sleep 0.5; done")
        faultless.ssh("spark1", f"{load} -d rocep1s0f0 10.77.0.12")
        faultless.ssh("spark1", "for i in $(seq 20); do rdma -j res show qp | grep -q ib_write_bw && break; sleep 0.5; done")
        run = run_playbook("playbooks/validate.yml", *QUICK)
    finally:
        for node in ("spark1", "spark2"):
            faultless.ssh(node, "systemctl stop fabric-test-load 2>/dev/null || true", check=False)
    assert run.status != 0
    report = latest_report()
    busy = {one["subject"]: one["message"] for one in report["findings"] if one["id"] == "node.busy" and one["status"] == "fail"}
    assert set(busy) == {"spark1", "spark2"} and all("ib_write_bw" in message for message in busy.values())
    assert {node: record["status"] for node, record in report["perftest"].items()} == {
        "spark1": "refused_busy", "spark2": "refused_busy", "spark3": "cluster_busy"}
