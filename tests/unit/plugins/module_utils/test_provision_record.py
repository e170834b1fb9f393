# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is kept of the state before, byte for byte, and what undo makes of it."""

from __future__ import annotations

import os
import pathlib

import pytest
from ansible_collections.dgxspark.fabric.plugins.module_utils import live_state, managed_file, netplan_drift, netplan_undo, provision_record
from ansible_collections.dgxspark.fabric.plugins.module_utils.live_state import Live
from ansible_collections.dgxspark.fabric.plugins.module_utils.managed_file import FileState
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_tree import Planned
from ansible_collections.dgxspark.fabric.plugins.module_utils.provision_record import Record, digest

NAME = "enp1s0f0np0"
PLANNED = Planned(NAME, "192.168.177.11/24", 9000)
LIVE = {NAME: {"mtu": 1500, "admin_up": True, "arp": {"arp_ignore": 0}, "addresses": ["192.168.0.1/24"]}}


@pytest.fixture
def record(tmp_path) -> Record:
    return Record(str(tmp_path / "state"))


def test_known_state(record):
    state = FileState("/etc/netplan/40-cx7.yaml", b"x", 0o600, 0, 0)
    record.directory.mkdir()
    assert not record.owned(state) and not record.known(state, b"x", "d")
    record.confirm({state.path: b"x"}, "d", {NAME: "networkd", "other": None}, {NAME: "192.168.177.11/24"})
    assert record.owned(state) and record.known(state, b"x", "d")
    assert not record.known(state, b"x", "other") and not record.known(state, b"y", "d")
    assert record.renderers() == {NAME: "networkd"} and record.interfaces() == {NAME: "192.168.177.11/24"}


def test_the_first_state_is_kept_and_ours_never_takes_its_place(record):
    path = "/etc/netplan/40-cx7.yaml"
    record.keep([FileState(path, b"theirs\xff\n", 0o644, 0, 0)], LIVE)
    record.confirm({path: b"# dgxspark.fabric"}, "d", {}, {})
    record.keep([FileState(path, b"# dgxspark.fabric, edited", 0o600, 0, 0)], {NAME: {"mtu": 9000}})
    assert record.original_files() == [FileState(path, b"theirs\xff\n", 0o644, 0, 0)]
    assert record.original_live() == LIVE


def test_what_somebody_wrote_again_since_is_kept_instead(record):
    path = "/etc/netplan/99-nvidia-sync-cluster.yaml"
    record.keep([FileState(path, b"first", 0o600, 0, 0)], LIVE)
    record.confirm({path: None}, "d", {}, {})
    record.keep([FileState(path, b"second", 0o600, 0, 0)], LIVE)
    assert [state.content for state in record.original_files()] == [b"second"]


def test_damaged_bytes_are_an_error(record):
    record.keep([FileState("/x", b"theirs", 0o600, 0, 0)], {})
    (record.directory / "original" / str(digest(b"theirs"))).write_bytes(b"else")
    with pytest.raises(managed_file.FileError, match="restore /x by hand"):
        record.original_files()


@pytest.mark.skipif(os.geteuid() != 0, reason="files of root are written")
def test_undo_brings_bytes_mode_and_absence_back(record, tmp_path):
    ours, theirs, added = (tmp_path / name for name in ("40-cx7.yaml", "99-x.yaml", "40-cx7-kept.yaml"))
    theirs.write_bytes(b"theirs\n")
    theirs.chmod(0o640)
    os.chown(theirs, 0, 12)
    record.keep([FileState(str(ours)), managed_file.read(str(theirs)), FileState(str(added))], LIVE)
    for path, content in ((ours, b"ours"), (added, b"rest")):
        path.write_bytes(content)
    theirs.unlink()
    record.confirm({str(ours): b"ours", str(theirs): None, str(added): b"rest"}, "d", {}, {NAME: PLANNED.address})
    comparison = netplan_undo.compare(record, {NAME: Live(NAME, mtu=9000, admin_up=True, carrier=True, addresses=(PLANNED.address,), arp={"arp_ignore": 1})})
    assert netplan_undo.edited(record, comparison.files) == []
    assert [(difference.key, difference.wanted) for difference in comparison.differences] == [
        ("mtu", 1500), ("surplus_address", "none"), ("address", "192.168.0.1/24"), ("arp_ignore", 0)]
    assert [file.write() for file in comparison.files] == [True, True, True]
    assert theirs.read_bytes() == b"theirs\n" and theirs.stat().st_mode & 0o7777 == 0o640 and theirs.stat().st_gid == 12
    assert not ours.exists() and not added.exists()
    assert [file.write() for file in netplan_undo.wanted_files(record)] == [False, False, False]
    record.forget()
    assert netplan_undo.wanted_files(record) == () and record.provisioned() == {} and not (record.directory / "original").exists()


