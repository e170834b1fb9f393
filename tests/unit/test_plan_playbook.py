# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""playbooks/plan.yml with a real ansible-playbook: offline, without ansible.cfg, and with the seed's files as the result."""

from __future__ import annotations

import json
import pathlib
import subprocess
from typing import Any

import pytest
import yaml

from ansible_collections.dgxspark.fabric.tests.unit.offline_playbook import PROGRAM, run_playbook

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEED = ROOT / "tests" / "unit" / "fixtures" / "seed"
HOSTS = {"pair": 2, "mesh": 3, "ring": 4, "switch": 4}
# An ssh that cannot work, and privileges for everything: a plan must not care.
HOSTILE = ["-e", "ansible_connection=ssh", "-e", "ansible_ssh_executable=/bin/false", "-e", "ansible_become=true", "--become"]

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="ansible-playbook is not installed beside this Python")


class Site:
    """A working folder from which playbooks are run as a user of the installed collection would."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def play(
        self, inventory: str | pathlib.Path, *arguments: str, playbook: str | pathlib.Path = ROOT / "playbooks" / "plan.yml"
    ) -> subprocess.CompletedProcess[str]:
        return run_playbook(self.folder, playbook, "-i", str(inventory), *arguments)


@pytest.fixture
def site(tmp_path: pathlib.Path) -> Site:
    return Site(tmp_path)


def example(topology: str) -> pathlib.Path:
    return ROOT / "inventories" / f"example-{topology}"


def network(folder: pathlib.Path, host: str) -> dict[str, Any]:
    """Return the parsed netplan file of a host without what may be added to the seed's."""
    document = yaml.safe_load((folder / host / "40-cx7.yaml").read_text())["network"]
    for interface in document["ethernets"].values():
        assert interface.pop("optional") is True
    return document


@pytest.mark.parametrize("topology", list(HOSTS))
def test_examples_give_the_plan_and_the_seeds_files(site: Site, topology: str) -> None:
    done = site.play(example(topology), "-e", "plan_dir=out", *HOSTILE)
    assert done.returncode == 0, done.stdout + done.stderr
    out = site.folder / "out"
    hosts = [f"spark{number}" for number in range(1, HOSTS[topology] + 1)]
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    beside = {"plan.json", "hostfile", "cables.md", "switch.md", "switch.html"}
    assert files == beside | {f"{host}/{name}" for host in hosts for name in ("40-cx7.yaml", "nccl.env", "vllm.env")}
    plan = json.loads((out / "plan.json").read_text())
    assert plan["topology"] == topology and list(plan["nodes"]) == hosts and not plan["nodes"]["spark1"]["local"]
    for host in hosts:
        document = network(out, host)
        expected = json.loads(json.dumps(plan["nodes"][host]["netplan"]))
        for interface in expected["ethernets"].values():
            del interface["optional"]
        assert document == expected and list(document["ethernets"]) == list(expected["ethernets"])
        text = (out / host / "40-cx7.yaml").read_text()
        assert text.startswith("# Managed by dgxspark.fabric") and "DHCPv6" in text and text.endswith("]\n")
    seeds = {"pair": {"spark1": "pair-spark", "spark2": "pair-spark2"}, "mesh": {host: f"mesh-{host}" for host in hosts}}.get(topology, {})
    for host, seed in seeds.items():
        assert network(out, host) == yaml.safe_load((SEED / f"{seed}.yaml").read_text())["network"]


def test_second_run_check_mode_and_diff(site: Site) -> None:
    predicted = site.play(example("pair"), "-e", "plan_dir=out", "--check", "--diff")
    assert "The plan of pair would be written to" in predicted.stdout and " is in " not in predicted.stdout
    assert predicted.returncode == 0 and "changed=1" in predicted.stdout and "+      mtu: 9000" in predicted.stdout
    assert not (site.folder / "out").exists()
    assert "changed=1" in site.play(example("pair"), "-e", "plan_dir=out", "--limit", "spark2").stdout
    # as an installed collection, by its full name, with the default folder and a template for a value
    again = site.play(
        example("pair"), "-e", "plan_dir=out", "-e", "{'size': 9000, 'fabric_mtu': '{{ size }}'}", playbook="dgxspark.fabric.plan"
    )
    assert again.returncode == 0 and "changed=0" in again.stdout, again.stdout + again.stderr
    changed = site.play(example("pair"), "-e", "plan_dir=out", "-e", "fabric_mtu=1500", "--check", "--diff")
    assert "-      mtu: 9000" in changed.stdout and "+      mtu: 1500" in changed.stdout


