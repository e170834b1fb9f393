# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Mask in text what may open a door: tokens, passwords, keys. What is masked stays recognisable as such, its value is gone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MASK = "<masked>"
_WORD = r"[A-Za-z0-9_.-]{0,60}?(?:token|secret|passw(?:or)?d|passphrase|api_?key|access_?key|private_?key|credential|psk|auth)s?[A-Za-z0-9_]{0,20}"
PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|$)", re.DOTALL), MASK),
    (re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@]{0,100}:)[^\s@/]{1,300}@"), r"\1" + MASK + "@"),
    (re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]{8,}"), r"\1 " + MASK),
    (re.compile(rf"(?i)(?<![A-Za-z0-9_.-])({_WORD})(\s*[\"']?\s*[=:]\s*[\"']?)(?!\s|{MASK})[^\s\"',;}}\]]+"), r"\1\2" + MASK),
    (
        re.compile(
            r"\b(?:hf_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{10,}|github_pat_\w{10,}|glpat-[\w-]{10,}|sk-[\w-]{10,}|nvapi-[\w-]{10,}|xox[a-z]-[\w-]{10,}"
            r"|AKIA[0-9A-Z]{12,}|eyJ[\w-]{8,}\.[\w-]{4,}\.[\w-]{4,})"
        ),
        MASK,
    ),
)


def mask(text: str) -> str:
    """Return the text with secrets replaced."""
    for pattern, replacement in PATTERNS:
        text = pattern.sub(replacement, text)
    return text


def mask_data(value: Any) -> Any:
    """Return plain data with secrets replaced in every text; a value whose key names a secret goes as a whole."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {key: mask_data(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [mask_data(entry) for entry in value]
    return value
