# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every known layout on a root directory, with real netplan: named and refused with nothing changed, or adopted into exactly the plan."""

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.dgxspark.fabric.plugins.module_utils import command, managed_file, netplan_sandbox, netplan_tree
from ansible_collections.dgxspark.fabric.plugins.module_utils.live_state import Live
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_merge import Merge
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_tree import Planned
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_verdict import Request, Verdict
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils import spark_root
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils.foreign_layouts_on_disk import A, B, CX7, LAYOUTS, MANAGEMENT, static

pytestmark = pytest.mark.skipif(not command.find_program("netplan"), reason="netplan is not installed here: tests/setup tools installs netplan.io")

OWN = "/" + CX7
PLANNED = (Planned(A, "192.168.177.11/24", 9000, "rocep1s0f1"), Planned(B, "192.168.178.11/24", 9000, "roceP2p1s0f1"))


def planned_text(renderer: str | None) -> bytes:
    """Return our file."""
    more = "dhcp4: false; dhcp6: false; link-local: []; optional: true; mtu: 9000" + (f"; renderer: {renderer}" if renderer else "")
    return ("# Managed by dgxspark.fabric\n" + static({A: "192.168.177.11/24", B: "192.168.178.11/24"}, more)).encode()


def run(argv, timeout=20.0):
    """Run a command; NetworkManager counts as installed."""
    return command.Completed(tuple(argv), 0, "", "") if argv[0] == "nmcli" else command.run(argv, timeout)


class Node:
    """A node's files below a directory."""

    def __init__(self, root: pathlib.Path, files: dict[str, str], live: dict[str, Live] | None = None) -> None:
        self.root = root
        for path, text in {"etc/netplan/50-cloud-init.yaml": MANAGEMENT, **files}.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
            (root / path).chmod(0o600)
        for index, name in enumerate((A, B, "enp1s0f0np0", "enP2p1s0f0np0", "enP7s7", "enx001122"), start=2):
            spark_root.add_interface(root, name, index)
        self.live = {name: Live(name, admin_up=True, carrier=True) for name in (A, B)} | (live or {})

    def bytes(self) -> dict[str, bytes]:
        """Return every file that configures networks."""
        return {str(path.relative_to(self.root)): path.read_bytes() for path in sorted((self.root / "etc").rglob("*")) if path.is_file()}

    def check(self, foreign: str, renderer: str | None = None) -> tuple[Verdict, Merge]:
        """Look at the node as the module does."""
        current = managed_file.FileState(OWN)
        if (self.root / CX7).exists():
            current = managed_file.FileState(OWN, (self.root / CX7).read_bytes(), 0o600, 0, 0)
        request = Request("spark1", OWN, planned_text(renderer), PLANNED, foreign=foreign)
        merge = Merge(request, run, self.live, current, False, str(self.root))
        verdict = Verdict()
        verdict.survey = merge.check(verdict)
        return verdict, merge

    def adopt(self, verdict: Verdict, renderer: str | None = None) -> None:
        """Write what adopting writes."""
        for edit in verdict.survey.edits:
            target = self.root / edit.path.lstrip("/")
            if edit.content is None:
                target.unlink()
            else:
                target.write_bytes(edit.content)
        (self.root / CX7).write_bytes(planned_text(renderer))

    def tree(self) -> dict:
        """Return the merged configuration."""
        with netplan_sandbox.sandbox(command.run, str(self.root)) as copy:
            return copy.tree()


@pytest.fixture
def node_with(tmp_path):
    def make(name: str) -> Node:
        live = {A: Live(A, admin_up=True, carrier=True, addresses=("10.9.9.1/24",))} if name == "runtime" else None
        return Node(tmp_path, LAYOUTS[name][2], live)

    return make


@pytest.mark.parametrize("name", LAYOUTS)
def test_refuse_names_it_and_changes_nothing(node_with, name):
    node = node_with(name)
    before = node.bytes()
    verdict, _merge = node.check("refuse")
    identifier, word, files = LAYOUTS[name]
    assert verdict.problems, "refused"
    text = "\n".join(problem["message"] for problem in verdict.problems)
    assert word in text and "adopt" in text
    assert all(f"/{path}" in text for path in files if not path.endswith("-all.yaml"))
    assert A in text
    assert node.bytes() == before
    if name != "rejected":
        assert identifier in {item.layout.identifier for item in verdict.survey.foreign}


@pytest.mark.parametrize(("name", "renderer"), [*((name, None) for name in LAYOUTS), ("hand-made", "NetworkManager"), ("nvidia-sync", "NetworkManager"),
                                                ("bond", "NetworkManager"), ("networkmanager-mirror", "networkd"), ("nvidia-performance-guide", "networkd")])
