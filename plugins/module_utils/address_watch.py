# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read a log of an address polled while a network was applied: seconds, interface, state, addresses. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t

ROW = re.compile(
    r"^\s*(?P<seconds>\d{1,7}\.\d{1,6})\s+(?P<interface>[A-Za-z][\w.-]{1,39})\s+(?P<state>UP|DOWN|UNKNOWN|LOWERLAYERDOWN)"
    r"(?P<addresses>(?:\s+[\d./]{7,18})*)\s*$",
    re.ASCII,
)
WANTED = re.compile(r"\bwanted (?P<address>\d{1,3}(?:\.\d{1,3}){3}/\d{1,2})", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class AddressWatch:
    """One watch. ``back_after_seconds`` is None where the address was still away at the end; 0 where it never went."""

    interface: str
    wanted: str
    back_after_seconds: float | None
    watched_seconds: float


def watches(lines: t.Iterable[str]) -> list[AddressWatch]:
    """Return one record for each watched interface; the wanted address is named in a comment, else the last one seen."""
    wanted: str | None = None
    seen: dict[str, list[tuple[float, tuple[str, ...]]]] = {}
    for line in lines:
        if match := ROW.match(line):
            seen.setdefault(match["interface"], []).append((float(match["seconds"]), tuple(match["addresses"].split())))
        elif match := WANTED.search(line):
            wanted = match["address"]
    found = []
    for interface, rows in seen.items():
        target = wanted or next((addresses[0] for _seconds, addresses in reversed(rows) if addresses), None)
        if target is None or len(rows) < 2:
            continue
        away = [seconds for seconds, addresses in rows if target not in addresses]
        back: float | None = 0.0
        if away:
            back = next((seconds for seconds, addresses in rows if target in addresses and seconds > away[-1]), None)
        found.append(AddressWatch(interface, target, back, rows[-1][0]))
    return found
