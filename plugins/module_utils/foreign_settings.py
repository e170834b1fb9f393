# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find what other people set for the planned interfaces, say whose it is, and work out what adopting it would do to their files.

Adopting moves exactly the definitions of planned interfaces out of a file: a definition by name, by a match that selects planned
interfaces only, and a bond, bridge or VLAN that is built upon planned interfaces only. The rest of the file stays as it is, line by line where
netplan confirms that this means the same, else in the form that ``netplan get`` prints. Reads only.
"""

from __future__ import annotations

import pathlib
import typing as t
from dataclasses import dataclass, field

from ansible_collections.dgxspark.fabric.plugins.module_utils import foreign_layouts, netplan_edit, netplan_tree
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import Runner
from ansible_collections.dgxspark.fabric.plugins.module_utils.foreign_layouts import Layout
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_sandbox import NetplanError, Sandbox, text_of_one_file, tree_of_text
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_tree import Claim, Hardware

Key = tuple[str, str]
VIRTUAL = ("bonds", "bridges", "vlans")
PACKAGED = "/usr/lib/netplan/"


@dataclass(frozen=True)
class Edit:
    """What becomes of a file when it is adopted; ``content`` is ``None`` when nothing is left of it."""

    path: str
    content: bytes | None


@dataclass
class Foreign:
    """One file, profile or runtime setting of somebody else that touches planned interfaces."""

    where: str
    layout: Layout
    what: list[str]  # each conflict, for the message
    adopting: str  # what adopting would do, as in "would …"
    edits: list[Edit] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)  # why it cannot be adopted
    kind: str = "netplan"  # or "networkmanager", "networkd", "runtime"
    interfaces: tuple[str, ...] = ()
    note: str = ""
    upper: str | None = None  # the virtual interface that goes with it

    @property
    def message(self) -> str:
        """Say whose settings these are, what conflicts, and what adopting would do."""
        text = f"{self.where} ({self.layout.name}): {'; '.join(self.what)}. {self.layout.note[:1].upper()}{self.layout.note[1:]}."
        if self.note:
            text += f" {self.note}."
        if self.blocked:
            return f"{text} It cannot be adopted: {'; '.join(self.blocked)}. Change it by hand, then run again"
        return f"{text} Adopting (fabric_foreign_netplan: adopt) would {self.adopting}; the old state is kept on the node and comes back by undo"


@dataclass
class Survey:
    """Everything of others that touches planned interfaces."""

    foreign: list[Foreign] = field(default_factory=list)
    removed: set[Key] = field(default_factory=set)  # definitions that adopting takes out of the configuration
    healed: list[str] = field(default_factory=list)  # files that netplan rejects, and accepts when they are adopted
    notes: list[str] = field(default_factory=list)

    @property
    def edits(self) -> list[Edit]:
        """Return what adopting writes."""
        return [edit for item in self.foreign for edit in item.edits]

    @property
    def uppers(self) -> list[str]:
        """Return the virtual interfaces that adopting takes out of the configuration."""
        return sorted({name for kind, name in self.removed if kind in VIRTUAL} | {item.upper for item in self.foreign if item.upper})


def _shown(keys: t.Iterable[Key]) -> str:
    return ", ".join(f"{kind}.{name}" for kind, name in keys)


@dataclass(frozen=True)
class FileReader:
    """Reads single netplan files of a copy; ``known`` are interfaces that a file may build upon without defining them."""

    run: Runner
    copy: Sandbox
    known: frozenset[str]
    read: dict[bytes, str] = field(default_factory=dict)  # asking netplan takes a while

    def text(self, content: bytes) -> str:
        """Return what netplan reads from a file's bytes, in its own form, without what was defined beside it.

        Raises:
            NetplanError: netplan rejects the file.
        """
        if content not in self.read:
            self.read[content] = self._text(content)
        return self.read[content]

    def _text(self, content: bytes) -> str:
        text, beside = text_of_one_file(self.run, content, self.known)
        if not beside:
            return text
        # What was defined beside the file has no settings, unless the file gives it some.
        ethernets = tree_of_text(text).get("ethernets") or {}
        own = netplan_edit.definitions(content.decode("utf-8", "replace"))
        added = {("ethernets", name) for name in self.known if name in ethernets and not ethernets[name] and ("ethernets", name) not in own}
        return netplan_edit.without(text, added) or text

    def tree(self, content: bytes) -> dict[str, t.Any]:
        """Return the tree of a file's bytes.

        Raises:
            NetplanError: netplan rejects the file.
        """
        return tree_of_text(self.text(content))

    def remainder(self, content: bytes, keys: t.Collection[Key]) -> bytes:
        """Return a file without the definitions ``keys``, line by line where netplan confirms that the rest means the same.

        Raises:
            NetplanError: netplan does not accept the rest.
        """
        before = self.text(content)
        expected = without_keys(tree_of_text(before), keys)
        # Bytes that are no UTF-8 come back as they were.
        cut = netplan_edit.without(content.decode("utf-8", "surrogateescape"), keys)
        if cut is not None:
            candidate = cut.encode("utf-8", "surrogateescape")
            try:
                if self.tree(candidate) == expected:
                    return candidate
            except NetplanError:
                pass  # what is left stands on something that was cut; the canonical form is tried
        return (netplan_edit.without(before, keys) or "network:\n  version: 2\n").encode()


def without_keys(tree: t.Mapping[str, t.Any], keys: t.Collection[Key]) -> dict[str, t.Any]:
    """Return a tree without some definitions; kinds of which nothing is left go too."""
    left: dict[str, t.Any] = {}
    for kind, entries in tree.items():
        if isinstance(entries, dict) and kind not in netplan_tree.NOT_KINDS:
            kept = {name: settings for name, settings in entries.items() if (kind, name) not in keys}
            if kept or not entries:
                left[kind] = kept
        else:
            left[kind] = entries
    return left


def blocked_by(claim: Claim, tree: t.Mapping[str, t.Any], planned: t.Collection[str], every: t.Mapping[str, Hardware], upon: t.Collection[str]) -> str | None:
    """Return why a definition cannot be moved away without touching interfaces outside the plan; ``None`` when it can.

    Args:
        claim: The definition's claim.
        tree: The merged configuration.
        planned: The planned interfaces.
        every: MAC and driver of every interface of the node.
        upon: The names of definitions that go as well.
    """
    settings = netplan_tree.definitions(tree).get(claim.definition, {})
    key = _shown([claim.definition])
    match = settings.get("match")
    if claim.way != "upon" and isinstance(match, dict):
        others = [name for name, hardware in every.items() if name not in planned and netplan_tree.matches(match, name, hardware)]
        if others:
            return f"{key} also matches {', '.join(others)}, which the plan does not hold"
    if claim.way == "upon":
        members = settings.get("interfaces")
        outside = [str(name) for name in members if name not in planned] if isinstance(members, list) else []
        if outside:
            return f"{key} also holds {', '.join(outside)}, which the plan does not hold"
        name = claim.definition[1]
        above = [f"{kind}.{upper}" for (kind, upper), entry in netplan_tree.definitions(tree).items() if upper not in upon and any(
            name == entry.get(lower) or (isinstance(entry.get(lower), list) and name in entry[lower]) for lower in netplan_tree.LOWER_KEYS)]
        if above:
            return f"{', '.join(above)} stands upon {name}"
    return None


def kept_path(path: str) -> str:
    """Return where the rest of somebody's file goes that stood at the managed path."""
    return f"{path.removesuffix('.yaml')}-kept.yaml"


