# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The modules as they run on a node: adopted, confirmed and undone byte for byte; killed at any point; taken back when management goes."""

from __future__ import annotations

import os
import signal
import time
import typing as t

import pytest
from ansible_collections.dgxspark.fabric.tests.unit.fuzzing import EVERY_CASE
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils.foreign_layouts_on_disk import A, B, LAYOUTS, MANAGEMENT, static
from ansible_collections.dgxspark.fabric.tests.unit.plugins.modules.namespace_node import NamespaceNode, usable

WHY_NOT = usable()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")

OWN = "/etc/netplan/40-cx7.yaml"
STATE = "/var/lib/dgxspark-fabric"
CONTENT = "# dgxspark.fabric\n" + static({A: "192.168.177.11/24", B: "192.168.178.11/24"}, "dhcp4: false; dhcp6: false; link-local: []; mtu: 9000")
PLANNED = [{"name": A, "address": "192.168.177.11", "prefix": 24, "mtu": 9000}, {"name": B, "address": "192.168.178.11", "prefix": 24, "mtu": 9000}]
REACHED = {"management_interface": "enP7s7", "management_address": "10.77.0.11", "timeout": 20}
WANTED = {"node": "spark1", "content": CONTENT, "interfaces": PLANNED, "networks": ["192.168.177.0/24", "192.168.178.0/24"], **REACHED}
# One of each way in which settings are adopted; deeper profiles take them all.
ADOPTED = tuple(LAYOUTS) if EVERY_CASE else ("nvidia-helper", "hand-made", "sparkring", "runtime", "rejected")


@pytest.fixture
def node() -> t.Iterator[NamespaceNode]:
    made = NamespaceNode()
    made.put("/etc/netplan/50-cloud-init.yaml", MANAGEMENT.replace("      routes: [{to: default, via: 10.77.0.1}]\n", ""))
    try:
        yield made
    finally:
        made.close()


def provision(node: NamespaceNode, foreign: str = "refuse", **more: t.Any) -> dict[str, t.Any]:
    """Validate, apply and confirm, as the role does; return the result of applying."""
    validated = node.module("netplan", phase="validate", foreign=foreign, **WANTED)
    assert not validated.get("failed"), validated["msg"]
    applied = node.module("netplan", phase="apply", foreign=foreign, validated=validated["validated"], confirm_seconds=60, **WANTED | more)
    assert not applied.get("failed"), applied["msg"]
    if applied["needs_confirm"]:
        confirmed = node.module("netplan", phase="confirm", token=applied["token"])
        assert not confirmed.get("failed"), confirmed["msg"]
    return applied


def undo(node: NamespaceNode, **more: t.Any) -> dict[str, t.Any]:
    """Undo and confirm, as the role does."""
    undone = node.module("netplan_undo", node="spark1", confirm_seconds=60, **REACHED | more)
    if not undone.get("failed") and undone["needs_confirm"]:
        assert not node.module("netplan", phase="confirm", token=undone["token"]).get("failed")
    return undone


def layout(node: NamespaceNode, name: str) -> None:
    """Bring a node into a known layout."""
    for path, text in LAYOUTS[name][2].items():
        node.put(f"/{path}", text)
    if name == "runtime":
        node.sh(f"ip addr add 10.9.9.1/24 dev {A}; ip link set {A} mtu 4200")
    elif name != "rejected":
        node.sh("netplan apply")


def as_planned(node: NamespaceNode) -> bool:
    """Tell whether the fabric is as planned, and management is there."""
    live = node.live()
    fabric = [live[name] for name in (A, B)]
    return fabric == [(9000, ["192.168.177.11/24"], ["1", "2"]), (9000, ["192.168.178.11/24"], ["1", "2"])] and live["enP7s7"][1] == ["10.77.0.11/24"]


@pytest.mark.parametrize("name", ADOPTED)
def test_refused_adopted_and_undone(node, name):
    layout(node, name)
    before, live = node.files(), node.live()
    refused = node.module("netplan", phase="validate", **WANTED)
    assert refused["failed"] and LAYOUTS[name][1] in refused["msg"]
    assert (node.files(), node.live()) == (before, live)
    assert provision(node, "adopt")["changed"]
    assert as_planned(node)
    again = provision(node)
    assert not again["changed"]
    calm = node.module("netplan", phase="validate", check=True, **WANTED)
    assert calm["drift"] == [] and not calm["changed"]
    preview = node.module("netplan_undo", node="spark1", check=True, **REACHED)
    assert preview["changed"] and as_planned(node)
    assert undo(node)["changed"]
    assert node.files() == before
    assert node.live() == live
    twice = undo(node)
    assert not twice["changed"] and not twice.get("failed")
    assert node.sh(f"ls {STATE}; ls /etc/systemd/system | grep dgxspark || true").split() == ["apply.lock", "lock", "undone"]


def test_undo_refuses_edited_files(node):
    provision(node)
    node.sh(f"echo '# mine' >> {OWN}")
    refused = undo(node)
    assert refused["failed"] and OWN in refused["msg"] and "undo_force=true" in refused["msg"] and as_planned(node)
    assert undo(node, force=True)["changed"]
    assert "# mine" in node.sh(f"cat {STATE}/undone/file-0")


