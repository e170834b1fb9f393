# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ``ip -j link`` and ``ip -j addr`` say of interfaces themselves: MTU, state, master. Pure; takes parsed JSON.

Addresses, routes and neighbours are read by ``iproute.py``.
"""

from __future__ import annotations

import dataclasses
import typing as t


@dataclasses.dataclass(frozen=True, slots=True)
class Interface:
    """One interface. ``addresses`` are IPv4 in CIDR notation, None where the listing has no addresses (``ip -j link``)."""

    name: str
    mtu: int | None
    state: str | None
    master: str | None
    mac: str | None
    kind: str | None
    mode: str | None  # of a bond
    addresses: tuple[str, ...] | None

    @property
    def up(self) -> bool:
        """Tell whether it is up with a carrier."""
        return self.state == "UP"


def looks_like(document: t.Any) -> bool:
    """Tell whether parsed JSON is a listing of interfaces."""
    return isinstance(document, list) and any(isinstance(entry, dict) and "ifname" in entry and "mtu" in entry for entry in document)


def interfaces(document: t.Any) -> list[Interface]:
    """Return the interfaces; empty objects, which filters leave behind, are skipped."""
    found = []
    for entry in document if isinstance(document, list) else []:
        if not isinstance(entry, dict) or not isinstance(entry.get("ifname"), str) or "mtu" not in entry:
            continue
        details = entry["linkinfo"] if isinstance(entry.get("linkinfo"), dict) else {}
        data = details["info_data"] if isinstance(details.get("info_data"), dict) else {}
        addresses = None
        if isinstance(entry.get("addr_info"), list):
            addresses = tuple(
                f"{info['local']}/{info['prefixlen']}"
                for info in entry["addr_info"]
                if isinstance(info, dict) and info.get("family") == "inet" and isinstance(info.get("local"), str) and isinstance(info.get("prefixlen"), int)
            )
        found.append(
            Interface(
                name=entry["ifname"].partition("@")[0],
                mtu=entry["mtu"] if isinstance(entry["mtu"], int) else None,
                state=_text(entry.get("operstate")),
                master=_text(entry.get("master")),
                mac=_text(entry.get("address")),
                kind=_text(details.get("info_kind")),
                mode=_text(data.get("mode")),
                addresses=addresses,
            )
        )
    return found


def _text(value: t.Any) -> str | None:
    return value if isinstance(value, str) else None
