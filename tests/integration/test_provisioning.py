# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Provisioning on a machine that one cannot walk to: settings of others, taking back, killed controllers, both renderers, ssh between nodes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import typing as t

import pytest

from conftest import ROOT, Lab, ansible_environment, run_playbook

PROVISION = "playbooks/provision.yml"
UNDO = "playbooks/undo.yml"
NO_SSH = ("-e", "fabric_ssh_mesh=false")
NODES = ("spark1", "spark2")
A, B, A0, B0 = "enp1s0f1np1", "enP2p1s0f1np1", "enp1s0f0np0", "enP2p1s0f0np0"
MANAGEMENT = "enP7s7"
TIED_OFF = "{dhcp4: no, dhcp6: no, link-local: [], mtu: 9000, addresses: [%s]}"
# name: (file, word by which it is refused, text)
LAYOUTS = {
    "nvidia-helper": ("40-cx7.yaml", "NVIDIA", f"""\
network:
  version: 2
  ethernets:
    {A0}:
      dhcp4: false
    {B0}:
      dhcp4: false
    {A}:
      dhcp4: false
      addresses: [192.168.0.1/24]
    {B}:
      dhcp4: false
      addresses: [192.168.0.2/24]
"""),
    "nvidia-sync": ("99-nvidia-sync-cluster.yaml", "NVIDIA Sync", f"""\
network:
  version: 2
  ethernets:
    {A}:
      dhcp4: false
      mtu: 9000
      addresses: [10.100.32.1/24]
    {B}:
      dhcp4: false
      mtu: 9000
      addresses: [10.100.33.1/24]
"""),
    "networkmanager-mirror": ("90-NM-11111111-2222-3333-4444-555555555555.yaml", "mirror", f"""\
network:
  version: 2
  ethernets:
    {A}:
      renderer: NetworkManager
      match: {{}}
      dhcp4: true
      networkmanager:
        uuid: "11111111-2222-3333-4444-555555555555"
        name: "Wired connection 2"
"""),
    "bond": ("50-bond.yaml", "bond", f"""\
# both halves of the port together
network:
  version: 2
  ethernets:
    {A}: {{mtu: 9000}}
    {B}: {{mtu: 9000}}
  bonds:
    bond0:
      interfaces: [{A}, {B}]
      addresses: [198.51.100.1/30]
      mtu: 9000
      parameters: {{mode: balance-xor}}
"""),
    "eugr": ("98-spark-vllm-docker.yaml", "setup-cluster", f"""\
network:
  version: 2
  ethernets:
    {A}: {TIED_OFF % "10.20.0.11/24"}
    {B}: {TIED_OFF % "10.20.1.11/24"}
"""),
}


@pytest.fixture(scope="module")
def pair(lab: Lab) -> Lab:
    """Return a pair."""
    lab.call("up", "--topology", "pair", "--nodes", "2")
    return lab


@pytest.fixture
def fresh(pair: Lab) -> t.Iterator[Lab]:
    """Return an untouched pair."""
    pair.call("fault", "clear")
    pair.call("reset")
    yield pair
    pair.call("fault", "clear")


def files(lab: Lab, node: str = "spark1") -> str:
    """Return names, modes, owners and digests of everything that configures networks."""
    return lab.ssh(node, "find /etc/netplan /etc/sysctl.d /etc/NetworkManager/system-connections -type f -printf '%p %m %u %g\\n' -exec sha256sum {} + | sort")


def addresses(lab: Lab, node: str = "spark1") -> dict[str, t.Any]:
    """Return MTU, master and addresses of each interface of the fabric, and of bonds."""
    found = {}
    for link in json.loads(lab.ssh(node, "ip -j addr show")):
        if link["ifname"] in (A, B, A0, B0, "bond0"):
            entries = sorted(f"{entry['local']}/{entry['prefixlen']}" for entry in link["addr_info"] if entry["family"] == "inet" and not entry.get("dynamic"))
            found[link["ifname"]] = (link["mtu"], link.get("master"), entries)
    for name in (A, B):
        found[f"{name} arp"] = lab.ssh(node, f"cat /proc/sys/net/ipv4/conf/{name}/arp_ignore /proc/sys/net/ipv4/conf/{name}/arp_announce")
    return found


def becomes(expected: t.Any, read: t.Callable[[], t.Any], seconds: float = 60) -> None:
    """Wait until a state is as expected."""
    deadline = time.monotonic() + seconds
    while (found := read()) != expected:
        if time.monotonic() > deadline:
            assert found == expected
        time.sleep(1)


