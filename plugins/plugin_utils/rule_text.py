# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The sentences of a rule: ``{placeholders}`` filled from the facts of a subject.

Only plain dotted names are looked up, never attributes or calls, so a rule's text can read facts and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)*)\}")

#: Placeholders that the evaluation itself provides, for every scope.
OWN_NAMES = frozenset({"actual", "expected", "unit", "warn", "fail", "title", "subject"})

UNKNOWN = "unknown"


def placeholders(template: str) -> list[str]:
    """Return the names used in a template, in order and without repetition."""
    return list(dict.fromkeys(PLACEHOLDER.findall(template)))


def value_text(value: Any) -> str:
    """Return a value as people read it: lists joined, numbers rounded to what matters, null as ``unknown``."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, (list, tuple)):
        return ", ".join(value_text(entry) for entry in value) or "none"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {value_text(entry)}" for key, entry in value.items())
    return str(value)


def number_text(value: float) -> str:
    """Return a number with three significant digits at least: 213.4, 97.9, 9.87, 0.0551."""
    if value == 0:
        return "0.00"
    if abs(value) >= 10:
        return f"{value:.1f}"
    if abs(value) >= 1:
        return f"{value:.2f}"
    return f"{value:.3f}" if abs(value) >= 0.1 else f"{value:.3g}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 cable, 2 cables."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def lookup(facts: Mapping[str, Any], name: str) -> Any:
    """Return the fact at a dotted name, or None where the path ends early."""
    value: Any = facts
    for part in name.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def fill(template: str, names: Mapping[str, str]) -> str:
    """Replace every placeholder by its text; one without a text reads ``unknown``."""
    text = PLACEHOLDER.sub(lambda match: names.get(match.group(1), UNKNOWN), template)
    # Names of nodes and interfaces keep their case; of our own words only this one can begin a sentence.
    return f"Cable {text[6:]}" if text.startswith("cable ") else text
