# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read and write managed files: never half written, never readable by others before they are complete."""

from __future__ import annotations

import contextlib
import os
import pathlib
import stat
import typing as t
from dataclasses import dataclass


@dataclass(frozen=True)
class FileState:
    """A file as found. ``content`` is ``None`` when there is none."""

    path: str
    content: bytes | None = None
    mode: int | None = None
    owner: int | None = None
    group: int | None = None

    @property
    def text(self) -> str:
        """Return the content for a diff."""
        return (self.content or b"").decode("utf-8", "replace")


class FileError(RuntimeError):
    """A managed path cannot be read or written; the text names it."""


def read(path: str) -> FileState:
    """Return a file's content, mode and owner.

    Raises:
        FileError: The path is a link, a directory, or not readable.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return FileState(path)
    except OSError as exc:
        raise FileError(f"{path}: {exc.strerror}") from exc
    if not stat.S_ISREG(status.st_mode):
        raise FileError(f"{path} is not a plain file (a link or directory): move it away, or choose another path")
    try:
        content = pathlib.Path(path).read_bytes()
    except OSError as exc:
        raise FileError(f"{path}: {exc.strerror}") from exc
    return FileState(path, content, stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)


def sync_directory(path: str) -> None:
    """Make a rename in a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: str) -> None:
    """Take a file away; nothing happens when there is none.

    Raises:
        FileError: It cannot be removed.
    """
    try:
        os.unlink(path)
        sync_directory(os.path.dirname(path))
    except FileNotFoundError:
        return
    except OSError as exc:
        raise FileError(f"{path} cannot be removed: {exc.strerror}") from exc


def write(path: str, content: bytes, mode: int, owner: tuple[int, int] | None = None) -> None:
    """Write a file whole or not at all: a temporary file, fsync, rename, fsync of the directory.

    Args:
        path: The file.
        content: Its bytes.
        mode: Its permissions.
        owner: User and group; default the calling user's.

    Raises:
        FileError: The directory is missing or the disk full; the old file stays as it was.
    """
    # netplan reads *.yaml only, so a temporary file that a crash leaves is not configuration.
    temporary = f"{path}.dgxspark-new"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            with os.fdopen(descriptor, "wb") as handle:
                handle.write(content)
                handle.flush()
                if owner is not None:
                    os.fchown(handle.fileno(), *owner)
                os.fchmod(handle.fileno(), mode)
                os.fsync(handle.fileno())
            os.rename(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        sync_directory(os.path.dirname(path))
    except OSError as exc:
        raise FileError(f"{path} cannot be written: {exc.strerror}") from exc


def differs(state: FileState, content: bytes | None, mode: int, owner: int = 0) -> bool:
    """Tell whether a file's content, mode or owner is not as wanted; no content means that it is to be absent."""
    if content is None:
        return state.content is not None
    return state.content != content or state.mode != mode or state.owner != owner


def file_diff(state: FileState, content: bytes | None, mode: int, owner: int = 0) -> dict[str, t.Any] | None:
    """Return an Ansible diff of a file, its mode first; ``None`` when nothing differs."""
    if not differs(state, content, mode, owner):
        return None
    before = "" if state.content is None else f"# mode {state.mode:04o}, owner {state.owner}\n{state.text}"
    after = "" if content is None else f"# mode {mode:04o}, owner {owner}\n{content.decode('utf-8', 'replace')}"
    return {
        "before_header": state.path if state.content is not None else f"{state.path} (absent)",
        "after_header": state.path if content is not None else f"{state.path} (absent)",
        "before": before,
        "after": after,
    }
