# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a change would do on a node: files and live state against the plan. The same comparison serves check and apply."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.dgxspark.fabric.plugins.module_utils import arp_settings, live_state, managed_file
from ansible_collections.dgxspark.fabric.plugins.module_utils.foreign_settings import Edit
from ansible_collections.dgxspark.fabric.plugins.module_utils.live_state import Difference, Live
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_verdict import Request

NETPLAN_MODE = 0o600
SYSCTL_MODE = 0o644


@dataclass(frozen=True)
class WantedFile:
    """A file that is written: how it is, and how it should be; ``content`` is ``None`` when it is to be absent."""

    state: managed_file.FileState
    content: bytes | None
    mode: int
    owner: tuple[int, int] = (0, 0)
    adopted: bool = False  # somebody else's

    @property
    def differs(self) -> bool:
        """Tell whether it has to be written."""
        return managed_file.differs(self.state, self.content, self.mode, self.owner[0])

    def write(self) -> bool:
        """Write it where it is not as wanted; return whether it was not.

        Raises:
            managed_file.FileError: It cannot be written.
        """
        path = self.state.path
        if not managed_file.differs(managed_file.read(path), self.content, self.mode, self.owner[0]):
            return False
        if self.content is None:
            managed_file.remove(path)
        else:
            managed_file.write(path, self.content, self.mode, self.owner)
        return True


@dataclass(frozen=True)
class Comparison:
    """Everything that differs from the plan on this node."""

    files: tuple[WantedFile, ...]
    differences: tuple[Difference, ...]

    @property
    def mendable(self) -> list[Difference]:
        """Return the live deviations that a change on this node can mend."""
        return live_state.mendable(self.differences)

    @property
    def would_change(self) -> bool:
        """Tell whether applying would do anything."""
        return any(file.differs for file in self.files) or bool(self.mendable)

    @property
    def needs_netplan(self) -> bool:
        """Tell whether netplan has to be applied: the configuration's content is new, or an address is missing.

        A wrong MTU or a disabled interface under an unchanged file is set directly: applying netplan takes management away
        for seconds where NetworkManager renders.
        """
        content = any(file.differs for file in self.files if file.adopted) or any(file.state.content != file.content for file in self.files[:1])
        return content or any(difference.mend == "netplan" for difference in self.differences)

    def diff(self) -> list[dict[str, t.Any]]:
        """Return Ansible diffs: the files, then the live state by interface."""
        entries = [managed_file.file_diff(file.state, file.content, file.mode, file.owner[0]) for file in self.files]
        return [entry for entry in entries if entry is not None] + live_state.diff_entries(self.differences)

    def drift(self, node: str) -> list[dict[str, t.Any]]:
        """Return the drift list of this node."""
        entries: list[dict[str, t.Any]] = []
        for file in self.files:
            entries.extend(file_drift(node, file) if not file.adopted else [])
        return entries + [live_state.drift_entry(node, difference) for difference in self.differences]


def file_drift(node: str, file: WantedFile) -> list[dict[str, t.Any]]:
    """Return how a managed file deviates."""
    path, state = file.state.path, file.state
    if state.content is None:
        return [{"host": node, "subject": path, "key": "presence", "wanted": "present", "live": "missing", "message": f"{node}: {path} is missing"}]
    entries = []
    if state.content != file.content:
        entries.append({"host": node, "subject": path, "key": "content", "wanted": "as planned", "live": "differs",
                        "message": f"{node}: {path} differs from the plan"})
    if state.mode != file.mode:
        wanted, live = f"{file.mode:04o}", f"{state.mode:04o}"
        entries.append({"host": node, "subject": path, "key": "mode", "wanted": wanted, "live": live,
                        "message": f"{node}: {path} has mode {live}, expected {wanted}"})
    if state.owner != 0:
        entries.append({"host": node, "subject": path, "key": "owner", "wanted": 0, "live": state.owner,
                        "message": f"{node}: {path} belongs to user {state.owner}, expected root"})
    return entries


def adopted_file(edit: Edit) -> WantedFile:
    """Return what adopting makes of somebody's file; mode and owner stay theirs.

    Raises:
        managed_file.FileError: It is not a plain file.
    """
    state = managed_file.read(edit.path)
    owner = (state.owner or 0, state.group or 0)
    return WantedFile(state, edit.content, state.mode if state.mode is not None else NETPLAN_MODE, owner, adopted=True)


def compare(request: Request, live: t.Mapping[str, Live], edits: t.Iterable[Edit] = ()) -> Comparison:
    """Compare a node with the plan.

    Args:
        request: What is asked for.
        live: The live state of the planned interfaces.
        edits: What adopting does to files of others.

    Raises:
        managed_file.FileError: A managed path is not a plain file.
    """
    files = [WantedFile(managed_file.read(request.path), request.content, NETPLAN_MODE)]
    if request.arp:
        text = arp_settings.file_text(interface.name for interface in request.planned)
        files.append(WantedFile(managed_file.read(request.sysctl_path), text.encode(), SYSCTL_MODE))
    files += [adopted_file(edit) for edit in edits]
    return Comparison(tuple(files), tuple(live_state.differences(request.planned, live, request.arp)))
