# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the files that a user names to ``explain``, and open them when they are read: a folder is a netplan tree, a set of logs, or both."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain import NetplanTree, TextFile
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.text_file import lines

#: Lowest first: a file of the same name in a later one replaces it (netplan(5)).
NETPLAN_FOLDERS = ("usr/lib/netplan", "lib/netplan", "etc/netplan", "run/netplan", "")
FOLDER_LIMIT = 1000


def inputs(paths: Iterable[str | None]) -> list[TextFile | NetplanTree]:
    """Return what is to be explained, in the order given.

    :raises FabricError: when a path does not exist or cannot be read; the text names it
    """
    found: list[TextFile | NetplanTree] = []
    for place, name in enumerate(paths, start=1):
        if not name or not str(name).strip():
            raise FabricError(f"explain_files: entry {place} is empty; expected the name of a file or folder: name one, or remove the entry.")
        path = pathlib.Path(name).expanduser()
        if path.is_dir():
            found.extend(_folder(name, path))
        else:
            found.append(TextFile(str(name), lines(_checked(name, path))))
    if not found:
        raise FabricError('explain_files is empty: name at least one file, for example -e \'{"explain_files": ["nccl.log"]}\'.')
    return found


def check_out(out: str, paths: Iterable[str]) -> None:
    """Refuse a file for the findings that is one of the files to be explained, whatever its name, or lies in a folder of them.

    :raises FabricError: naming both
    """
    target = pathlib.Path(out).expanduser()
    for name in paths:
        path = pathlib.Path(name).expanduser()
        inside = path.is_dir() and path.resolve() in target.resolve().parents
        if inside or (target.exists() and path.exists() and target.samefile(path)):
            raise FabricError(
                f"explain_out: {out} {'lies in' if inside else 'is'} {name}, which explain_files names; the findings would take the place of a log: "
                "name a file elsewhere."
            )


def _checked(name: str, path: pathlib.Path) -> pathlib.Path:
    """Open a file once, so that every name is known to be good before the first file is read."""
    if path.exists() and not path.is_file():
        raise FabricError(f"explain_files: {name} is no regular file; give a file, or a folder with files.")
    try:
        with path.open("rb"):
            return path
    except FileNotFoundError:
        raise FabricError(f"explain_files: {name} does not exist (looked at {path.absolute()}); relative paths start at the current directory.") from None
    except OSError as error:
        raise FabricError(f"explain_files: {name} cannot be read: {error.strerror or error}; make it readable for the user who runs Ansible.") from None


def _folder(name: str, path: pathlib.Path) -> Iterator[TextFile | NetplanTree]:
    merged: dict[str, str] = {}
    taken: set[pathlib.Path] = set()
    try:
        for folder in NETPLAN_FOLDERS:
            for file in sorted((path / folder).glob("*.y*ml")):
                if file.suffix in (".yaml", ".yml") and file.is_file() and "network" in (text := file.read_text(encoding="utf-8", errors="replace")):
                    merged[file.name] = text
                    taken.add(file)
        others = [file for file in sorted(path.rglob("*")) if file.is_file() and file not in taken and not file.name.startswith(".")]
    except OSError as error:
        raise FabricError(f"explain_files: the folder {name} cannot be read: {error}.") from None
    if len(others) > FOLDER_LIMIT:
        raise FabricError(f"explain_files: the folder {name} has {len(others)} files, at most {FOLDER_LIMIT} are explained at once; name them.")
    if not merged and not others:
        raise FabricError(f"explain_files: the folder {name} is empty.")
    if merged:
        yield NetplanTree(str(name), tuple(merged.items()))
    for file in others:
        yield TextFile(f"{name.rstrip('/')}/{file.relative_to(path)}", lines(_checked(str(file), file)))