@dataclass(frozen=True)
class Surveyor:
    """Looks through the netplan files of a copy for claims on the planned interfaces."""

    reader: FileReader
    own: str  # the managed path
    own_is_foreign: bool
    planned: t.Mapping[str, Hardware]
    every: t.Mapping[str, Hardware]

    def netplan(self, merged: t.Mapping[str, t.Any]) -> Survey:
        """Return the claims of netplan files.

        Args:
            merged: The merged configuration of all files that are not ours.

        Raises:
            NetplanError: A file cannot be read on its own.
        """
        survey = Survey()
        found = netplan_tree.claims(merged, self.planned)
        if not found:
            return survey
        upon = {claim.definition[1] for claim in found if claim.way == "upon"}
        wanted = {claim.definition for claim in found}
        whys = {claim: blocked_by(claim, merged, self.planned, self.every, upon) for claim in found}
        copy = self.reader.copy
        paths = [path for path in copy.files() if path != self.own or self.own_is_foreign]
        # A name may be written with escapes; a file that does not show it is read only where none that shows it has it.
        likely = [path for path in paths if any(name.encode() in copy.content(path) for _kind, name in wanted)]
        for path in [*likely, *(path for path in paths if path not in likely)]:
            if path not in likely and survey.removed >= wanted:
                break
            content = copy.content(path)
            tree = self.reader.tree(content)
            keys = [key for key in netplan_tree.definitions(tree) if key in wanted]
            if keys:
                mine = [claim for claim in found if claim.definition in keys]
                survey.foreign.append(self._file(path, content, tree, keys, mine, [text for claim in mine if (text := whys[claim])]))
                survey.removed.update(keys)
        return survey

    def _file(self, path: str, content: bytes, tree: t.Mapping[str, t.Any], keys: t.Sequence[Key], found: t.Sequence[Claim],
              blocked: t.Sequence[str]) -> Foreign:
        what = [f"{claim.key} {claim.why}" + ("" if claim.way == "name" else f" ({claim.interface})") + (
            f", {self._short(tree, claim)}" if claim.definition == found[0].definition or claim.way == "name" else "") for claim in found]
        problems = list(dict.fromkeys(blocked))
        if path.startswith(PACKAGED):
            problems.append("the file belongs to a package")
        elif (self.reader.copy.root / path.lstrip("/")).is_symlink():
            problems.append("the file is a link to another place")
        foreign = Foreign(path, foreign_layouts.recognise(path, tree), what, "", blocked=problems, note=foreign_layouts.twins_note(tree),
                          interfaces=tuple(dict.fromkeys(claim.interface for claim in found)))
        if problems:
            return foreign
        rest = self.reader.remainder(content, keys)
        empty = self._says_nothing(path, rest)
        if path == self.own:
            foreign.adopting = f"replace this file by the plan's{'' if empty else f', and keep its other settings in {kept_path(path)}'}"
            foreign.edits = [] if empty else [Edit(kept_path(path), rest)]
        else:
            left = ", of which nothing is left then, so that it goes" if empty else ", and leave the rest of it"
            foreign.adopting = f"move {_shown(keys)} out of the file{left}"
            foreign.edits = [Edit(path, None if empty else rest)]
        return foreign

    def _short(self, tree: t.Mapping[str, t.Any], claim: Claim) -> str:
        return netplan_tree.short(netplan_tree.definitions(tree).get(claim.definition, {}))

    def _says_nothing(self, path: str, rest: bytes) -> bool:
        copy = self.reader.copy
        tree = self.reader.tree(rest)
        if netplan_tree.definitions(tree) or tree.get("openvswitch"):
            return False
        if "renderer" not in tree:
            return True
        # A renderer for all interfaces may go only where another file says the same.
        saved = copy.content(path)
        try:
            copy.place(path, rest)
            with_it = copy.tree().get("renderer")
            copy.place(path, None)
            return with_it == copy.tree().get("renderer")
        except NetplanError:
            return False
        finally:
            copy.place(path, saved)

    def heal(self) -> list[Foreign]:
        """Return the files that netplan rejects on their own, each with what adopting would make of it.

        Such a file cannot be read; entries of planned interfaces are found by their lines alone, and what is left has to be accepted by netplan.
        """
        found = []
        for path in self.reader.copy.files():
            content = self.reader.copy.content(path)
            try:
                self.reader.tree(content)
            except NetplanError as exc:
                found.append(self._rejected(path, content, str(exc).splitlines()[0]))
        return found

    def _rejected(self, path: str, content: bytes, said: str) -> Foreign:
        text = content.decode("utf-8", "surrogateescape")
        keys = [key for key in sorted(netplan_edit.definitions(text)) if key[0] == "ethernets" and key[1] in self.planned]
        foreign = Foreign(path, foreign_layouts.recognise(path, {}), [f"netplan rejects this file: {said.replace('/etc/netplan/one.yaml', path)}"], "",
                          interfaces=tuple(name for _kind, name in keys), note="Until that is mended netplan cannot apply anything on this node")
        if not keys:
            foreign.blocked.append("it has no entry of a planned interface")
            return foreign
        rest = (netplan_edit.without(text, keys) or "network:\n  version: 2\n").encode("utf-8", "surrogateescape")
        try:
            tree = self.reader.tree(rest)
        except NetplanError:
            foreign.blocked.append("without the entries of planned interfaces netplan rejects it, too")
            return foreign
        empty = not netplan_tree.definitions(tree) and "renderer" not in tree
        foreign.edits = [Edit(path, None if empty else rest)]
        foreign.adopting = f"take {_shown(keys)} out of it, {'of which nothing is left then' if empty else 'after which netplan accepts it'}"
        return foreign


def all_hardware(root: str, names: t.Iterable[str], driver: t.Callable[[str], str | None]) -> dict[str, Hardware]:
    """Return MAC and driver of every interface, by which definitions may match them."""
    found = {}
    for name in names:
        try:
            mac = (pathlib.Path(root) / "sys/class/net" / name / "address").read_text(encoding="ascii").strip()
        except OSError:
            mac = ""
        found[name] = Hardware(mac or None, driver(name))
    return found
