# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Take definitions out of a netplan file, and leave every other line as it is. Pure functions of text.

People write netplan files in block style, where a definition is a line and the lines further in below it. Those are cut out, so
that comments and order of the rest stay. A file in another style (``network: {…}``) is not understood here; the caller then
writes what netplan read from it. Either way netplan has to confirm that nothing else changed: a cut is a proposal.
"""

from __future__ import annotations

import re
import typing as t

Key = tuple[str, str]
"""Kind and identifier of a definition: ("ethernets", "enp1s0f0np0")."""

ENTRY = re.compile(r"""^(?P<indent> *)(?P<key>"[^"]*"|'[^']*'|[^\s#"'{}\[\]-][^#:]*|[^\s#"'{}\[\]][^\s#]*?)\s*:(?:\s+(?P<rest>[^#\s].*?))?\s*(?:\s#.*)?$""")


class _Place(t.NamedTuple):
    """One line that holds something: where it stands, how far in, and its key if it has one."""

    number: int
    indent: int
    key: str | None
    rest: str


def _places(lines: t.Sequence[str]) -> list[_Place]:
    found = []
    for number, line in enumerate(lines):
        stripped = line.strip()
        if not stripped or stripped.startswith("#") or stripped in ("---", "..."):
            continue
        match = ENTRY.match(line.rstrip("\r\n"))
        indent = len(line) - len(line.lstrip(" "))
        found.append(_Place(number, indent, match["key"].strip("\"'") if match else None, (match["rest"] or "") if match else stripped))
    return found


def _children(places: t.Sequence[_Place], parent: int) -> list[tuple[int, int]]:
    """Return ``(first, after the last)`` indexes of the direct children of the place at index ``parent``."""
    depth = places[parent].indent
    inside = parent + 1
    while inside < len(places) and places[inside].indent > depth:
        inside += 1
    if inside == parent + 1:
        return []
    level = places[parent + 1].indent
    starts = [index for index in range(parent + 1, inside) if places[index].indent == level]
    return list(zip(starts, [*starts[1:], inside], strict=True))


class _Kind(t.NamedTuple):
    """One kind of a file: the number of its line, and first line and line after the last of each of its definitions."""

    line: int
    name: str
    definitions: dict[str, tuple[int, int]]
    understood: bool  # all that stands below it is in definitions


def _kinds(lines: t.Sequence[str]) -> list[_Kind]:
    places = _places(lines)
    found = []
    for top, place in enumerate(places):
        if place.indent or place.key != "network" or place.rest:
            continue
        for kind, _end in _children(places, top):
            if places[kind].key is not None and not places[kind].rest:
                children = _children(places, kind)
                entries = {str(places[first].key): (places[first].number, places[after - 1].number + 1)
                           for first, after in children if places[first].key is not None}
                found.append(_Kind(places[kind].number, str(places[kind].key), entries, len(entries) == len(children)))
    return found


def definitions(text: str) -> set[Key]:
    """Return kind and identifier of the definitions of a file in block style; nothing for what is written in another style."""
    return {(kind.name, name) for kind in _kinds(text.splitlines(keepends=True)) for name in kind.definitions}


def without(text: str, keys: t.Collection[Key]) -> str | None:
    """Return the text without the definitions ``keys``; ``None`` where they are not found in block style.

    A kind (``ethernets:``) of which nothing is left goes too. Comments between definitions stay.
    """
    lines = text.splitlines(keepends=True)
    left = set(keys)
    gone: set[int] = set()
    for kind in _kinds(lines):
        cut = [name for name in kind.definitions if (kind.name, name) in left]
        for name in cut:
            gone.update(range(*kind.definitions[name]))
        left -= {(kind.name, name) for name in cut}
        if cut and len(cut) == len(kind.definitions) and kind.understood:
            gone.add(kind.line)
    return None if left else "".join(line for number, line in enumerate(lines) if number not in gone)