def put(lab: Lab, name: str, text: str, node: str = "spark1") -> None:
    """Write a netplan file on a node and apply it."""
    lab.ssh(node, f"install -m 600 /dev/null /etc/netplan/{name} && cat > /etc/netplan/{name} <<'EOF'\n{text}EOF\nnetplan apply")
    time.sleep(5)


@pytest.mark.parametrize("layout", [name if name == "nvidia-helper" else pytest.param(name, marks=pytest.mark.long) for name in LAYOUTS])
def test_refused_by_name_then_adopted_then_restored_byte_for_byte(fresh: Lab, layout: str) -> None:
    name, word, text = LAYOUTS[layout]
    put(fresh, name, text)
    before, live = files(fresh), addresses(fresh)
    refused = run_playbook(PROVISION, *NO_SSH)
    assert refused.status != 0 and word in refused.output and name in refused.output and "adopt" in refused.output
    assert "Nothing was written on any node" in refused.output
    assert files(fresh) == before and addresses(fresh) == live
    adopted = run_playbook(PROVISION, *NO_SSH, "-e", "fabric_foreign_netplan=adopt")
    assert adopted.status == 0
    found = addresses(fresh)
    assert found[A][:2] == (9000, None) and found[A][2] == ["192.168.177.11/24"] and found[B][2] == ["192.168.178.11/24"] and "bond0" not in found
    if layout == "bond":  # once is enough for these
        again = run_playbook(PROVISION, *NO_SSH)
        assert again.status == 0 and set(again.changed.values()) == {0}
    undone = run_playbook(UNDO)
    assert undone.status == 0
    assert files(fresh) == before
    becomes(live, lambda: addresses(fresh))
    if layout == "bond":
        twice = run_playbook(UNDO)
        assert twice.status == 0 and set(twice.changed.values()) == {0}


@pytest.mark.long
def test_undo_refuses_edited_files_and_says_how_to_force(fresh: Lab) -> None:
    before, live = files(fresh), addresses(fresh)
    assert run_playbook(PROVISION, *NO_SSH).status == 0
    fresh.ssh("spark1", "echo '# mine' >> /etc/netplan/40-cx7.yaml")
    refused = run_playbook(UNDO)
    assert refused.status != 0 and "/etc/netplan/40-cx7.yaml changed since" in refused.output and "undo_force=true" in refused.output
    assert addresses(fresh, "spark2")[A][2] == ["192.168.177.12/24"], "no node is changed"
    assert run_playbook(UNDO, "-e", "undo_force=true").status == 0
    assert files(fresh) == before
    becomes(live, lambda: addresses(fresh))
    assert "# mine" in fresh.ssh("spark1", "cat /var/lib/dgxspark-fabric/undone/file-*")


@pytest.mark.long
def test_every_drift_is_named(fresh: Lab) -> None:
    assert run_playbook(PROVISION).status == 0
    since = fresh.clock("spark1")
    calm = run_playbook(PROVISION, "--check", "--diff")
    assert calm.status == 0 and set(calm.changed.values()) == {0}
    assert 1 <= len(fresh.executions("spark1", since)) <= 5  # facts, netplan, packages, ssh, NCCL
    fresh.ssh("spark1", f"chmod 644 /etc/netplan/40-cx7.yaml; sysctl -qw net.ipv4.conf.{A}.arp_ignore=0; ip addr add 10.9.9.1/24 dev {A}; "
              f"ip link set {B} mtu 1500; sed -i '/dgxspark-fabric:/d' ~/.ssh/authorized_keys; "
              "python3 -c \"import json; p='/var/lib/dgxspark-fabric/packages.json'; d=json.load(open(p)); d['perftest']='1.0'; json.dump(d, open(p, 'w'))\"")
    fresh.ssh("spark2", "rm /etc/netplan/40-cx7.yaml; install -m 600 /dev/null /etc/netplan/99-nvidia-sync-cluster.yaml; "
              f"printf 'network:\\n  version: 2\\n  ethernets:\\n    {A}:\\n      mtu: 1500\\n' > /etc/netplan/99-nvidia-sync-cluster.yaml")
    drifted = run_playbook("site.yml", "--check", "--diff")
    assert drifted.status != 0
    for words in ("has mode 0644, expected 0600", "arp_ignore 0", "surplus address 10.9.9.1/24", "10.9.9.1/24 of " + A + " is live, but not in netplan",
                  "has MTU 1500",
                  "the keys of the other nodes in authorized_keys", "the node was provisioned with 1.0", "/etc/netplan/40-cx7.yaml is missing", "NVIDIA Sync",
                  "192.168.177.12/24 of " + A + " is live, but not in netplan: it will not survive a reboot"):
        assert words in drifted.output, words


