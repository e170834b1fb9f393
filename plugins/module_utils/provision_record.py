# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What this collection keeps on a node: what it last wrote, and what was there before, byte for byte.

``provisioned.json`` holds digests of everything a confirmed change wrote, against which drift and undo compare. ``original/`` holds the files as they
were before this collection touched them (named by their digest) with modes and owners in ``original/journal.json``, and how the interfaces were.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import shutil
import time
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils import managed_file
from ansible_collections.dgxspark.fabric.plugins.module_utils.live_state import Live
from ansible_collections.dgxspark.fabric.plugins.module_utils.managed_file import FileState
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_verdict import MARK

STATE_DIRECTORY = "/var/lib/dgxspark-fabric"


def digest(content: bytes | None) -> str | None:
    """Return the SHA-256 of a file's bytes."""
    return hashlib.sha256(content).hexdigest() if content is not None else None


def _mapping(path: pathlib.Path) -> dict[str, t.Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def live_record(live: Live) -> dict[str, t.Any]:
    """Return what undo has to bring back of an interface. Addresses of a DHCP client come back by themselves."""
    return {"mtu": live.mtu, "admin_up": live.admin_up, "arp": dict(live.arp),
            "addresses": [address for address in live.addresses if address not in live.dynamic]}


class Record:
    """The records below ``directory``."""

    def __init__(self, directory: str = STATE_DIRECTORY) -> None:
        self.directory = pathlib.Path(directory)

    def provisioned(self) -> dict[str, t.Any]:
        """Return the record of the last confirmed change, empty when there is none."""
        return _mapping(self.directory / "provisioned.json")

    def known(self, state: FileState, content: bytes, others: str) -> bool:
        """Tell whether our file and all others are as they were when a change was last confirmed."""
        record = self.provisioned()
        return state.content == content and record.get("others") == others and record.get("files", {}).get(state.path) == digest(content)

    def owned(self, state: FileState) -> bool:
        """Tell whether an earlier run wrote the file at this path."""
        return state.path in self.provisioned().get("files", {})

    def renderers(self) -> dict[str, str]:
        """Return who rendered each planned interface when a change was last confirmed."""
        found = self.provisioned().get("renderers")
        return found if isinstance(found, dict) else {}

    def interfaces(self) -> dict[str, str | None]:
        """Return the planned interfaces of the last confirmed change with their addresses."""
        found = self.provisioned().get("interfaces")
        return found if isinstance(found, dict) else {}

    def confirm(self, written: t.Mapping[str, bytes | None], others: str | None, renderers: t.Mapping[str, str | None],
                interfaces: t.Mapping[str, str | None]) -> None:
        """Note a confirmed change; files of earlier changes stay in the record.

        Raises:
            managed_file.FileError: The record cannot be written.
        """
        files = {**self.provisioned().get("files", {}), **{path: digest(content) for path, content in written.items()}}
        record = {"time": time.time(), "others": others, "files": files, "renderers": {name: value for name, value in renderers.items() if value},
                  "interfaces": {**self.interfaces(), **interfaces}}
        managed_file.write(str(self.directory / "provisioned.json"), json.dumps(record).encode(), 0o600)

    def _journal(self) -> dict[str, t.Any]:
        return _mapping(self.directory / "original/journal.json")

    def keep(self, before: t.Iterable[FileState], live: t.Mapping[str, t.Any]) -> None:
        """Keep how files and interfaces were before a change. May be repeated, and be cut off at any point.

        The first state of a file is kept. A later one replaces it only where somebody else wrote the file again since (their newest state is theirs to have).

        Raises:
            managed_file.FileError: It cannot be written.
        """
        journal = self._journal()
        files = dict(journal.get("files") or {})
        ours = self.provisioned().get("files", {})
        folder = self.directory / "original"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for state in before:
            now = digest(state.content)
            again = state.path in ours and now != ours[state.path] and MARK not in state.text
            if state.path in files and not (again and state.content is not None):
                continue
            if state.content is not None:
                managed_file.write(str(folder / str(now)), state.content, 0o600)
            files[state.path] = {"digest": now, "mode": state.mode, "owner": state.owner, "group": state.group}
        interfaces = {**live, **(journal.get("live") or {})}
        managed_file.write(str(folder / "journal.json"), json.dumps({"files": files, "live": interfaces}).encode(), 0o600)

    def original_files(self) -> list[FileState]:
        """Return the files as they were before this collection came.

        Raises:
            managed_file.FileError: Kept bytes are missing or damaged.
        """
        found = []
        for path, entry in (self._journal().get("files") or {}).items():
            content = None
            if entry.get("digest") is not None:
                kept = managed_file.read(str(self.directory / "original" / entry["digest"]))
                if digest(kept.content) != entry["digest"]:
                    raise managed_file.FileError(f"{kept.path}, the kept bytes of {path}, is missing or was changed: restore {path} by hand")
                content = kept.content
            found.append(FileState(path, content, entry.get("mode"), entry.get("owner"), entry.get("group")))
        return found

    def original_live(self) -> dict[str, dict[str, t.Any]]:
        """Return how the interfaces were before this collection came."""
        return self._journal().get("live") or {}

    def forget(self) -> None:
        """Take the records away: everything is as it was before."""
        for name in ("provisioned.json", "original/journal.json"):
            (self.directory / name).unlink(missing_ok=True)
        shutil.rmtree(self.directory / "original", ignore_errors=True)
        if self.directory.is_dir():
            managed_file.sync_directory(os.fspath(self.directory))
