# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What each node's ssh files should hold: all others, those that do not answer too, and nobody who left."""

from __future__ import annotations

import pytest
from ansible_collections.dgxspark.fabric.plugins.plugin_utils import ssh_mesh

NAMES = ("spark1", "spark2", "spark3")
PLAN = {"nodes": {name: {"management": {"address": f"10.77.0.{number}"}} for number, name in enumerate(NAMES, start=11)}}


def said(name: str, **more) -> dict:
    return {"user": f"user-{name}", "public_key": f"ssh-ed25519 K{name}", "host_keys": [f"ssh-ed25519 H{name}", f"ssh-rsa R{name}"], "authorized_keys": [],
            "known_hosts": [], "config": [], "too_open": []} | more


@pytest.fixture
def seen() -> dict:
    return {name: said(name) for name in NAMES}


def settled(seen: dict) -> dict:
    return {name: said(name, **ssh_mesh.wanted(PLAN, seen, name)) for name in seen}


def test_lines(seen):
    lines = ssh_mesh.wanted(PLAN, seen, "spark1")
    assert lines["authorized_keys"] == ["ssh-ed25519 Kspark2 dgxspark-fabric:spark2", "ssh-ed25519 Kspark3 dgxspark-fabric:spark3"]
    assert lines["known_hosts"][:2] == ["spark2,10.77.0.12 ssh-ed25519 Hspark2", "spark2,10.77.0.12 ssh-rsa Rspark2"]
    assert lines["config"][:3] == ["Host spark2 10.77.0.12", "    HostName 10.77.0.12", "    User user-spark2"]
    assert "    StrictHostKeyChecking yes" in lines["config"] and lines["config"][-1] == "Host *"


def test_settled_means_no_drift_and_the_proof_names_the_others(seen):
    hosts = {name: {"r": {"ssh": state}} for name, state in settled(seen).items()}
    found = ssh_mesh.mesh(PLAN, hosts, NAMES, "r")
    assert all(entry["drift"] == [] and entry["differs"] is False for entry in found.values())
    assert found["spark2"]["targets"][0] == {"node": "spark1", "names": ["spark1", "10.77.0.11"], "user": "user-spark1"}


def test_a_node_that_does_not_answer_keeps_its_place(seen):
    full = settled(seen)
    del full["spark3"]
    assert ssh_mesh.wanted(PLAN, full, "spark1") == {part: full["spark1"][part] for part in ssh_mesh.PARTS}
    assert [target["node"] for target in ssh_mesh.targets(PLAN, full, "spark1")] == ["spark2"]


def test_a_node_that_left_loses_it(seen):
    full = settled(seen)
    smaller = {"nodes": {name: PLAN["nodes"][name] for name in ("spark1", "spark2")}}
    del full["spark3"]
    lines = ssh_mesh.wanted(smaller, full, "spark1")
    assert not any("spark3" in line for part in ssh_mesh.PARTS for line in lines[part])
    assert {entry["key"] for entry in ssh_mesh.drift(smaller, full, "spark1")} == set(ssh_mesh.PARTS)


def test_a_new_key_and_open_files_are_drift(seen):
    full = settled(seen)
    full["spark2"]["public_key"] = "ssh-ed25519 NEW"
    (entry,) = ssh_mesh.drift(PLAN, full, "spark1")
    assert entry["key"] == "authorized_keys" and "1 lines missing, 1 lines too many" in entry["message"]
    full["spark2"] |= {"public_key": None, "too_open": ["/home/x/.ssh"]}
    assert [entry["key"] for entry in ssh_mesh.drift(PLAN, full, "spark2")] == ["key", "mode"]


def test_a_cluster_of_one():
    alone = {"nodes": {"a": {"management": {"address": "a"}}}}
    assert ssh_mesh.wanted(alone, {"a": said("a")}, "a") == {"authorized_keys": [], "known_hosts": [], "config": []}
    assert ssh_mesh.mesh(PLAN, {"spark1": {}}, ["spark1"], "r") == {}
