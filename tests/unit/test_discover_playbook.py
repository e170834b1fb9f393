# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""discover.yml and the stop in provision.yml with a real ansible-playbook: nodes are network namespaces, frames are real.

The "ssh" of a node is a Python interpreter that enters its namespace. Skipped where this process may not make namespaces.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import typing as t

import pytest
import yaml

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan import make_plan
from ansible_collections.dgxspark.fabric.tests.unit.plugins.modules import wires as wires_module

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = shutil.which("ansible-playbook", path=os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", "")]))
NODES = ("spark1", "spark2", "spark3")
MESH = (("spark1:0", "spark2:1"), ("spark2:0", "spark3:1"), ("spark3:0", "spark1:1"))
SWAPPED = (("spark1:0", "spark2:0"), ("spark2:1", "spark3:1"), ("spark3:0", "spark1:1"))

pytestmark = pytest.mark.skipif(PROGRAM is None or not wires_module.usable(), reason="needs ansible-playbook, root and network namespaces")


class Cluster:
    """Namespaces with an inventory of them."""

    def __init__(self, folder: pathlib.Path, cables: t.Sequence[tuple[str, ...]], **variables: t.Any) -> None:
        self.wires = wires_module.Wires(folder, NODES, cables)
        self.folder = folder
        hosts = {}
        for node in NODES:
            self.wires.add_management(node, f"10.77.0.{NODES.index(node) + 11}/24")
            interpreter = folder / f"python-{node}"
            interpreter.write_text(f"#!/bin/sh\nexec ip netns exec {self.wires.space(node)} {sys.executable} \"$@\"\n", encoding="utf-8")
            interpreter.chmod(0o755)
            hosts[node] = {
                "ansible_host": f"10.77.0.{NODES.index(node) + 11}", "ansible_connection": "local", "ansible_become": False,
                "ansible_python_interpreter": str(interpreter), "cabling_state_directory": str(folder / f"state-{node}")}
        self.inventory = folder / "hosts.yml"
        self.inventory.write_text(yaml.safe_dump({"spark": {"hosts": hosts, "vars": variables}}), encoding="utf-8")

    def play(self, playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a playbook."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")} | {
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder / "collections"), "ANSIBLE_HOME": str(self.folder / "home"), "HOME": str(self.folder),
            "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8", "ANSIBLE_LOCALHOST_WARNING": "False"}
        command = [str(PROGRAM), "-i", str(self.inventory), f"dgxspark.fabric.{playbook}", *arguments]
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=240, check=False)


@pytest.fixture
def cluster(tmp_path: pathlib.Path) -> t.Iterator[t.Callable[..., Cluster]]:
    made: list[Cluster] = []

    def make(cables: t.Sequence[tuple[str, ...]], **variables: t.Any) -> Cluster:
        made.append(Cluster(tmp_path, cables, **variables))
        return made[-1]

    yield make
    for one in made:
        one.wires.close()


