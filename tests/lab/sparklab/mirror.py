# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where packages come from: the mirror and the network settings that the host's own apt uses."""

from __future__ import annotations

import pathlib
import re
import shutil
import urllib.parse

from . import host

SUITES = {"bullseye", "bookworm", "trixie", "forky", "sid", "oldoldstable", "oldstable", "stable", "testing", "unstable"}
APT_DIR = pathlib.Path("/etc/apt")
# Settings that say how to reach a mirror; everything else of the host's apt stays out of the image.
PASSED_ON = re.compile(r"^(Acquire::(https?|ftp|Retries|Check-Valid-Until|Check-Date|ForceIPv4|ForceIPv6)\b[^ ]*) (\".*\");$")


def one_line_entries(text: str) -> list[tuple[str, str]]:
    """Return (URI, suite) of the ``deb`` lines of a sources.list."""
    found = []
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)\s+(.*)", line)
        if match and "main" in match[3].split():
            found.append((match[1], match[2]))
    return found


def deb822_entries(text: str) -> list[tuple[str, str]]:
    """Return (URI, suite) of the stanzas of a ``.sources`` file."""
    found = []
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        key = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1].isspace():
                fields[key] = f"{fields.get(key, '')} {line.strip()}"
            elif ":" in line:
                key, value = line.split(":", 1)
                key = key.lower()
                fields[key] = value.strip()
        if "deb" in fields.get("types", "").split() and "main" in fields.get("components", "").split():
            if fields.get("enabled", "yes").lower() != "no":
                found += [(uri, suite) for uri in fields.get("uris", "").split() for suite in fields.get("suites", "").split()]
    return found


def find_mirror(folder: pathlib.Path = APT_DIR) -> str | None:
    """Return the URI of the host's Debian mirror; None (mmdebstrap's own choice) when it has none, as on Ubuntu."""
    entries: list[tuple[str, str]] = []
    for path in [folder / "sources.list", *sorted((folder / "sources.list.d").glob("*"))]:
        try:
            text = path.read_text(encoding="utf-8")
        except OSError:
            continue
        entries += deb822_entries(text) if path.suffix == ".sources" else one_line_entries(text)
    for uri, suite in entries:
        if suite in SUITES and urllib.parse.urlparse(uri).scheme in ("http", "https", "file", "copy"):
            return uri
    return None


def settings(dump: str) -> list[str]:
    """Pick the settings to pass on from the output of ``apt-config dump``."""
    found = []
    for line in dump.splitlines():
        match = PASSED_ON.match(line)
        if match and match[3] != '""':
            found.append(f"{match[1]} {match[3]};")
    return found


def apt_settings() -> list[str]:
    """Return the host's settings for reaching its mirror, as lines of an apt.conf."""
    if shutil.which("apt-config") is None:
        return []
    return settings(host.output(["apt-config", "dump"]))
