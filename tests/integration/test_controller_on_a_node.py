# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One of the Sparks as controller: the checkout copied there, a plain user, sudo that asks for a password."""

from __future__ import annotations

import json
import pathlib
import shlex
import subprocess
import typing as t

import pytest
import yaml

from conftest import LAB, ROOT, Lab, ansible_environment

USER = PASSWORD = "spark"


def inventory() -> dict[str, t.Any]:
    """Return the inventory for the node as controller: what the lab calibrated and asks for, reached from within."""
    found = yaml.safe_load(next((ROOT / "inventories/lab/group_vars").glob("spark*")).read_text(encoding="utf-8"))
    variables = {name: value for name, value in found.items() if name.startswith(("fabric_", "packages_"))}
    variables |= {"fabric_cluster_name": "own", "fabric_test_seconds": 2, "ansible_user": USER, "ansible_python_interpreter": "/usr/bin/python3"}
    return {"spark": {"vars": variables, "hosts": {"spark1": {"ansible_connection": "local"}, "spark2": {"ansible_host": "10.77.0.12"}}}}


@pytest.fixture(scope="module")
def controller(lab: Lab) -> Lab:
    """Return an untouched pair whose spark1 holds a copy of the checkout and may log in on spark2."""
    lab.call("up", "--topology", "pair", "--nodes", "2")
    lab.call("reset")
    files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True).stdout
    present = b"\0".join(name for name in files.split(b"\0") if name and (ROOT / name.decode()).exists())
    archive = subprocess.run(["tar", "--null", "-T", "-", "-czf", "-"], cwd=ROOT, check=True, capture_output=True, input=present).stdout
    unpack = "mkdir -p /home/spark/checkout && tar -xzf - -C /home/spark/checkout && chown -R spark: /home/spark"
    subprocess.run([str(LAB), "ssh", "spark1", "--", unpack], input=archive, check=True)
    as_user(lab, "test -e ~/.ssh/id_ed25519 || ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519")
    key = as_user(lab, "cat ~/.ssh/id_ed25519.pub").strip()
    lab.ssh("spark2", "install -d -m 700 -o spark -g spark ~spark/.ssh && cd ~spark/.ssh && "
            f"echo {shlex.quote(key)} >> authorized_keys && chown spark: authorized_keys")
    host_key = lab.ssh("spark2", "cut -d' ' -f1,2 /etc/ssh/ssh_host_ed25519_key.pub").strip()
    as_user(lab, f"echo 10.77.0.12 {shlex.quote(host_key)} >> ~/.ssh/known_hosts")
    link = "~/checkout/.ansible/collections/ansible_collections/dgxspark"
    as_user(lab, f"mkdir -p {link} && ln -sfn ../../../.. {link}/fabric && mkdir -p ~/checkout/inventories/own")
    text = yaml.safe_dump(inventory())
    as_user(lab, f"printf %s {shlex.quote(text)} > ~/checkout/inventories/own/hosts.yml")
    return lab


def as_user(lab: Lab, command: str, check: bool = True) -> str:
    """Run a command on spark1 as the plain user."""
    return lab.ssh("spark1", f"runuser -u {USER} -- env HOME=/home/spark bash -lc {shlex.quote(command)}", check=check, timeout=1800)


def playbook(lab: Lab, name: str, *args: str, folder: str = "~/checkout") -> tuple[int, str]:
    """Run a playbook on spark1 in a folder; the password of sudo is typed, as a user would."""
    run = f"ansible-playbook -i ~/checkout/inventories/own {name} --ask-become-pass {shlex.join(args)}"
    command = f"cd {folder} && echo {PASSWORD} | {run} 2>&1; echo status $?"
    output = as_user(lab, command, check=False)
    print(output)
    text, _unused, status = output.rstrip().rpartition("status ")
    return int(status), text


@pytest.mark.long
def test_provision_check_and_validate(controller: Lab) -> None:
    assert playbook(controller, "playbooks/provision.yml")[0] == 0
    assert playbook(controller, "site.yml", "--check", "--diff")[0] == 0
    status, output = playbook(controller, "playbooks/validate.yml")
    assert status == 0
    report = json.loads(as_user(controller, "cat ~/checkout/reports/own/latest/report.json"))
    assert report["verdict"]["status"] == "pass", output


@pytest.mark.long
def test_an_installed_collection_with_one_fork(controller: Lab, tmp_path: pathlib.Path) -> None:
    subprocess.run(["ansible-galaxy", "collection", "build", str(ROOT), "--output-path", str(tmp_path)],
                   check=True, env=ansible_environment(), stdin=subprocess.DEVNULL)
    unpack = f"runuser -u {USER} -- mkdir -p /home/spark/elsewhere && cat > /home/spark/elsewhere/fabric.tar.gz"
    subprocess.run([str(LAB), "ssh", "spark1", "--", unpack], input=(tmp_path / "dgxspark-fabric-0.1.0.tar.gz").read_bytes(), check=True)
    as_user(controller, "cd ~/elsewhere && ansible-galaxy collection install --offline -p ~/.ansible/collections fabric.tar.gz")
    status, output = playbook(controller, "dgxspark.fabric.site", "--forks", "1", folder="~/elsewhere")
    assert status == 0, output
    assert all(line.split("changed=")[1].startswith("0 ") for line in output.rpartition("PLAY RECAP")[2].splitlines() if "changed=" in line)
    report = json.loads(as_user(controller, "cat ~/elsewhere/reports/own/latest/report.json"))
    assert report["verdict"]["status"] == "pass", output