def test_errors_name_variable_and_host(site: Site) -> None:
    inventory = site.folder / "hosts.yml"
    group = {
        "hosts": {"n1": {"secret": "{{ nowhere }}"}, "n2": {"fabric_node_number": "{{ nowhere }}"}},
        "vars": {"fabric_topology": "pair"},
    }
    inventory.write_text(yaml.safe_dump({"spark": group}))
    failed = site.play(inventory, "-e", "plan_dir=out")
    assert failed.returncode != 0 and "fabric_node_number of n2 cannot be worked out" in failed.stdout + failed.stderr
    group["hosts"]["n2"] = {"fabric_node_number": 1}
    inventory.write_text(yaml.safe_dump({"spark": group}))
    failed = site.play(inventory, "-e", "plan_dir=out")
    assert failed.returncode != 0 and "fabric_node_number is 1 on both n1 and n2" in failed.stdout + failed.stderr
    (site.folder / "file").write_text("")
    failed = site.play(example("pair"), "-e", "plan_dir=file/out")
    assert failed.returncode != 0 and "set plan_dir to a folder that you may write to" in failed.stdout + failed.stderr


def test_errors_come_as_they_are_and_before_anything_is_written(site: Site) -> None:
    failed = site.play(example("pair"), "-e", '{"fabric_rules": [{"id": "link.speed", "wran": 1}]}')
    output = failed.stdout + failed.stderr
    assert failed.returncode != 0 and "rule link.speed: unknown field 'wran'; did you mean warn?" in output
    assert "Finalization" not in output and "Error while resolving" not in output and "Traceback" not in output
    inventory = site.folder / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"spark": {"hosts": {"spark1": {}, "cables.md": {}}, "vars": {"fabric_topology": "pair"}}}))
    failed = site.play(inventory)
    assert failed.returncode != 0 and "names a host 'cables.md'" in failed.stdout + failed.stderr
    for empty in ("", " "):
        failed = site.play(example("pair"), "-e", json.dumps({"plan_dir": empty}))
        assert failed.returncode != 0 and "plan_dir is empty" in failed.stdout + failed.stderr
    assert not (site.folder / "build").exists() and not (site.folder / "plan.json").exists()


def test_notes_are_printed_and_nothing_without_any(site: Site) -> None:
    assert "Notes on the plan" not in site.play(example("mesh")).stdout
    noted = site.play(example("mesh"), "-e", "fabric_mtuu=1500").stdout
    assert "Notes on the plan of mesh:\n  spark1: fabric_mtuu is no variable" in noted and "did you mean fabric_mtu?" in noted


def test_another_group(site: Site) -> None:
    """The role takes any group; the playbook takes one that is a child of spark."""
    inventory = site.folder / "hosts.yml"
    gpus = {"hosts": {"n1": {}, "n2": {}}, "vars": {"fabric_topology": "pair"}}
    inventory.write_text(yaml.safe_dump({"gpus": gpus}))
    playbook = site.folder / "own.yml"
    task = {"ansible.builtin.import_role": {"name": "dgxspark.fabric.plan"}, "vars": {"plan_group": "gpus"}}
    shown = {"ansible.builtin.debug": {"msg": "{{ fabric_plan.nodes | join('+') }}"}}
    playbook.write_text(yaml.safe_dump([{"hosts": "gpus", "gather_facts": False, "tasks": [task, shown]}]))
    assert site.play(inventory, playbook=playbook).stdout.count("n1+n2") == 2
    inventory.write_text(yaml.safe_dump({"gpus": {**gpus, "hosts": {"n1": {}}}}))
    assert "the group gpus has 1 node, n1" in site.play(inventory, playbook=playbook).stdout
    inventory.write_text(yaml.safe_dump({"gpus": gpus, "spark": {"children": {"gpus": {}}}}))
    assert site.play(inventory).returncode == 0 and (site.folder / "build/plan/n2/nccl.env").exists()


def test_sixty_four_hosts_and_one_template_for_both_roles(site: Site) -> None:
    """A large group is planned quickly, and the template gives the same text when a task of a play renders it for its host."""
    inventory = site.folder / "hosts.yml"
    variables = {
        "fabric_topology": "ring",
        "fabric_subnet_pool": "10.20.0.0/16",
        "fabric_netplan_renderer": "NetworkManager",
        "ansible_host": "{{ inventory_hostname }}.invalid",
    }
    inventory.write_text(
        yaml.safe_dump({"spark": {"hosts": {f"n{number}": {} for number in range(1, 65)}, "vars": variables}}, sort_keys=False)
    )
    playbook = site.folder / "render.yml"
    template = ROOT / "roles" / "netplan" / "templates" / "40-cx7.yaml.j2"
    playbook.write_text(
        yaml.safe_dump(
            [
                {"ansible.builtin.import_playbook": "dgxspark.fabric.plan"},
                {
                    "hosts": "n7",
                    "gather_facts": False,
                    "tasks": [
                        {
                            "ansible.builtin.assert": {
                                "that": [
                                    f"lookup('ansible.builtin.template', '{template}') == lookup('ansible.builtin.file', "
                                    f"'{site.folder}/build/plan/n7/40-cx7.yaml') ~ '\\n'",
                                    "'renderer: NetworkManager' in lookup('ansible.builtin.template', '" + str(template) + "')",
                                ]
                            }
                        }
                    ],
                },
            ]
        )
    )
    done = site.play(inventory, playbook=playbook)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    plan = json.loads((site.folder / "build" / "plan" / "plan.json").read_text())
    assert plan["rounds"] == 4 and len(plan["nodes"]) == 64 and plan["hostfile"][6]["address"] == "n7.invalid"