def kill_when(lab: Lab, condition: str, *args: str, seconds: float = 240) -> None:
    """Start provisioning, and kill the controller with everything it started here as soon as a shell condition holds on spark1."""
    process = subprocess.Popen(["ansible-playbook", "-i", "inventories/lab", PROVISION, *NO_SSH, *args], **popen_arguments())
    try:
        lab.ssh("spark1", f"for n in $(seq {int(seconds * 10)}); do {{ {condition}; }} && exit 0; sleep 0.1; done; exit 1", timeout=int(seconds) + 60)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def popen_arguments() -> dict[str, t.Any]:
    """Return how ansible-playbook is started so that it can be killed with its children."""
    return {"cwd": ROOT, "env": ansible_environment(), "stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT,
            "start_new_session": True}


STATE = "/var/lib/dgxspark-fabric"
POINTS = {
    "while validating": "pgrep -f '[n]etplan (get|generate)' >/dev/null",
    "journal written": f"test -e {STATE}/pending/journal.json",
    "file written": "test -e /etc/netplan/40-cx7.yaml",
    "applied": f"test -e {STATE}/pending/apply.rc",
    "reached": f"test -e {STATE}/pending/reached.json",
}


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_a_killed_controller_leaves_nothing_half_done(fresh: Lab, point: str) -> None:
    old = LAYOUTS["eugr"][2]
    put(fresh, LAYOUTS["eugr"][0], old)
    kill_when(fresh, POINTS[point], "-e", "fabric_foreign_netplan=adopt", "-e", "netplan_confirm_seconds=30", "-e", "netplan_timeout=40")
    # Every file is whole: netplan reads them all, and ours is there as a whole or not at all.
    fresh.ssh("spark1", "netplan get >/dev/null")
    found = fresh.ssh("spark1", "cat /etc/netplan/40-cx7.yaml 2>/dev/null || true")
    run = run_playbook(PROVISION, *NO_SSH, "-e", "fabric_foreign_netplan=adopt")
    assert run.status == 0
    assert found in ("", fresh.ssh("spark1", "cat /etc/netplan/40-cx7.yaml"))
    assert addresses(fresh)[A][2] == ["192.168.177.11/24"]
    assert fresh.ssh("spark1", f"test -e {STATE}/pending && echo pending || true").strip() == ""
    assert run_playbook(UNDO).status == 0
    assert fresh.ssh("spark1", "cat /etc/netplan/98-spark-vllm-docker.yaml") == old


