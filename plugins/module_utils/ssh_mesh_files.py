# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of one user by which nodes reach each other: a key pair and a known_hosts file of its own, and a block in two files of the user's.

Everything outside the block between the two marks is the user's, and stays as it is.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import stat
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils import managed_file

BEGIN = "# BEGIN dgxspark.fabric: written by the collection, changes are overwritten"
END = "# END dgxspark.fabric"
KEY = ".ssh/dgxspark_fabric_ed25519"
KNOWN_HOSTS = ".ssh/dgxspark_fabric_known_hosts"
AUTHORIZED_KEYS = ".ssh/authorized_keys"
CONFIG = ".ssh/config"
HOST_KEYS = "etc/ssh"
Lines = list[str]


class SshMeshError(RuntimeError):
    """A file of the user's cannot be used; the text names it and says what to do."""


def block(text: str, path: str = "") -> Lines:
    """Return the lines of our block, without its marks; none when there is no block.

    Raises:
        SshMeshError: The block's end is missing.
    """
    lines = text.splitlines()
    if BEGIN not in lines:
        return []
    first = lines.index(BEGIN)
    if END not in lines[first:]:
        raise SshMeshError(f"{path or 'the file'} holds the line {BEGIN!r} without {END!r} after it: remove our lines there by hand, then run again")
    return lines[first + 1:lines.index(END, first)]


def with_block(text: str, wanted: Lines, top: bool = False, path: str = "") -> str:
    """Return the text with our block as wanted, where it stands already, else at the top or the end. No lines take the block away.

    Raises:
        SshMeshError: The block's end is missing.
    """
    lines = text.splitlines(keepends=True)
    bare = [line.rstrip("\r\n") for line in lines]
    new = [f"{line}\n" for line in (BEGIN, *wanted, END)] if wanted else []
    block(text, path)
    if BEGIN in bare:
        first = bare.index(BEGIN)
        return "".join([*lines[:first], *new, *lines[bare.index(END, first) + 1:]])
    if not new:
        return text
    if top:
        return "".join([*new, *lines])
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    return "".join([*lines, *new])


def host_keys(root: str = "/") -> Lines:
    """Return the public host keys of a node, "type base64", in a stable order."""
    found = []
    for file in sorted((pathlib.Path(root) / HOST_KEYS).glob("ssh_host_*_key.pub")):
        fields = file.read_text(encoding="ascii", errors="replace").split()
        if len(fields) >= 2:
            found.append(" ".join(fields[:2]))
    return found


class UserFiles:
    """The ssh files below one home directory."""

    def __init__(self, home: str) -> None:
        self.home = pathlib.Path(home)

    def path(self, name: str) -> str:
        """Return where a file really is: people keep these as links to a repository of theirs."""
        return os.path.realpath(self.home / name)

    def text(self, name: str) -> str:
        """Return a file's text, empty when there is none.

        Raises:
            managed_file.FileError: It cannot be read.
        """
        return managed_file.read(self.path(name)).text

    def public_key(self) -> str | None:
        """Return the public key "type base64", or ``None`` when the pair is not there."""
        if not (self.home / KEY).is_file():
            return None
        fields = self.text(f"{KEY}.pub").split()
        return " ".join(fields[:2]) if len(fields) >= 2 else None

    def state(self) -> dict[str, t.Any]:
        """Return what our parts of the files say now.

        Raises:
            SshMeshError: A block is damaged.
            managed_file.FileError: A file cannot be read.
        """
        return {
            "public_key": self.public_key(),
            "authorized_keys": block(self.text(AUTHORIZED_KEYS), self.path(AUTHORIZED_KEYS)),
            "config": block(self.text(CONFIG), self.path(CONFIG)),
            "known_hosts": self.text(KNOWN_HOSTS).splitlines(),
            "too_open": self.too_open(),
        }

    def too_open(self) -> Lines:
        """Return the paths whose permissions make ssh or sshd ignore them (sshd_config(5): StrictModes)."""
        found = []
        for name, mask in (("", 0o022), (".ssh", 0o022), (AUTHORIZED_KEYS, 0o022), (CONFIG, 0o022), (KEY, 0o077)):
            with contextlib.suppress(OSError):
                if stat.S_IMODE(os.stat(self.home / name).st_mode) & mask:
                    found.append(str(self.home / name))
        return found

    def _put(self, name: str, text: str, mode: int) -> bool:
        state = managed_file.read(self.path(name))
        if state.text == text and (state.content is not None or not text):
            return False
        if not text and name == KNOWN_HOSTS:
            managed_file.remove(self.path(name))
        else:
            managed_file.write(self.path(name), text.encode(), state.mode if state.mode is not None else mode)
        return True

    def write(self, authorized_keys: Lines, known_hosts: Lines, config: Lines) -> Lines:
        """Make our parts of the files as wanted; return the paths that changed.

        Raises:
            SshMeshError: A block is damaged.
            managed_file.FileError: A file cannot be written.
        """
        (self.home / ".ssh").mkdir(mode=0o700, exist_ok=True)
        # known_hosts before the configuration that names it, so that there is never a host without its key.
        wanted = (
            (KNOWN_HOSTS, "".join(f"{line}\n" for line in known_hosts), 0o600),
            (AUTHORIZED_KEYS, with_block(self.text(AUTHORIZED_KEYS), authorized_keys, path=self.path(AUTHORIZED_KEYS)), 0o600),
            (CONFIG, with_block(self.text(CONFIG), config, top=True, path=self.path(CONFIG)), 0o600),
        )
        changed = [self.path(name) for name, text, mode in wanted if self._put(name, text, mode)]
        for name in (".ssh", AUTHORIZED_KEYS, CONFIG, KEY):
            path = self.home / name
            if str(path) in self.too_open():
                os.chmod(path, 0o700 if name == ".ssh" else 0o600)
                changed.append(str(path))
        return changed

    def remove(self) -> Lines:
        """Take our parts away, the key pair too; return the paths that changed.

        Raises:
            SshMeshError: A block is damaged.
            managed_file.FileError: A file cannot be written.
        """
        if not (self.home / ".ssh").is_dir():
            return []
        changed = []
        for name in (AUTHORIZED_KEYS, CONFIG):
            text = self.text(name)
            if BEGIN in text.splitlines():
                left = with_block(text, [], path=self.path(name))
                changed.append(self.path(name))
                if left:
                    managed_file.write(self.path(name), left.encode(), managed_file.read(self.path(name)).mode or 0o600)
                else:
                    managed_file.remove(self.path(name))
        for name in (KNOWN_HOSTS, KEY, f"{KEY}.pub"):
            if (self.home / name).exists():
                managed_file.remove(str(self.home / name))
                changed.append(str(self.home / name))
        return changed
