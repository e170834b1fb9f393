# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The order of an apply: what is asked of the node, and when everything is taken back. The node answers from a small model."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import pytest
from ansible_collections.dgxspark.fabric.plugins.module_utils import dead_man, live_state, managed_file, netplan_apply, netplan_compare, netplan_verdict
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import Completed
from ansible_collections.dgxspark.fabric.plugins.module_utils.live_state import Live
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_tree import Planned

PLANNED = Planned("enp1s0f0np0", "192.168.177.11/24", 9000, "rocep1s0f0")
WELL = Live("enp1s0f0np0", mtu=9000, admin_up=True, carrier=True, mac="02:00:00:00:00:02", addresses=("192.168.177.11/24",),
            arp={"arp_ignore": 1, "arp_announce": 2}, gids=("192.168.177.11",))
BARE = dataclasses.replace(WELL, mtu=1500, addresses=(), gids=())


class Node:
    """A node whose live state follows its commands."""

    def __init__(self, directory: pathlib.Path, live: Live, after_apply: Live | None = None, status: str = "0", management: bool = True) -> None:
        self.directory, self.live, self.after_apply, self.status, self.management = directory, live, after_apply, status, management
        self.commands: list[str] = []
        self.now = 0.0

    def run(self, argv, timeout=20.0):
        text = " ".join(argv)
        self.commands.append(text)
        out = ""
        if text == "ip -j addr show dev enP7s7":
            entries = [{"family": "inet", "local": "10.77.0.11", "prefixlen": 24}] if self.management else []
            out = json.dumps([{"ifname": "enP7s7", "addr_info": entries}])
        elif "netplan apply >" in text:
            (self.directory / "pending/apply.log").write_text("something broke" if self.status != "0" else "")
            (self.directory / "pending/apply.rc").write_text(self.status)
            self.live = self.after_apply or self.live
        elif text.startswith("ip link set dev") and " mtu " in text:
            self.live = dataclasses.replace(self.live, mtu=int(argv[-1]))
        elif text.startswith("ip addr del"):
            self.live = dataclasses.replace(self.live, addresses=tuple(address for address in self.live.addresses if address != argv[3]))
        elif text.startswith("/bin/sh") and text.endswith("rollback.sh"):
            (self.directory / "pending").rename(self.directory / "rolled-back")
        return Completed(tuple(argv), 0, out, "")

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def apply_on(tmp_path, monkeypatch):
    monkeypatch.setattr(dead_man, "UNIT_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(netplan_apply.arp_settings, "announce", lambda *arguments: True)

    def prepare(node: Node, content: bytes = b"new\n", old: bytes | None = None):
        path = tmp_path / "40-cx7.yaml"
        if old is not None:
            managed_file.write(str(path), old, 0o600)
        request = netplan_verdict.Request("spark1", str(path), content, (PLANNED,), arp=False, management_interface="enP7s7",
                                          management_address="10.77.0.11", timeout=30.0, confirm_seconds=60.0)
        monkeypatch.setattr(live_state, "read", lambda run, interfaces, root="/": {"enp1s0f0np0": node.live})
        before = {"enp1s0f0np0": node.live}
        comparison = netplan_compare.compare(request, before)
        man = dead_man.DeadMan(node.run, str(tmp_path))
        goal = netplan_apply.Goal(lambda live: netplan_compare.compare(request, live))
        return netplan_apply.Apply(request, node.run, man, goal, lambda: node.now, node.sleep), comparison, before, man

    return prepare


def test_written_applied_and_confirmed(tmp_path, apply_on):
    node = Node(tmp_path, BARE, WELL)
    apply, comparison, before, man = apply_on(node)
    outcome = apply.perform(comparison, before)
    assert (tmp_path / "40-cx7.yaml").read_bytes() == b"new\n"
    timer = next(number for number, text in enumerate(node.commands) if "--on-active=120s" in text)
    started = next(number for number, text in enumerate(node.commands) if "netplan apply" in text)
    assert timer < started, "the way back is armed before anything is applied"
    assert (tmp_path / "multi-user.target.wants/dgxspark-fabric-rollback.service").is_symlink()
    assert man.confirm(outcome.token) is None, "not before the state is noted as reached"
    assert not man.extend("another", 90) and man.extend(outcome.token, 90)
    stopped, started = node.commands[-2:]
    assert stopped.startswith("systemctl stop ") and f"{outcome.token}.timer" in stopped and f"{outcome.token}.service" in stopped
    assert "--on-active=90s" in started
    man.note_reached(outcome.token, [{"key": "link"}])
    assert man.confirm("another") is None
    assert man.confirm(outcome.token) == [{"key": "link"}]
    assert not (tmp_path / "pending").exists()
    assert man.record.original_files() == [managed_file.FileState(str(tmp_path / "40-cx7.yaml"))]
    assert man.record.original_live()["enp1s0f0np0"] == {"mtu": 1500, "admin_up": True, "arp": {"arp_ignore": 1, "arp_announce": 2}, "addresses": []}
    assert not (tmp_path / "multi-user.target.wants/dgxspark-fabric-rollback.service").exists()
    assert man.record.owned(managed_file.read(str(tmp_path / "40-cx7.yaml")))
    assert man.confirm(outcome.token) is None


@pytest.mark.parametrize(("node_is", "words"), [
    ({"after_apply": BARE, "status": "78"}, "netplan apply ended with status 78: something broke"),
    ({"after_apply": dataclasses.replace(BARE, mtu=9000)}, "after 30 s: enp1s0f0np0 has address none"),
    ({"after_apply": WELL, "management": False}, "the management address 10.77.0.11 is not on enP7s7"),
])
def test_taken_back(tmp_path, apply_on, node_is, words):
    node = Node(tmp_path, BARE, **node_is)
    apply, comparison, before, man = apply_on(node)
    with pytest.raises(netplan_apply.NotReached) as caught:
        apply.perform(comparison, before)
    assert words in str(caught.value) and "Everything was taken back" in str(caught.value)
    assert (tmp_path / "rolled-back").is_dir() and not (tmp_path / "pending").exists()
    assert words in man.why_rolled_back(), "for a controller that lost the connection"


def test_a_surplus_address_that_netplan_leaves_is_removed(tmp_path, apply_on):
    node = Node(tmp_path, BARE, dataclasses.replace(WELL, addresses=("192.168.0.1/24", "192.168.177.11/24")))
    apply, comparison, before, _man = apply_on(node)
    apply.perform(comparison, before)
    assert "ip addr del 192.168.0.1/24 dev enp1s0f0np0" in apply.outcome.actions


def test_a_wrong_mtu_needs_no_netplan(tmp_path, apply_on):
    node = Node(tmp_path, dataclasses.replace(WELL, mtu=1500))
    apply, comparison, before, _man = apply_on(node, old=b"new\n")
    outcome = apply.perform(comparison, before)
    assert outcome.actions == ["ip link set dev enp1s0f0np0 mtu 9000"] and outcome.token is None
    assert not any("netplan" in text or "systemd-run" in text for text in node.commands)


def test_a_mtu_that_does_not_hold_is_left_to_netplan(tmp_path, apply_on):
    node = Node(tmp_path, dataclasses.replace(WELL, mtu=1500), WELL)
    run = node.run
    node.run = lambda argv, timeout=20.0: Completed(tuple(argv), 2, "", "busy") if " mtu " in " ".join(argv) else run(argv, timeout)
    apply, comparison, before, _man = apply_on(node, old=b"new\n")
    assert apply.perform(comparison, before).token


def test_no_timer_no_change(tmp_path, apply_on):
    node = Node(tmp_path, BARE, WELL)
    node.run = lambda argv, timeout=20.0: Completed(tuple(argv), 1 if argv[0] == "systemd-run" else 0, "", "no bus")
    apply, comparison, before, _man = apply_on(node)
    with pytest.raises(dead_man.DeadManError, match="nothing was changed: no bus"):
        apply.perform(comparison, before)
    assert not (tmp_path / "40-cx7.yaml").exists() and not (tmp_path / "pending").exists()


def test_a_lost_controller_waits_for_the_change(tmp_path, monkeypatch):
    monkeypatch.setattr(dead_man, "UNIT_DIRECTORY", str(tmp_path))
    man = dead_man.DeadMan(lambda argv, timeout=20.0: Completed(tuple(argv), 0, "", ""), str(tmp_path))
    man.arm("t1", 60.0, [managed_file.FileState(str(tmp_path / "x"))], "exit 0\n", {"kind": "provision"})
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        if len(slept) == 2:
            man.note_reached("t1", [])

    assert man.confirm(None, 30.0, sleep) == [] and len(slept) == 2
