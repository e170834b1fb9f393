# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the YAML that ``netplan get`` prints.

Nodes have no YAML library that one may count on, and ``netplan get`` prints one canonical form (the block style of libyaml):
mappings, sequences of scalars or mappings, plain and quoted scalars, and empty flow collections. That form is read here;
anything else is an error, never a guess. Files of users are not read with this: netplan itself reads those.
"""

from __future__ import annotations

import json
import re
import typing as t

Value = t.Any


class NetplanYamlError(ValueError):
    """The text is not in the form that ``netplan get`` prints."""


KEY = re.compile(r"""^(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'\[\]{}&*!|>%@`#,-][^#]*?|-[^\s#][^#]*?)\s*:(?:\s+(?P<rest>.*))?$""")
INTEGER = re.compile(r"^[-+]?[0-9]+$")
WORDS = {"true": True, "false": False, "yes": True, "no": False, "on": True, "off": False, "null": None, "~": None}


def scalar(text: str) -> Value:
    """Return the value of one scalar: a quoted one is a string, a plain one may be a number, a truth value or null."""
    text = text.strip()
    if text.startswith('"'):
        try:
            return json.loads(text)
        except ValueError as exc:
            raise NetplanYamlError(f"quoted value {text!r} is not understood") from exc
    if text.startswith("'") and text.endswith("'") and len(text) > 1:
        return text[1:-1].replace("''", "'")
    if text in ("[]", "{}"):
        return [] if text == "[]" else {}
    if text.startswith("[") and text.endswith("]"):
        return [scalar(item) for item in text[1:-1].split(",") if item.strip()]
    if text[:1] in ("{", "&", "*", "!", "|", ">"):
        raise NetplanYamlError(f"value {text!r} is not in the form that netplan get prints")
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    return int(text) if INTEGER.match(text) else text


class _Lines:
    def __init__(self, text: str) -> None:
        self.lines: list[tuple[int, str]] = []
        for raw in text.splitlines():
            stripped = raw.strip()
            if stripped and not stripped.startswith("#") and stripped not in ("---", "..."):
                self.lines.append((len(raw) - len(raw.lstrip(" ")), stripped))
        self.at = 0

    def peek(self) -> tuple[int, str] | None:
        return self.lines[self.at] if self.at < len(self.lines) else None


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _block(lines: _Lines, indent: int) -> Value:
    first = lines.peek()
    if first is None or first[0] < indent:
        return None
    return _sequence(lines, first[0]) if _is_item(first[1]) else _mapping(lines, first[0])


def _sequence(lines: _Lines, indent: int) -> list[Value]:
    items: list[Value] = []
    while (line := lines.peek()) is not None and line[0] == indent and _is_item(line[1]):
        rest = line[1][1:].strip()
        if not rest:
            lines.at += 1
            items.append(_block(lines, indent + 1))
        elif KEY.match(rest):
            # "- to: default": the mapping begins on the line of the dash, two columns further in.
            lines.lines[lines.at] = (indent + line[1].index(rest), rest)
            items.append(_mapping(lines, lines.lines[lines.at][0]))
        else:
            lines.at += 1
            items.append(scalar(rest))
    return items


def _mapping(lines: _Lines, indent: int) -> dict[str, Value]:
    found: dict[str, Value] = {}
    while (line := lines.peek()) is not None and line[0] == indent and not _is_item(line[1]):
        match = KEY.match(line[1])
        if match is None:
            raise NetplanYamlError(f"line {line[1]!r} is neither a key nor a list entry")
        key = str(scalar(match["key"])) if match["key"][0] in "\"'" else match["key"]
        lines.at += 1
        if match["rest"]:
            found[key] = scalar(match["rest"])
            continue
        following = lines.peek()
        # A list may stand at the indent of its key.
        deeper = following is not None and (following[0] > indent or (following[0] == indent and _is_item(following[1])))
        found[key] = _block(lines, following[0]) if deeper and following is not None else None
    line = lines.peek()
    if line is not None and line[0] > indent:
        raise NetplanYamlError(f"line {line[1]!r} stands too far to the right")
    return found


def parse(text: str) -> dict[str, Value]:
    """Return what stands under ``network:`` in the text of ``netplan get``; an empty mapping when nothing is configured.

    Raises:
        NetplanYamlError: The text has another form.
    """
    if text.strip() in ("", "{}", "null"):
        return {}
    lines = _Lines(text)
    value = _block(lines, 0)
    if lines.peek() is not None or not isinstance(value, dict):
        raise NetplanYamlError(f"netplan get printed something else than a mapping: {text.strip()[:80]!r}")
    network = value.get("network", value)
    return network if isinstance(network, dict) else {}