def test_without_a_plan_an_inventory_is_written_that_plans_what_is_there(cluster: t.Callable[..., Cluster]) -> None:
    mesh = cluster(MESH)
    done = mesh.play("discover", "--forks", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Cabling found: a mesh; 3 nodes, 3 cables." in done.stdout and "spark1 port 0 -- spark2 port 1" in done.stdout
    spark = yaml.safe_load((mesh.folder / "build/discovered/hosts.yml").read_text(encoding="utf-8"))["spark"]
    plan = make_plan({host: {**spark["vars"], **variables} for host, variables in spark["hosts"].items()})
    assert [cable["name"] for cable in plan["cables"]] == ["spark1:0-spark2:1", "spark1:1-spark3:0", "spark2:0-spark3:1"]
    assert "changed=1" in done.stdout
    again = mesh.play("discover")
    assert "changed=1" not in again.stdout, again.stdout


def test_with_a_plan_the_cabling_is_compared_and_provisioning_stops(cluster: t.Callable[..., Cluster]) -> None:
    mesh = cluster(SWAPPED, fabric_topology="mesh")
    done = mesh.play("discover")
    assert done.returncode != 0 and "spark2 port 0 and spark2 port 1 are swapped" in done.stdout, done.stdout + done.stderr
    assert not (mesh.folder / "build").exists()
    stopped = mesh.play("provision")
    assert stopped.returncode != 0, stopped.stdout
    assert "The cabling contradicts the plan, so nothing was changed." in stopped.stdout and "Exchange the two plugs at spark2." in stopped.stdout
    assert "Validate the change" not in stopped.stdout


def test_check_mode_tells_the_cabling_as_findings(cluster: t.Callable[..., Cluster]) -> None:
    mesh = cluster(SWAPPED, fabric_topology="mesh", fabric_cluster_name="swapped")
    done = mesh.play("validate", "--check")
    assert done.returncode != 0, done.stdout + done.stderr
    report = json.loads((mesh.folder / "reports/swapped/latest/report.json").read_text(encoding="utf-8"))
    wrong = [finding for finding in report["findings"] if finding["id"] == "link.cabling" and finding["status"] == "fail"]
    assert {finding["cable"] for finding in wrong} == {"spark1:0-spark2:1", "spark2:0-spark3:1"}
    assert all(finding["layer"] == "link" and "Exchange the two plugs at spark2." in finding["fix"] for finding in wrong)
    assert {"spark1", "spark2", "spark3"} == set(report["neighbours"])


LOAD = """
import socket, time
to = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
to.bind(("192.168.177.11", 0))
end = time.monotonic() + 60
while time.monotonic() < end:
    for _each in range(50):
        to.sendto(bytes(1400), ("192.168.177.12", 9))
    time.sleep(0.001)
"""


def test_a_cluster_in_use_is_left_alone_and_the_process_named(cluster: t.Callable[..., Cluster]) -> None:
    mesh = cluster(MESH, fabric_topology="mesh", fabric_cluster_name="used")
    for node, interface, address in (("spark1", "enp1s0f0np0", "192.168.177.11/24"), ("spark2", "enp1s0f1np1", "192.168.177.12/24")):
        mesh.wires.ip("-n", mesh.wires.space(node), "address", "add", address, "dev", interface)
    load = subprocess.Popen(["ip", "netns", "exec", mesh.wires.space("spark1"), sys.executable, "-c", LOAD])
    try:
        done = mesh.play("validate")
    finally:
        load.kill()
        load.wait()
    assert done.returncode != 0, done.stdout + done.stderr
    report = json.loads((mesh.folder / "reports/used/latest/report.json").read_text(encoding="utf-8"))
    busy = {one["subject"]: one["message"] for one in report["findings"] if one["id"] == "node.busy" and one["status"] == "fail"}
    assert set(busy) == {"spark1", "spark2"}
    assert "traffic on enp1s0f0np0" in busy["spark1"] and f"(process {load.pid}) has connections on enp1s0f0np0" in busy["spark1"]
    assert {node: record["status"] for node, record in report["perftest"].items()} == {
        "spark1": "refused_busy", "spark2": "refused_busy", "spark3": "cluster_busy"}


def test_a_healthy_mesh_with_a_port_that_is_off(cluster: t.Callable[..., Cluster]) -> None:
    mesh = cluster(MESH, fabric_topology="mesh")
    for interface in ("enp1s0f0np0", "enP2p1s0f0np0"):
        mesh.wires.down("spark1", interface)
    done = mesh.play("discover")
    assert done.returncode == 0 and "spark1 port 0: admin down, not probed" in done.stdout, done.stdout + done.stderr
    raised = mesh.play("discover", "-e", "cabling_raise_ports=true")
    assert raised.returncode == 0 and "Every cable is where the plan has it." in raised.stdout, raised.stdout + raised.stderr
    assert not mesh.wires.is_up("spark1", "enp1s0f0np0")
