# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nothing secret leaves: what a report may not hold, taken out of all its texts.

Passwords, tokens and keys are always masked. MAC addresses, GUIDs and serial numbers are replaced on request, each by a name
of its own that is the same wherever it appears, so that a redacted report can still be read and judged again.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

MASK = "[masked]"

#: What tells a secret in a text from a word: "auth: failed" must not mask every "failed".
NO_WORD = re.compile(r"[0-9_+/=$!@#%^&*~]|(?<=[a-z])[A-Z]")

#: A value this short is no secret that could be told from other text; it is masked at its own place only.
SHORTEST_SECRET = 6

SECRET_NAME = re.compile(
    r"(?i)(?:^|[^a-z])(?:(?:[a-z0-9]+[_.-])*)"
    r"(?:pass(?:word|wd|phrase|code)?|pwd|secrets?|token|credentials?|bearer|cookie|psk|auth|authorization"
    r"|(?:api|private|access|secret|signing|encryption|license|account|auth|become|vault|ssh)[_.-]?(?:key|pass|token))"
    r"(?:[_.-](?:id|value|text|string|hash|data|file[_.-]?content|key|\d+))*$"
)
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

#: Settings that are named like a secret but never hold one.
HARMLESS_NAMES = frozenset({"pass"})

ASSIGNMENT = re.compile(
    r"""(?P<name>(?<![A-Za-z0-9_.-])(?:--?)?[A-Za-z][A-Za-z0-9_.-]*)(?P<quote>["']?)(?P<sign>\s*[=:]\s*|\s+(?=\S))(?P<value>"[^"\n]*"|'[^'\n]*'|[^\s,;&"']+)"""
)
AUTHORIZATION = re.compile(r"(?i)\b(authorization\s*[:=]\s*)((?:bearer|basic|token)\s+)?([^\s\"']+)")
BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)([A-Za-z0-9._~+/-]{12,}=*)")
USER_INFO = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@]+:)([^\s/@]+)(@)", re.IGNORECASE)
PRIVATE_KEY = re.compile(r"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL)
VAULT = re.compile(r"\$ANSIBLE_VAULT;[^\n]*(?:\n[ \t]*[0-9a-f]{10,})*")
KNOWN_TOKEN = re.compile(
    r"\b(?:gh[pousr]_[A-Za-z0-9]{10,}|github_pat_[A-Za-z0-9_]{10,}|glpat-[A-Za-z0-9_-]{10,}|hf_[A-Za-z0-9]{10,}|sk-[A-Za-z0-9_-]{16,}"
    r"|nvapi-[A-Za-z0-9_-]{10,}|xox[a-z]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}"
    r"|eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,})"
)

MAC = re.compile(r"(?<![0-9A-Fa-f:.-])(?:[0-9A-Fa-f]{2}([:-]))(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:-])")
#: The lower half of an IPv6 address that is made from a MAC address (EUI-64, RFC 4291 appendix A).
EUI64 = re.compile(r"(?<=:)([0-9A-Fa-f]{1,4}):([0-9A-Fa-f]{0,2})ff:fe([0-9A-Fa-f]{2}):([0-9A-Fa-f]{1,4})(?![0-9A-Fa-f:])", re.IGNORECASE)
GUID = re.compile(
    r"(?<![0-9A-Fa-f:.-])(?:[0-9A-Fa-f]{4}(?::[0-9A-Fa-f]{4}){3}|0x[0-9A-Fa-f]{16}"
    r"|[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"
    r"|(?:[0-9A-Fa-f]{2}:){7}[0-9A-Fa-f]{2})(?![0-9A-Fa-f:.-])"
)
GUID_NAME = re.compile(r"(?i)(?:^|[^a-z])(?:g?uuid|guid)s?$")
SERIAL_NAME = re.compile(r"(?i)(?:^|[^a-z])(?:serial(?:[_ -]?(?:number|no|num))?|sn|asset[_ -]?tag)$")
SERIAL_TEXT = re.compile(
    r"(?i)(\b(?:serial(?:[_ ]?(?:number|no|num))?|s/n|sn|asset tag)\b\]?\s*[:=#]\s*(?:serial number\s*:\s*)?)"
    r"([A-Za-z0-9][A-Za-z0-9._/-]{4,})"
)

#: Most texts of a report hold none of these words, and need no closer look.
SUSPECT = re.compile(r"(?i)pass|pwd|secret|token|cred|bearer|cookie|psk|auth|key")

#: What stands between the name and the secret of an HTTP header.
SCHEMES = frozenset({"bearer", "basic", "token"})

PLACEHOLDER = re.compile(r"^(?:mac|guid|serial)-\d+$")


def mask_secrets(document: Any) -> Any:
    """Return a copy of a document without passwords, tokens and keys.

    A secret is known by the name of its field, variable or option, or by its own form; once known, it is masked wherever it appears.
    """
    found = sorted({text for text in secret_values(document) if len(text) >= SHORTEST_SECRET}, key=len, reverse=True)
    known = re.compile("|".join(map(re.escape, found))) if found else None

    def clean(text: str) -> str:
        masked = mask_text(text)
        return known.sub(MASK, masked) if known else masked

    return mapped(document, clean, is_secret_name, lambda _name, _value: MASK)


def redact(document: Any) -> Any:
    """Return a copy of a document in which MAC addresses, GUIDs and serial numbers have names such as ``mac-1`` instead."""
    aliases = Aliases()
    serials = sorted(set(serial_values(document)), key=len, reverse=True)
    for serial in serials:
        aliases.of("serial", serial)
    known = re.compile("|".join(rf"(?<![A-Za-z0-9]){re.escape(serial)}(?![A-Za-z0-9])" for serial in serials)) if serials else None

    def clean(text: str) -> str:
        text = MAC.sub(lambda match: aliases.of("mac", match.group().replace("-", ":").lower()), text)
        text = EUI64.sub(lambda match: aliases.of("mac", mac_of(match)), text)
        text = GUID.sub(lambda match: aliases.of("guid", match.group().lower()), text)
        text = SERIAL_TEXT.sub(lambda match: match.group(1) + aliases.of("serial", match.group(2)), text)
        return known.sub(lambda match: aliases.of("serial", match.group()), text) if known else text

    def by_name(name: str, value: Any) -> str:
        return aliases.of("serial" if SERIAL_NAME.search(name) else "guid", str(value))

    return mapped(document, clean, lambda name: bool(SERIAL_NAME.search(name) or GUID_NAME.search(name)), by_name)


class Aliases:
    """Names given to values in the order in which they are met."""

    def __init__(self) -> None:
        self.names: dict[tuple[str, str], str] = {}
        self.counts: dict[str, int] = {}

    def of(self, kind: str, value: str) -> str:
        """Return the name of a value; a name itself stays as it is, so that redacting twice changes nothing."""
        if PLACEHOLDER.match(value):
            return value
        key = (kind, value)
        if key not in self.names:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self.names[key] = f"{kind}-{self.counts[kind]}"
        return self.names[key]


def mac_of(match: re.Match[str]) -> str:
    """Return the MAC address from which an interface identifier was made."""
    first, second, fourth, last = (match.group(number).rjust(width, "0").lower() for number, width in ((1, 4), (2, 2), (3, 2), (4, 4)))
    return ":".join((f"{int(first[:2], 16) ^ 2:02x}", first[2:], second, fourth, last[:2], last[2:]))


@functools.lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Tell whether a field, variable or option of this name holds a secret."""
    bare = CAMEL.sub("_", name.lstrip("-"))
    return bare.lower() not in HARMLESS_NAMES and SECRET_NAME.search(bare) is not None


def mask_text(text: str) -> str:
    """Mask the secrets that a text shows by their names or by their form."""
    if not text or text.isalnum() and len(text) < SHORTEST_SECRET:
        return text
    if "PRIVATE KEY" in text:
        text = PRIVATE_KEY.sub(MASK, text)
    if "$ANSIBLE_VAULT" in text:
        text = VAULT.sub(MASK, text)
    if "://" in text:
        text = USER_INFO.sub(rf"\1{MASK}\3", text)
    text = KNOWN_TOKEN.sub(MASK, text)
    if not SUSPECT.search(text):
        return text
    text = AUTHORIZATION.sub(lambda match: f"{match.group(1)}{match.group(2) or ''}{MASK}", text)
    text = BEARER.sub(rf"\1{MASK}", text)
    return mask_assignments(text)


def mask_assignments(text: str) -> str:
    """Mask the values of secret variables, fields and options in a text: ``NAME=value``, ``name: value``, ``--name value``."""
    parts: list[str] = []
    place = 0
    for start, end in secret_spans(text):
        parts += [text[place:start], MASK]
        place = end
    return "".join([*parts, text[place:]])


def secret_spans(text: str) -> Iterator[tuple[int, int]]:
    """Return where the values of secret names stand in a text."""
    place = 0
    if not SUSPECT.search(text):
        return
    while match := ASSIGNMENT.search(text, place):
        option = match["name"].startswith("-")
        spaced = not match["sign"].strip()
        secret = (option or not spaced) and is_secret_name(match["name"])
        value = match["value"]
        if secret and not value.startswith(MASK) and value.lower() not in SCHEMES:
            quoted = value[0] in "\"'" and len(value) > 1
            yield match.start("value") + quoted, match.end("value") - quoted
            place = match.end()
        else:
            # The value of one name may itself begin an assignment: env A=b TOKEN=c.
            place = match.end("name")


def secret_values(document: Any, name: str = "") -> Iterator[str]:
    """Return the values that stand under secret names, in fields and in texts."""
    if isinstance(document, str):
        if name and is_secret_name(name):
            yield document
        for start, end in secret_spans(document):
            if NO_WORD.search(document, start, end):
                yield document[start:end]
    elif isinstance(document, Mapping):
        pair = pair_name(document)
        for key, value in document.items():
            yield from secret_values(value, pair if key == "value" and pair else str(key))
    elif isinstance(document, (list, tuple)):
        for before, value in zip((None, *document), document):
            yield from secret_values(value, before if isinstance(before, str) and before.startswith("-") and isinstance(value, str) else name)


def serial_values(document: Any, name: str = "") -> Iterator[str]:
    """Return the serial numbers of a document: what stands under such a name, in fields and in texts."""
    if isinstance(document, str):
        if name and SERIAL_NAME.search(name) and len(document) > 4 and not PLACEHOLDER.match(document):
            yield document
        for match in SERIAL_TEXT.finditer(document):
            if not PLACEHOLDER.match(match.group(2)):
                yield match.group(2)
    elif isinstance(document, Mapping):
        for key, value in document.items():
            yield from serial_values(value, str(key))
    elif isinstance(document, (list, tuple)):
        for value in document:
            yield from serial_values(value, name)


def mapped(document: Any, clean: Callable[[str], str], is_special: Callable[[str], bool], special: Callable[[str, Any], Any], name: str = "") -> Any:
    """Return a copy of a document with every text cleaned, and texts and lists of texts under special names replaced."""
    if isinstance(document, str):
        return special(name, document) if name and document and is_special(name) else clean(document)
    if isinstance(document, Mapping):
        pair = pair_name(document)
        return {clean(key): mapped(value, clean, is_special, special, pair if key == "value" and pair else str(key)) for key, value in document.items()}
    if isinstance(document, (list, tuple)):
        return [mapped(value, clean, is_special, special, inner) for value, inner in zip(document, names_in_list(document, name))]
    if isinstance(document, int) and not isinstance(document, bool) and name and is_special(name):
        return special(name, document)
    return document


def names_in_list(values: Iterable[Any], name: str) -> Iterator[str]:
    """Return the name under which each entry of a list stands: that of the list, or the option before it."""
    before: Any = None
    for value in values:
        yield before if isinstance(before, str) and before.startswith("-") and isinstance(value, str) else name
        before = value


def pair_name(document: Mapping[str, Any]) -> str:
    """Return the name that a ``{name: …, value: …}`` pair gives its value."""
    return str(document["name"]) if "value" in document and isinstance(document.get("name"), str) else ""