def test_every_drift_is_told(node):
    provision(node)
    node.sh(f"chmod 644 {OWN}; echo 0 > /proc/sys/net/ipv4/conf/{A}/arp_ignore; ip addr add 10.9.9.1/24 dev {A}; ip link set {B} mtu 1500; ip link set peer5 "
            "down")
    node.put("/etc/netplan/99-nvidia-sync-cluster.yaml", f"network:\n  version: 2\n  ethernets:\n    {A}:\n      mtu: 1500\n")
    found = node.module("netplan", phase="validate", check=True, **WANTED)
    keys = {(entry["subject"], entry["key"]) for entry in found["drift"]}
    assert keys >= {(OWN, "mode"), (A, "arp_ignore"), (A, "surplus_address"), (A, "persistence"), (B, "mtu"), (B, "link"), (OWN, "netplan.foreign")}
    assert found["changed"] and "NVIDIA Sync" in str(found["drift"])
    node.sh(f"rm {OWN} /etc/netplan/99-*")
    found = node.module("netplan", phase="validate", check=True, **WANTED)
    assert any(entry["key"] == "persistence" and "192.168.177.11/24" in entry["message"] for entry in found["drift"])


def wait_for(condition: t.Callable[[], bool], seconds: float = 30) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


POINTS = {
    "before the journal": lambda node: node.sh(f"test -e {STATE}/apply.lock && echo 1", check=False),
    "journal written": lambda node: node.sh(f"test -e {STATE}/pending/journal.json && echo 1", check=False),
    "file written": lambda node: node.sh(f"test -e {OWN} && echo 1", check=False),
    "somebody's file changed": lambda node: node.sh("test ! -e /etc/netplan/98-spark-vllm-docker.yaml && echo 1", check=False),
    "applied": lambda node: node.sh(f"test -e {STATE}/pending/apply.rc && echo 1", check=False),
    "reached": lambda node: node.sh(f"test -e {STATE}/pending/reached.json && echo 1", check=False),
}


KILLS = [(point, way) for point in POINTS for way in ("goes on", "taken back")]


@pytest.mark.parametrize(
    ("point", "way"), KILLS if EVERY_CASE else [("file written", "goes on"), ("reached", "goes on"), ("somebody's file changed", "taken back")])
def test_killed_at_any_point(node, point, way):
    layout(node, "eugr-setup-cluster")
    before, live = node.files(), node.live()
    node.sh("touch /run/slow")
    process = node.start("netplan", phase="apply", foreign="adopt", confirm_seconds=60, **WANTED)
    wait_for(lambda: bool(POINTS[point](node)))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert node.sh(f"cat {OWN} 2>/dev/null || true") in ("", CONTENT)
    time.sleep(1.5)  # netplan itself goes on by itself
    if way == "taken back":
        # What the timer and the unit for the next boot run.
        node.sh(f"test ! -e {STATE}/pending/rollback.sh || sh {STATE}/pending/rollback.sh")
        assert (node.files(), node.live()) == (before, live)
    provision(node, "adopt")
    assert as_planned(node)
    undo(node)
    assert (node.files(), node.live()) == (before, live)


def test_management_gone_for_good_is_taken_back(node):
    layout(node, "eugr-setup-cluster")
    before, live = node.files(), node.live()
    node.sh("touch /run/breaks-management")
    failed = node.module("netplan", phase="apply", foreign="adopt", confirm_seconds=60, **WANTED | {"timeout": 4})
    assert failed["failed"] and failed["rolled_back"] and "management address 10.77.0.11" in failed["msg"]
    asked = node.module("netplan", phase="confirm", timeout=1)
    assert asked["failed"] and "management address 10.77.0.11" in asked["msg"], "a controller that lost the connection learns why"
    assert (node.files(), node.live()) == (before, live)
    assert node.sh("ls /run/timer-* 2>/dev/null || true") == ""


def test_an_unconfirmed_change_has_a_timer_and_a_unit_for_the_next_boot(node):
    applied = node.module("netplan", phase="apply", confirm_seconds=60, **WANTED)
    assert applied["needs_confirm"]
    timer = node.sh("cat /run/timer-dgxspark-fabric-rollback-*").split()
    assert timer == ["110", "/bin/sh", f"{STATE}/pending/rollback.sh"]
    assert "dgxspark-fabric-rollback.service" in node.sh("ls /etc/systemd/system/multi-user.target.wants")
    again = node.module("netplan", phase="apply", confirm_seconds=40, **WANTED)
    assert again["token"] == applied["token"] and again["needs_confirm"], "a further run completes what a killed one left"
    assert node.sh("cat /run/timer-dgxspark-fabric-rollback-*").split()[0] == "70", "with its time begun anew"
    assert node.module("netplan", phase="confirm", token="another", timeout=1)["failed"]
    node.module("netplan", phase="confirm", token=applied["token"])
    assert node.sh("ls /run/timer-* 2>/dev/null || true") == "" and as_planned(node)


def test_undo_is_taken_back_when_management_goes(node):
    provision(node)
    node.sh("touch /run/breaks-management")
    failed = node.module("netplan_undo", node="spark1", **REACHED | {"timeout": 4})
    assert failed["failed"] and failed["rolled_back"]
    assert as_planned(node) and not node.module("netplan", phase="validate", check=True, **WANTED)["changed"]
