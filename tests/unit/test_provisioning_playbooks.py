# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""provision.yml and undo.yml over two nodes in namespaces: nothing is written before all are validated, and undo ends where it began."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import typing as t

import pytest
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils.foreign_layouts_on_disk import A, B, LAYOUTS
from ansible_collections.dgxspark.fabric.tests.unit.plugins.modules.namespace_node import ROOT, NamespaceNode, usable

WHY_NOT = usable()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")


class Pair:
    """Two nodes and an inventory that reaches them."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.nodes = {f"spark{number}": NamespaceNode(f"10.77.0.1{number}") for number in (1, 2)}
        hosts = {name: {"ansible_host": f"10.77.0.1{number}", "ansible_shell_executable": str(node.shell())}
                 for number, (name, node) in enumerate(self.nodes.items(), start=1)}
        variables = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable, "fabric_topology": "pair",
                     "fabric_management_interface": "enP7s7", "fabric_ssh_mesh": False, "fabric_packages": False}
        self.inventory = folder / "hosts.json"
        self.inventory.write_text(json.dumps({"spark": {"hosts": hosts, "vars": variables}}), encoding="utf-8")

    def play(self, name: str, *arguments: str) -> tuple[int, str, dict[str, int]]:
        """Run a playbook; return its status, what it said, and the changes by host."""
        environment = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
        environment |= {"ANSIBLE_HOME": str(ROOT / ".ansible"), "ANSIBLE_NOCOLOR": "1", "ANSIBLE_LOCALHOST_WARNING": "0"}
        done = subprocess.run(["ansible-playbook", "-i", str(self.inventory), f"playbooks/{name}.yml", *arguments], cwd=ROOT, env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240, check=False)
        print(done.stdout)
        recap = done.stdout.rpartition("PLAY RECAP")[2]
        return done.returncode, done.stdout, {host: int(changed) for host, changed in re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)", recap, re.M)}

    def state(self) -> dict[str, t.Any]:
        """Return files and live state of both."""
        return {name: (node.files(), node.live()) for name, node in self.nodes.items()}


@pytest.fixture
def pair(tmp_path: pathlib.Path) -> t.Iterator[Pair]:
    made = Pair(tmp_path)
    try:
        yield made
    finally:
        for node in made.nodes.values():
            node.close()


def test_refuse_adopt_check_and_undo(pair: Pair) -> None:
    for path, text in LAYOUTS["nvidia-helper"][2].items():
        pair.nodes["spark2"].put(f"/{path}", text)
    pair.nodes["spark2"].sh("netplan apply")
    before = pair.state()
    status, output, _changed = pair.play("provision")
    assert status != 0 and "Nothing was written on any node, because 1 of 2 nodes cannot be changed" in output
    assert "spark2" in output and "NVIDIA's spark_cluster_setup helper" in output and "fabric_foreign_netplan: adopt" in output
    assert pair.state() == before
    status, output, changed = pair.play("provision", "-e", "fabric_foreign_netplan=adopt")
    assert status == 0 and all(changed.get(name) for name in pair.nodes), output
    for number, node in enumerate(pair.nodes.values(), start=11):
        assert [node.live()[name][:2] for name in (A, B)] == [(9000, [f"192.168.177.{number}/24"]), (9000, [f"192.168.178.{number}/24"])]
    status, _output, changed = pair.play("provision", "--check", "--diff")
    assert status == 0 and not any(changed.values())
    pair.nodes["spark1"].sh("echo '# mine' >> /etc/netplan/40-cx7.yaml")
    status, output, _changed = pair.play("undo")
    assert status != 0 and "40-cx7.yaml changed since" in output and "Nothing was written on any node" in output
    status, output, changed = pair.play("undo", "-e", "undo_force=true")
    assert status == 0, output
    assert pair.state() == before
    status, _output, changed = pair.play("undo")
    assert status == 0 and not any(changed.values())