@pytest.mark.parametrize("controller_dies", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_change_that_breaks_management_is_taken_back_by_the_node(fresh: Lab, controller_dies: bool) -> None:
    before, live = files(fresh), addresses(fresh)
    # What applying does to management on this machine: it goes, for good.
    fresh.ssh("spark1", "printf '#!/bin/sh\\n/usr/sbin/netplan \"$@\"; status=$?; [ \"$1\" = apply ] && ip addr flush dev enP7s7; exit $status\\n' "
              "> /usr/local/sbin/netplan; chmod 755 /usr/local/sbin/netplan")
    short = ("-e", "netplan_timeout=30", "-e", "netplan_confirm_seconds=20")
    if controller_dies:
        kill_when(fresh, f"test -e {STATE}/pending/journal.json", *short)
    else:
        run = run_playbook(PROVISION, *NO_SSH, *short)
        assert run.status != 0 and "management address" in run.output
    deadline = time.monotonic() + 180
    while fresh.call("ssh", "spark1", "--", f"test -d {STATE}/rolled-back", check=False).returncode:
        assert time.monotonic() < deadline, "the node did not come back by itself"
        time.sleep(2)
    assert files(fresh) == before
    becomes(live, lambda: addresses(fresh))


@pytest.mark.long
def test_an_unconfirmed_change_is_taken_back_after_a_reboot(fresh: Lab) -> None:
    before = files(fresh)
    kill_when(fresh, f"test -e {STATE}/pending/reached.json || test -e {STATE}/pending/apply.rc")
    # What the next boot starts, without waiting for one: the timer is gone, the unit is enabled.
    fresh.ssh("spark1", "systemctl stop 'dgxspark-fabric-rollback-*.timer'; systemctl is-enabled dgxspark-fabric-rollback.service; systemctl daemon-reload; "
              "systemctl start dgxspark-fabric-rollback.service")
    assert files(fresh) == before
    assert "not-found" in fresh.ssh("spark1", "systemctl daemon-reload; systemctl is-enabled dgxspark-fabric-rollback.service 2>&1 || true")


@pytest.mark.long
def test_networkmanager_renders_management_and_fabric(fresh: Lab) -> None:
    for number, node in enumerate(NODES, start=11):
        put(fresh, "01-network-manager-all.yaml", f"""\
network:
  version: 2
  renderer: NetworkManager
  ethernets:
    {MANAGEMENT}:
      addresses: [10.77.0.{number}/24]
""", node)
    before, live = files(fresh), addresses(fresh)
    run = run_playbook(PROVISION)
    assert run.status == 0
    assert "netplan-enp1s0f1np1" in fresh.ssh("spark1", "nmcli -t -f NAME,DEVICE connection show --active")
    again = run_playbook(PROVISION)
    assert again.status == 0 and set(again.changed.values()) == {0}
    fresh.ssh("spark2", f"ip link set {A} mtu 1500")
    assert "has MTU 1500" in run_playbook("site.yml", "--check", "--diff").output
    assert run_playbook(PROVISION).status == 0
    assert run_playbook(UNDO).status == 0
    assert files(fresh) == before
    becomes(live[A][0], lambda: addresses(fresh)[A][0])
    becomes([], lambda: [address for address in addresses(fresh)[A][2] if address.startswith("192.168.177.")])


@pytest.mark.long
def test_ssh_between_nodes_for_a_plain_user(fresh: Lab) -> None:
    user = ("-e", "fabric_ssh_user=spark")
    fresh.ssh("spark1", "install -d -m 700 -o spark -g spark ~spark/.ssh; echo 'ssh-rsa mine' > ~spark/.ssh/authorized_keys; chown spark: "
              "~spark/.ssh/authorized_keys")
    assert run_playbook(PROVISION, *user).status == 0
    for name in ("spark2", "10.77.0.12"):
        assert fresh.ssh("spark1", f"runuser -u spark -- ssh -o BatchMode=yes {name} hostname").strip() == "spark2"
    keys = {node: fresh.ssh(node, "sha256sum ~spark/.ssh/dgxspark_fabric_ed25519").split()[0] for node in NODES}
    assert len(set(keys.values())) == 2, "each node has its own"
    again = run_playbook(PROVISION, *user)
    assert again.status == 0 and set(again.changed.values()) == {0}
    assert run_playbook(PROVISION, *user, "-e", "ssh_mesh_rotate=true").status == 0
    assert fresh.ssh("spark1", "runuser -u spark -- ssh -o BatchMode=yes spark2 hostname").strip() == "spark2"
    assert fresh.ssh("spark1", "sha256sum ~spark/.ssh/dgxspark_fabric_ed25519").split()[0] != keys["spark1"]
    fresh.ssh("spark2", "echo 'DenyUsers spark' > /etc/ssh/sshd_config.d/deny.conf; systemctl reload ssh")
    broken = run_playbook(PROVISION, *user)
    assert broken.status != 0
    text = re.sub(r"\s+", " ", broken.output)
    assert "spark1 does not reach spark2: as user spark on spark1" in text and "BatchMode=yes" in text and ".ssh/dgxspark_fabric_ed25519" in text
    fresh.ssh("spark2", "rm /etc/ssh/sshd_config.d/deny.conf; systemctl reload ssh")
    assert run_playbook(UNDO, *user).status == 0
    assert fresh.ssh("spark1", "cat ~spark/.ssh/authorized_keys") == "ssh-rsa mine\n"
    assert "dgxspark" not in fresh.ssh("spark2", "ls ~spark/.ssh; cat ~spark/.ssh/* 2>/dev/null || true")


def test_with_one_node_away_nothing_is_left_half_done(fresh: Lab) -> None:
    before = {"spark1": files(fresh), "live": addresses(fresh)}
    fresh.fault("kill", "spark2")
    run = run_playbook(PROVISION)
    assert run.status != 0
    assert "Nothing was written on any node, because 1 of 2 nodes cannot be changed" in run.output and "spark2" in run.output
    assert {"spark1": files(fresh), "live": addresses(fresh)} == before
    fresh.fault("clear")
