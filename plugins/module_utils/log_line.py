# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Strip from a line of a log what launchers and loggers put in front of it. Pure functions of text."""

from __future__ import annotations

import re
import typing as t

#: A longer line is no line of a tool; it is cut, so that a file without line ends costs no memory.
LINE_LIMIT = 16384

#: ``mpirun --tag-output``: ``[1,0]<stdout>:`` (Open MPI 4), ``[prterun-node1-17@1,0]<stdout>: `` (5).
TAG = re.compile(r"\[(?P<prrte>[^\s\[\]]{1,200}@)?(?P<job>\d{1,9}),(?P<rank>\d{1,9})\]<(?:stdout|stderr|stddiag)>:(?(prrte) |)", re.ASCII)
TIMESTAMP = re.compile(
    r"(?:\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
    r"|\[\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\]|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?= ))(?: |$)",
    re.ASCII,
)
ANSI = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]")
_MAY_HAVE_PREFIX = frozenset("[0123456789")


class Line(t.NamedTuple):
    """A line without its prefixes. ``origin`` is the rank that wrote it, as ``job,rank``; "" when no tag says so."""

    origin: str
    text: str


def clean(raw: str) -> Line:
    """Return the line without line end, colours, mpirun's tag and a time in front. What stands in the line stays."""
    text = raw[:LINE_LIMIT].rstrip("\r\n")
    if "\x1b" in text:
        text = ANSI.sub("", text)
    if "\r" in text:
        text = text.rpartition("\r")[2]  # a progress display: the last state counts
    origin = ""
    for _round in range(3):  # tag and time, in either order
        if not text or text[0] not in _MAY_HAVE_PREFIX:
            break
        match = TAG.match(text)
        if match:
            origin = f"{match['job']},{match['rank']}"
        else:
            match = TIMESTAMP.match(text)
            if match is None:
                break
        text = text[match.end() :]
    return Line(origin, text)
