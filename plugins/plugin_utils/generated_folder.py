# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A folder on the controller that holds generated files: what differs from the wanted content, and making it so."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FILE_MODE = 0o644


@dataclass(frozen=True)
class Change:
    """One file that differs; ``before`` is None where it does not exist, ``after`` None where it has to go."""

    path: str
    before: str | None
    after: str | None


def differences(folder: Path, wanted: Mapping[str, str], mark: str) -> list[Change]:
    """Return what differs between the folder and the wanted files (content by relative path), in the order of the paths.

    Files one level down that begin with ``mark`` and are no longer wanted count as left over; nothing else is looked at. Raises OSError when
    something cannot be read.
    """
    changes = []
    for name, content in wanted.items():
        before = _text(folder / name)
        if before != content:
            changes.append(Change(name, before, content))
    levels = {len(Path(name).parts) for name in wanted}
    if 2 in levels and folder.is_dir():
        names = {Path(name).name for name in wanted if len(Path(name).parts) == 2}
        for path in folder.glob("*/*"):
            name = str(path.relative_to(folder))
            if path.name in names and name not in wanted and not path.is_symlink() and (_text(path) or "").startswith(mark):
                changes.append(Change(name, _text(path), None))
    return sorted(changes, key=lambda change: change.path)


def apply(folder: Path, changes: list[Change]) -> None:
    """Write or remove the files; each is replaced as a whole, so that a reader never sees half of one. Raises OSError."""
    for change in changes:
        path = folder / change.path
        if change.after is None:
            path.unlink()
            if not any(path.parent.iterdir()):
                path.parent.rmdir()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                stream.write(change.after)
            os.chmod(temporary, FILE_MODE)
            os.replace(temporary, path)
        except OSError:
            os.unlink(temporary)
            raise


def _text(path: Path) -> str | None:
    """Return a file's text, or None when there is none; bytes that are no UTF-8 make a text that equals no wanted one."""
    try:
        return path.read_text(encoding="utf-8", errors="backslashreplace")
    except FileNotFoundError:
        return None