def test_adopt_ends_in_the_plan_and_leaves_the_rest(node_with, name, renderer):
    node = node_with(name)
    verdict, merge = node.check("adopt", renderer)
    assert verdict.problems == []
    node.adopt(verdict, renderer)
    after = node.tree()
    assert after == merge.merged
    assert netplan_tree.planned_differences(after, PLANNED) == []
    assert netplan_tree.other_changes(merge.configured, after, {A, B}, verdict.survey.removed) == []
    assert not netplan_tree.claims({key: value for key, value in after.items() if key != "ethernets"}, {A: netplan_tree.Hardware(), B: netplan_tree.Hardware()})


@pytest.mark.parametrize("name", ["nvidia-helper", "bond", "rejected", "sparkring"])
def test_what_was_adopted_is_no_obstacle_again(node_with, name):
    node = node_with(name)
    node.adopt(node.check("adopt")[0])
    again, _merge = node.check("refuse")
    assert again.problems == [] and not again.survey.foreign


def test_only_the_lines_of_the_entry_go(node_with):
    node = node_with("hand-made")
    verdict, _merge = node.check("adopt")
    (edit,) = verdict.survey.edits
    assert edit.content.decode() == """\
# my network
network:
  version: 2
  ethernets:
    # the QSFP port
    # the other card, leave it alone
    enx001122:
      dhcp4: true   # from the router
      optional: true
"""


def test_a_bond_goes_whole_and_is_named_for_removal(node_with):
    verdict, _merge = node_with("bond").check("adopt")
    assert verdict.survey.uppers == ["bond0"] and verdict.survey.edits[0].content is None


def test_other_entries_of_a_file_at_our_place_are_kept_beside_it(node_with):
    verdict, _merge = node_with("nvidia-helper").check("adopt")
    (edit,) = verdict.survey.edits
    assert edit.path == "/etc/netplan/40-cx7-kept.yaml" and b"enp1s0f0np0" in edit.content and A.encode() not in edit.content


def test_a_renderer_for_everything_stays_where_no_other_file_sets_it(node_with):
    verdict, _merge = node_with("nvidia-performance-guide").check("adopt")
    assert b"renderer: NetworkManager" in verdict.survey.edits[0].content
    node = node_with("nvidia-sync")
    assert [edit.content for edit in node.check("adopt")[0].survey.edits if "sync" in edit.path] == [None]


@pytest.mark.parametrize(("text", "words"), [
    ("ethernets: {all: {match: {name: 'en*'}, dhcp4: true}}", "also matches enP2p1s0f0np0"),
    (f"ethernets: {{enx001122: {{}}, {A}: {{}}}}\n  bonds: {{b: {{interfaces: [{A}, enx001122]}}}}", "also holds enx001122"),
    (f"ethernets: {{{A}: {{}}}}\n  bonds: {{b: {{interfaces: [{A}]}}}}\n  vlans: {{v: {{id: 7, link: b}}}}", "vlans.v stands upon b"),
])
def test_what_cannot_be_adopted_without_touching_others(tmp_path, text, words):
    node = Node(tmp_path, {"etc/netplan/60-x.yaml": f"network:\n  version: 2\n  {text}\n"})
    verdict, _merge = node.check("adopt")
    assert any(words in problem["message"] and "by hand" in problem["message"] for problem in verdict.problems)


def test_a_rejected_file_without_planned_interfaces_is_not_ours_to_mend(tmp_path):
    node = Node(tmp_path, {"etc/netplan/60-x.yaml": "network:\n  version: 2\n  ethernets:\n    enP7s7:\n      mtu: 9000b\n"})
    for foreign in ("refuse", "adopt", "ignore"):
        (problem,) = node.check(foreign)[0].problems
        assert "/etc/netplan/60-x.yaml" in problem["message"] and "netplan rejects this file" in problem["message"]


def test_ignore_where_nothing_conflicts(tmp_path):
    node = Node(tmp_path, {"etc/netplan/60-x.yaml": f"network:\n  version: 2\n  ethernets:\n    {A}:\n      optional: true\n"})
    assert node.check("ignore")[0].problems == []
    assert node.check("refuse")[0].problems
    (tmp_path / "etc/netplan/60-x.yaml").write_text(f"network:\n  version: 2\n  ethernets:\n    {A}:\n      renderer: NetworkManager\n")
    (problem,) = node.check("ignore")[0].problems
    assert problem["id"] == "netplan.renderers" and "NetworkManager" in problem["message"]
    (tmp_path / "etc/netplan/60-x.yaml").write_text(f"network:\n  version: 2\n  ethernets:\n    {A}:\n      addresses: [10.1.1.1/24]\n")
    assert {problem["id"] for problem in node.check("ignore")[0].problems} == {"netplan.merged"}


def test_a_generated_profile_is_told_and_does_not_stop_the_change(tmp_path):
    text = "[connection]\nid=Wired connection 2\nuuid=u\ntype=ethernet\nautoconnect-priority=-999\ninterface-name=" + A + "\n[ipv4]\nmethod=auto\n"
    node = Node(tmp_path, {"run/NetworkManager/system-connections/Wired connection 2.nmconnection": text})
    verdict, _merge = node.check("refuse")
    assert verdict.problems == [] and "Wired connection 2" in verdict.survey.notes[0]
