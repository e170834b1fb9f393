# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Try the planned file together with everything else that configures the node, and say what stands in the way. Reads only."""

from __future__ import annotations

import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils import foreign_beside, managed_file, netplan_tree, sysfs
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import Runner
from ansible_collections.dgxspark.fabric.plugins.module_utils.ethtool_ioctl import driver_info
from ansible_collections.dgxspark.fabric.plugins.module_utils.foreign_layouts import TWINS
from ansible_collections.dgxspark.fabric.plugins.module_utils.foreign_settings import FileReader, Foreign, Survey, Surveyor, all_hardware
from ansible_collections.dgxspark.fabric.plugins.module_utils.live_state import Live
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_sandbox import NetplanError, Sandbox, sandbox
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_verdict import MARK, Request, Verdict
from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree


def _driver(name: str) -> str | None:
    info = driver_info(name)
    return str(info["driver"]) if info and info.get("driver") else None


class Merge:
    """The node's configuration with the planned file in it.

    Args:
        request: What is asked for.
        run: Runs a command.
        live: The live state of the planned interfaces.
        current: The managed file as it is now.
        owned: Whether an earlier run of this collection wrote the managed file.
        root: Where the node's files begin.
    """

    def __init__(self, request: Request, run: Runner, live: t.Mapping[str, Live], current: managed_file.FileState, owned: bool, root: str = "/") -> None:
        self.request, self.run, self.live, self.current, self.owned, self.root = request, run, live, current, owned, root
        every = all_hardware(root, sysfs.interface_names(Tree(root)), _driver if root == "/" else str)
        self.every = every
        self.planned = {interface.name: every.get(interface.name, netplan_tree.Hardware()) for interface in request.planned}
        self.survey = Survey()
        self.merged: dict[str, t.Any] = {}
        self.texts: dict[bytes, str] = {}
        self.configured: dict[str, t.Any] = {}

    def check(self, verdict: Verdict) -> Survey:
        """Add every reason against the planned file to ``verdict``; return what others set and what adopting does to it."""
        try:
            with sandbox(self.run, self.root) as copy:
                self._check(copy, verdict)
        except NetplanError as exc:
            verdict.refuse("netplan.rejected", f"netplan rejects the configuration of /etc/netplan with {self.request.path} as planned: {exc}")
        verdict.configured = self.configured
        return self.survey

    def _surveyor(self, copy: Sandbox, own_is_foreign: bool) -> Surveyor:
        names = frozenset({*self.every, *self.planned, *netplan_names(self.configured)})
        return Surveyor(FileReader(self.run, copy, names, self.texts), self.request.path, own_is_foreign, self.planned, self.every)

    def _check(self, copy: Sandbox, verdict: Verdict) -> None:
        request = self.request
        try:
            self.configured = copy.tree()
        except NetplanError as exc:
            if not self._heal(copy, verdict, exc):
                return
        own_is_foreign = self._own_is_foreign(copy)
        if not own_is_foreign:
            copy.place(request.path, None)
        found = self._surveyor(copy, own_is_foreign).netplan(copy.tree())
        self.survey.foreign += found.foreign
        self.survey.removed |= found.removed
        self._beside()
        for item in self.survey.foreign:
            if self._refuses(item):
                verdict.refuse(f"{item.kind}.foreign", item.message)
        if verdict.problems:
            return
        if self.current.content == request.content and request.foreign != "ignore" and not self.survey.foreign:
            return
        if request.foreign == "adopt":
            for edit in self.survey.edits:
                if edit.path.endswith(".yaml"):
                    copy.place(edit.path, edit.content)
        copy.place(request.path, request.content)
        copy.generate()
        self.merged = copy.tree()
        self._judge(verdict)

    def _heal(self, copy: Sandbox, verdict: Verdict, error: NetplanError) -> bool:
        """Look for the file that netplan rejects; return whether the rest can be looked at."""
        broken = self._surveyor(copy, True).heal()
        for item in broken:
            if item.blocked or self.request.foreign != "adopt":
                verdict.refuse("netplan.rejected", item.message)
            for edit in item.edits:
                copy.place(edit.path, edit.content)
        if not broken:
            verdict.refuse("netplan.rejected", f"netplan rejects the node's configuration as it is, also without {self.request.path}: {error}. Mend that first")
        if verdict.problems:
            return False
        self.survey.foreign += broken
        self.configured = copy.tree()
        return True

    def _own_is_foreign(self, copy: Sandbox) -> bool:
        """Tell whether somebody else wrote what stands at the managed path, and meant something else."""
        content = copy.content(self.request.path)
        if self.current.content is None or self.current.content == self.request.content or not content:
            return False
        if self.owned or MARK in self.current.text:
            return False
        tree = self._surveyor(copy, True).reader.tree(content)
        return "renderer" in tree or not netplan_tree.same_meaning(tree, self.request.planned)

    def _beside(self) -> None:
        profiles, notes = foreign_beside.profiles(self.root, self.planned)
        self.survey.foreign += profiles
        self.survey.notes += notes
        self.survey.foreign += foreign_beside.networkd_files(self.root, self.planned, self.every)
        if not self.owned:
            claimed = {name for item in self.survey.foreign if item.kind != "netplan" for name in item.interfaces}
            self.survey.foreign += foreign_beside.runtime_addresses(self.request.planned, self.live, self.configured, claimed)

    def _refuses(self, item: Foreign) -> bool:
        """Tell whether somebody's settings stop the change."""
        if self.request.foreign == "adopt":
            return bool(item.blocked)
        if self.request.foreign == "ignore":
            # What is merged must be the plan, which is seen below. Beside netplan a profile conflicts where NetworkManager renders.
            if item.kind == "netplan":
                return item.where == self.request.path
            return item.kind != "networkmanager" or any(netplan_tree.renderer_of(self.configured, name) == "NetworkManager" for name in item.interfaces)
        return True

    def _judge(self, verdict: Verdict) -> None:
        request = self.request
        for problem in netplan_tree.planned_differences(self.merged, request.planned):
            verdict.refuse("netplan.merged", f"{problem}: look for settings of it in the other files of /etc/netplan")
        by_manager = [name for name in self.planned if netplan_tree.renderer_of(self.merged, name) == "NetworkManager"]
        if by_manager and not self.run(["nmcli", "--version"], timeout=20).found:
            verdict.refuse("netplan.renderer_missing", f"{', '.join(by_manager)} would be rendered by NetworkManager, which is not installed: set "
                           "fabric_netplan_renderer: networkd, take the renderer out of the netplan file that sets it, or install network-manager")
        for a, b in TWINS.items():
            if a in self.planned and b in self.planned:
                renderers = [netplan_tree.renderer_of(self.merged, name) for name in (a, b)]
                if renderers[0] != renderers[1]:
                    verdict.refuse("netplan.renderers", f"{a} would be rendered by {renderers[0]}, its twin {b} by {renderers[1]}: "
                                   "both rails of a port need one renderer. Set fabric_netplan_renderer, or take the renderer out of the other file")
        if self.current.content == request.content:
            return
        for problem in netplan_tree.other_changes(self.configured, self.merged, set(self.planned), self.survey.removed if request.foreign == "adopt" else ()):
            verdict.refuse("netplan.others", f"{request.path} would change interfaces outside the plan: {problem}. "
                           f"Move those settings from {request.path} to a file of their own")


def netplan_names(tree: t.Mapping[str, t.Any]) -> list[str]:
    """Return the names of the ethernet interfaces that a tree defines."""
    return [name for kind, name in netplan_tree.definitions(tree) if kind == "ethernets"]
