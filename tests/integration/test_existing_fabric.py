# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fabric that somebody else addressed is validated as it is: NVIDIA's triangle, two /24 a cable, hosts .1 and .2, MTU 1500."""

from __future__ import annotations

import json
import pathlib
import typing as t

import pytest
import yaml

from conftest import ROOT, Lab, latest_report, run_playbook

# node: port: addresses of rail a and b
ADDRESSES = {
    "spark1": {0: ("192.168.0.1", "192.168.1.1"), 1: ("192.168.2.1", "192.168.3.1")},
    "spark2": {0: ("192.168.4.1", "192.168.5.1"), 1: ("192.168.0.2", "192.168.1.2")},
    "spark3": {0: ("192.168.2.2", "192.168.3.2"), 1: ("192.168.4.2", "192.168.5.2")},
}
CABLES = (("spark1:0", "spark2:1"), ("spark2:0", "spark3:1"), ("spark3:0", "spark1:1"))


def interface(port: int, rail: int) -> str:
    """Return the name of an interface; rail 0 is a, 1 is b."""
    return f"{('enp1', 'enP2p1')[rail]}s0f{port}np{port}"


def plug_addresses(plug: str) -> tuple[str, str]:
    """Return the addresses of a plug's rails."""
    node, port = plug.split(":")
    return ADDRESSES[node][int(port)]


def fabric_variables() -> dict[str, t.Any]:
    """Return the variables that describe the triangle."""
    cables = []
    for a, b in CABLES:
        networks = [str(address).rpartition(".")[0] + ".0/24" for address in plug_addresses(a)]
        cables.append({"a": a, "b": b, "networks": networks, "addresses": {a: list(plug_addresses(a)), b: list(plug_addresses(b))}})
    # The lab's expected rates were measured with MTU 9000. On MTU 1500 RoCE sends 1024 bytes a packet instead of 4096, and an emulated machine
    # pays by the packet.
    calibrated = yaml.safe_load((ROOT / "inventories/lab/group_vars/spark.yml").read_text(encoding="utf-8"))
    rates = {
        name: {at_once: round(rate * 0.4, 4) for at_once, rate in calibrated[name].items()}
        for name in ("fabric_rail_gbps", "fabric_rail_bidirectional_gbps")
    }
    return {"fabric_topology": "mesh", "fabric_cables": cables, "fabric_mtu": 1500, "fabric_cluster_name": "triangle", "fabric_test_seconds": 2, **rates}


@pytest.fixture
def triangle(mesh: Lab) -> t.Iterator[Lab]:
    """Return a mesh that works with NVIDIA's addresses, none of it written by us."""
    mesh.call("reset")
    for node, ports in ADDRESSES.items():
        commands = []
        for port, rails in ports.items():
            for rail, address in enumerate(rails):
                name = interface(port, rail)
                commands += [f"sysctl -qw net.ipv4.conf.{name}.arp_ignore=1 net.ipv4.conf.{name}.arp_announce=2",
                             f"ip link set {name} mtu 1500 up", f"ip addr add {address}/24 dev {name}"]
        mesh.ssh(node, " && ".join(commands))
    yield mesh
    mesh.call("reset")


def state(lab: Lab) -> dict[str, str]:
    """Return what must not change: netplan's files, addresses, links and sysctl settings of each node."""
    command = "find /etc/netplan /etc/sysctl.d -type f -exec sha256sum {} + ; ip -br addr; ip -br link; sysctl -a 2>/dev/null | grep -E 'arp_(ignore|announce)'"
    return {node: lab.ssh(node, command) for node in ADDRESSES}


def test_nvidias_triangle_is_validated_and_left_alone(triangle: Lab, tmp_path: pathlib.Path) -> None:
    variables = tmp_path / "triangle.json"
    variables.write_text(json.dumps(fabric_variables()), encoding="utf-8")
    before = state(triangle)
    run = run_playbook(str(ROOT / "playbooks/validate.yml"), "-e", f"@{variables}", "-e", f"report_dir={tmp_path}/reports", cwd=ROOT)
    report = latest_report("triangle", tmp_path)
    assert run.status == 0, report["verdict"]
    assert len(report["cables"]) == 3
    for cable in report["cables"]:
        for rail in cable["rails"].values():
            assert rail["status"] == "pass"
            assert all(measurement["gbps"] for measurement in rail["measurements"])
    assert state(triangle) == before
    assert set(run.changed.values()) == {0}


@pytest.mark.long
def test_provisioning_leaves_such_a_fabric_alone(triangle: Lab, tmp_path: pathlib.Path) -> None:
    variables = tmp_path / "triangle.json"
    variables.write_text(json.dumps(fabric_variables()), encoding="utf-8")
    before = state(triangle)
    run = run_playbook("playbooks/provision.yml", "-e", f"@{variables}", "-e", "fabric_ssh_mesh=false")
    assert run.status == 0
    assert set(run.changed.values()) == {0}
    assert state(triangle) == before
