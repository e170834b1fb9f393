# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read terse listings of NetworkManager's connections (``nmcli -t con``), whatever fields were asked for. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t

KINDS = ("802-3-ethernet", "802-11-wireless", "bond", "bridge", "loopback", "vlan", "wireguard", "tun", "infiniband")
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)
GENERIC = re.compile(r"Wired connection \d{1,4}|Auto .{1,40}|.{0,40}DHCP.{0,40}", re.ASCII)
SEPARATOR = re.compile(r"(?<!\\):")


@dataclasses.dataclass(frozen=True, slots=True)
class Connection:
    """One profile. ``device`` is "" while it is active on none."""

    name: str
    device: str
    kind: str

    @property
    def generic(self) -> bool:
        """Tell whether NetworkManager made it up by itself: such a profile asks for DHCP for ever."""
        return GENERIC.fullmatch(self.name) is not None


def connections(lines: t.Iterable[str]) -> list[Connection]:
    """Return the profiles. The kind is found by its word, so both orders of fields (``NAME,DEVICE,TYPE`` and the default) are read."""
    found = []
    for line in lines:
        fields = [field.replace("\\:", ":") for field in SEPARATOR.split(line.strip()[:400])]
        kind = next((field for field in fields if field in KINDS), None)
        if kind is None or not 3 <= len(fields) <= 6:
            continue
        rest = [field for field in fields[1:] if field != kind and not UUID.fullmatch(field)]
        device = next((field for field in rest if re.fullmatch(r"[A-Za-z][\w.-]{0,39}", field, re.ASCII) and field not in ("yes", "no", "activated")), "")
        found.append(Connection(fields[0], device, kind))
    return found
