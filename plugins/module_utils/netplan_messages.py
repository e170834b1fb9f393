# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ``netplan generate`` and ``netplan apply`` say: notes on permissions, conflicts, errors. Pure: lines in, records out."""

from __future__ import annotations

import dataclasses
import re
import typing as t

OPEN_FILE = re.compile(r"Permissions for (?P<file>\S{1,400}) are too open", re.ASCII)
TWO_DEFAULTS = re.compile(r"Conflicting default route declarations for (?P<family>IPv[46])(?P<rest>.{0,200})", re.ASCII)
ERROR = re.compile(
    r"(?:(?P<file>[^\s:]{1,400}\.yaml):(?P<line>\d{1,6}):(?P<column>\d{1,6}): )?(?P<text>(?:Error in network definition|Invalid YAML)\b.{0,300}|"
    r"unknown renderer '.{0,40}'.{0,60}|.{0,100}missing /prefixlength.{0,60})",
    re.ASCII,
)


@dataclasses.dataclass(frozen=True, slots=True)
class NetplanMessage:
    """One message: ``kind`` is "open_file" (a note), "two_defaults" or "error"."""

    kind: str
    text: str
    file: str | None = None
    line: int | None = None


def messages(lines: t.Iterable[str]) -> list[NetplanMessage]:
    """Return the messages; netplan exits 0 with the first two kinds."""
    found: dict[tuple[str, str], NetplanMessage] = {}
    for line in lines:
        if match := OPEN_FILE.search(line):
            message = NetplanMessage("open_file", line.strip()[:400], match["file"])
        elif match := TWO_DEFAULTS.search(line):
            message = NetplanMessage("two_defaults", match[0].strip())
        elif match := ERROR.search(line):
            message = NetplanMessage("error", match["text"].strip(), match["file"], int(match["line"]) if match["line"] else None)
        else:
            continue
        found.setdefault((message.kind, message.text), message)
    return list(found.values())[:200]