def test_edited_files_are_found(record, tmp_path):
    path = tmp_path / "40-cx7.yaml"
    record.keep([FileState(str(path), b"theirs", 0o600, 0, 0)], {})
    record.confirm({str(path): b"ours"}, "d", {}, {})
    for content, edited in ((b"ours", False), (b"theirs", False), (b"else", True)):
        path.write_bytes(content)
        assert bool(netplan_undo.edited(record, netplan_undo.wanted_files(record))) is edited
    path.unlink()
    assert netplan_undo.edited(record, netplan_undo.wanted_files(record)) == [str(path)]


def test_interfaces_of_an_undo(record):
    record.keep([], LIVE)
    record.confirm({}, "d", {}, {NAME: PLANNED.address})
    assert netplan_undo.planned_interfaces(record) == (Planned(NAME, PLANNED.address, 1500),)
    assert provision_record.live_record(Live(NAME, mtu=1, addresses=("a", "b"), dynamic=("b",)))["addresses"] == ["a"]


def test_an_interface_that_is_gone_needs_nothing():
    assert live_state.restore_differences(LIVE, {NAME: Live(NAME, exists=False)}, {}) == []
    down = live_state.restore_differences({NAME: {**LIVE[NAME], "admin_up": False}}, {NAME: Live(NAME, mtu=1500, admin_up=True, arp={"arp_ignore": 0})}, {})
    assert [(difference.key, difference.wanted) for difference in down] == [("enabled", "no")]


def test_what_will_not_survive_a_reboot():
    live = {NAME: Live(NAME, addresses=("192.168.177.11/24", "10.1.1.1/24", "10.2.2.2/24"), dynamic=("10.2.2.2/24",))}
    assert [entry["message"].partition(" of ")[0] for entry in netplan_drift.not_lasting("s", [PLANNED], live, None)] == ["s: 10.1.1.1/24"]
    found = netplan_drift.not_lasting("s", [PLANNED], live, {"ethernets": {NAME: {"addresses": ["10.1.1.1/24"]}}})
    assert "192.168.177.11/24 of enp1s0f0np0 is live, but not in netplan: it will not survive a reboot" in found[0]["message"] and len(found) == 1
    assert len(netplan_drift.not_lasting("s", [PLANNED], live, {})) == 2


def test_another_renderer_and_a_file_put_aside(tmp_path: pathlib.Path):
    (entry,) = netplan_drift.renderers("s", {NAME: Live(NAME, renderer="NetworkManager"), "b": Live("b")}, {NAME: "networkd", "b": "networkd"})
    assert (entry["key"], entry["wanted"], entry["live"]) == ("renderer", "networkd", "NetworkManager")
    (tmp_path / "etc/netplan").mkdir(parents=True)
    (tmp_path / "etc/netplan/40-cx7.yaml.sync-disabled-1").touch()
    (entry,) = netplan_drift.put_aside("s", "/etc/netplan/40-cx7.yaml", str(tmp_path))
    assert "NVIDIA Sync" in entry["message"]
    (tmp_path / "etc/netplan/40-cx7.yaml").touch()
    assert netplan_drift.put_aside("s", "/etc/netplan/40-cx7.yaml", str(tmp_path)) == []
