# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Kinds of values that fabric variables can have: each accepts or refuses any object, and says what it expects.

Inventories in INI form and ``-e name=value`` deliver every value as text, so whole numbers, numbers and truth values are also
taken from text that spells them. Nothing else is converted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

TRUTH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
MAX_NESTING = 20
LARGEST_WHOLE = 10**18


class Unfit(Exception):
    """A value is not of the wanted kind; the text, if any, says what is wrong beyond what the kind expects."""


@dataclass(frozen=True)
class Kind:
    """A kind of value: what it expects in words, and the function that returns the plain value or raises Unfit."""

    expected: str
    take: Callable[[object], Any]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise Unfit
    return str(value)


def _whole(value: object) -> int:
    if isinstance(value, bool):
        raise Unfit
    if isinstance(value, int):
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
        return int(value)
    raise Unfit


def _number(value: object) -> float:
    if isinstance(value, bool):
        raise Unfit
    if isinstance(value, str):
        if not re.fullmatch(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", value):
            raise Unfit
        return float(value)
    if isinstance(value, int) and abs(value) > LARGEST_WHOLE:
        raise Unfit
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        raise Unfit
    return float(value)


def whole(low: int, high: int) -> Kind:
    """Return the kind of whole numbers from low to high."""

    def take(value: object) -> int:
        number = _whole(value)
        if not low <= number <= high:
            raise Unfit
        return number

    return Kind(f"a whole number from {low} to {high}", take)


def number(low: float, high: float) -> Kind:
    """Return the kind of numbers above low and up to high."""

    def take(value: object) -> float:
        taken = _number(value)
        if not low < taken <= high:
            raise Unfit
        return taken

    return Kind(f"a number above {low:g} and at most {high:g}", take)


def truth() -> Kind:
    """Return the kind of truth values."""

    def take(value: object) -> bool:
        if isinstance(value, bool):
            return bool(value)
        if isinstance(value, str) and value.lower() in TRUTH:
            return TRUTH[value.lower()]
        raise Unfit

    return Kind("true or false", take)


def choice(*names: str) -> Kind:
    """Return the kind of texts out of a fixed list."""

    def take(value: object) -> str:
        word = _text(value)
        if word not in names:
            raise Unfit
        return word

    return Kind("one of " + ", ".join(names), take)


def text(pattern: str, expected: str) -> Kind:
    """Return the kind of texts that match a regular expression as a whole."""

    def take(value: object) -> str:
        word = _text(value)
        if not re.fullmatch(pattern, word):
            raise Unfit
        return word

    return Kind(f"{expected} (text; quote it)", take)


def nothing_or(kind: Kind) -> Kind:
    """Return a kind that also accepts null."""
    return Kind(f"{kind.expected}, or null", lambda value: None if value is None else kind.take(value))


def list_of(kind: Kind, empty: bool = True) -> Kind:
    """Return the kind of lists whose entries are of one kind, as tuples."""

    def take(value: object) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)) or (not value and not empty):
            raise Unfit
        return tuple(kind.take(entry) for entry in value)

    return Kind(f"a {'' if empty else 'non-empty '}list, each entry {kind.expected}", take)


def plain(value: object, depth: int = 0) -> Any:
    """Return nested plain data (null, truth values, numbers, texts, lists and mappings with text keys) or raise Unfit."""
    if depth > MAX_NESTING:
        raise Unfit
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        if abs(value) > LARGEST_WHOLE:
            raise Unfit
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Unfit
        return float(value)
    if isinstance(value, (list, tuple)):
        return [plain(entry, depth + 1) for entry in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise Unfit
        return {str(key): plain(entry, depth + 1) for key, entry in value.items()}
    raise Unfit


def mappings() -> Kind:
    """Return the kind of lists of mappings of plain data."""

    def take(value: object) -> list[dict[str, Any]]:
        if not isinstance(value, (list, tuple)) or not all(isinstance(entry, Mapping) for entry in value):
            raise Unfit
        return [plain(entry, 1) for entry in value]

    return Kind("a list of mappings of plain data (texts, numbers, true or false, null, lists, mappings with text keys)", take)


def text_or_mapping() -> Kind:
    """Return the kind of values that are one text or one mapping of plain data."""

    def take(value: object) -> Any:
        if not isinstance(value, (str, Mapping)):
            raise Unfit
        return plain(value)

    return Kind("a text or a mapping of plain data", take)


def environment() -> Kind:
    """Return the kind of mappings from the name of an environment variable to its value, or to null to leave it out."""

    def take(value: object) -> dict[str, str | None]:
        if not isinstance(value, Mapping):
            raise Unfit
        taken: dict[str, str | None] = {}
        for name, entry in value.items():
            if not isinstance(name, str) or not re.fullmatch(r"[A-Z][A-Z0-9_]{0,63}", name):
                raise Unfit
            if entry is None:
                taken[str(name)] = None
            elif isinstance(entry, str) and re.fullmatch(r"[A-Za-z0-9_.,:=^/+@%-]{0,512}", entry):
                taken[str(name)] = str(entry)
            elif isinstance(entry, int) and not isinstance(entry, bool) and abs(entry) <= LARGEST_WHOLE:
                taken[str(name)] = str(int(entry))
            else:
                raise Unfit
        return taken

    return Kind("a mapping {NAME: value}; a value is a number or a text without blanks or quotes, or null to leave the variable out", take)


def rates() -> Kind:
    """Return the kind of rates in Gb/s: one number, or a mapping {tests at once in the cluster: number}."""

    def take(value: object) -> tuple[tuple[int, float], ...]:
        if isinstance(value, Mapping):
            if not value:
                raise Unfit
            taken = {}
            for key, entry in value.items():
                at_once, rate = _whole(key), _number(entry)
                if not 1 <= at_once <= 100000 or not 0 < rate <= 10000:
                    raise Unfit
                taken[at_once] = rate
            return tuple(sorted(taken.items()))
        rate = _number(value)
        if not 0 < rate <= 10000:
            raise Unfit
        return ((1, rate),)

    return Kind("a number of Gb/s above 0, or a mapping {tests at once in the cluster: Gb/s}", take)
