# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors that speak to the person who wrote the inventory."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

SHOWN_LENGTH = 80


class FabricError(ValueError):
    """The inventory cannot be turned into a plan; the text names the variable, the host or cable and the way out."""


def shown(value: object) -> str:
    """Return a short text form of any value for an error message."""
    try:
        text = repr(str(value)) if isinstance(value, str) else repr(value)
    except (ValueError, RecursionError):  # numbers of thousands of digits, lists nested without end
        text = f"a {type(value).__name__} too large to show"
    return text if len(text) <= SHOWN_LENGTH else text[: SHOWN_LENGTH - 3] + "..."


def closest(word: object, known: Iterable[str]) -> str:
    """Return ``; did you mean X?`` for a misspelt word, or nothing when no known word is near."""
    if not isinstance(word, str):
        return ""
    matches = difflib.get_close_matches(str(word), sorted(known), n=1, cutoff=0.6)
    return f"; did you mean {matches[0]}?" if matches else ""
