# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read listings of network interfaces: ``ethtool``, ``lspci -vv``, name and PCI address side by side. Pure: lines in, records out."""

from __future__ import annotations

import dataclasses
import re
import typing as t

SETTINGS = re.compile(r"^\s*Settings for (?P<name>[\w.-]{1,40}):", re.ASCII)
SPEED = re.compile(r"^\s*Speed: (?:(?P<mbps>\d{1,9})Mb/s|(?P<unknown>Unknown!?.{0,40}))\s*$", re.ASCII)
DETECTED = re.compile(r"^\s*Link detected: (?P<value>yes|no)\b(?P<why>.{0,80})", re.ASCII)
DUPLEX = re.compile(r"^\s*Duplex: (?P<value>\w{1,12})", re.ASCII)
FUNCTION = re.compile(r"^(?P<address>(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]) (?P<what>\S.{0,200})$", re.ASCII)
CAPABLE = re.compile(r"LnkCap:.{0,80}?Speed (?P<speed>[\d.]{1,6})GT/s.{0,20}?, Width x(?P<width>\d{1,2})", re.ASCII)
STATUS = re.compile(r"LnkSta:\s*Speed (?P<speed>[\d.]{1,6})GT/s(?: \([^)]{1,20}\))?, Width x(?P<width>\d{1,2})(?: \((?P<note>[^)]{1,20})\))?", re.ASCII)
PCI_OF = re.compile(r"\b(?P<address>[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\b", re.ASCII)
NETDEV_ADDRESS = re.compile(r"^\s*(?P<netdev>en[\w.-]{1,38})\s+(?:->\s+)?(?P<address>[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])\s*$", re.ASCII)


@dataclasses.dataclass(slots=True)
class LinkSettings:
    """What ``ethtool`` says of one interface. ``speed_mbps`` None is "unknown", as without a link; ``link`` None is "not told"."""

    name: str
    speed_mbps: int | None = None
    speed_told: bool = False
    link: bool | None = None
    duplex: str | None = None
    why: str = ""


@dataclasses.dataclass(slots=True)
class PcieLink:
    """PCIe link of one function: what it can, and what it runs at (GT/s, lanes)."""

    address: str
    what: str = ""
    max_speed_gts: float | None = None
    max_width: int | None = None
    speed_gts: float | None = None
    width: int | None = None


def ethtool(lines: t.Iterable[str]) -> list[LinkSettings]:
    """Return what ``ethtool DEV`` says, one record an interface; an excerpt without its first line gives one without a name."""
    found: list[LinkSettings] = []

    def current() -> LinkSettings:
        if not found:
            found.append(LinkSettings(""))
        return found[-1]

    for line in lines:
        if match := SETTINGS.match(line):
            found.append(LinkSettings(match["name"]))
        elif match := SPEED.match(line):
            if current().speed_told:
                found.append(LinkSettings(""))
            found[-1].speed_told = True
            found[-1].speed_mbps = int(match["mbps"]) if match["mbps"] else None
        elif match := DETECTED.match(line):
            current().link = match["value"] == "yes"
            found[-1].why = match["why"].strip(" ()")
        elif match := DUPLEX.match(line):
            current().duplex = match["value"]
    return [settings for settings in found if settings.speed_told or settings.link is not None]


def ethtool_json(document: t.Any) -> list[LinkSettings]:
    """Return the same from ``ethtool --json`` (parsed, 6.10 and later), where a link that is down has no speed."""
    found = []
    for entry in document if isinstance(document, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("ifname"), str) and "link-detected" in entry:
            speed = entry.get("speed")
            found.append(
                LinkSettings(
                    entry["ifname"],
                    speed if isinstance(speed, int) and not isinstance(speed, bool) and speed > 0 else None,
                    True,
                    entry["link-detected"] is True,
                    str(entry["duplex"]) if isinstance(entry.get("duplex"), str) else None,
                )
            )
    return found


def lspci(lines: t.Iterable[str]) -> list[PcieLink]:
    """Return the PCIe links in ``lspci -vv``; an excerpt may name the function on a line of its own, or behind the widths."""
    found: list[PcieLink] = []
    for line in lines:
        if match := FUNCTION.match(line):
            found.append(PcieLink(match["address"], match["what"]))
            continue
        if not ("LnkCap:" in line or "LnkSta:" in line):
            if (match := PCI_OF.search(line)) and len(line) < 200:
                found.append(PcieLink(match["address"]))
            continue
        if not found or ("LnkCap:" in line and found[-1].max_width is not None):
            found.append(PcieLink(""))
        address = PCI_OF.search(line)
        if address and not found[-1].address:
            found[-1].address = address["address"]
        if match := CAPABLE.search(line):
            found[-1].max_speed_gts, found[-1].max_width = _speed(match["speed"]), int(match["width"])
        if match := STATUS.search(line):
            found[-1].speed_gts, found[-1].width = _speed(match["speed"]), int(match["width"])
    return [link for link in found if link.width is not None]


def _speed(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def pci_functions(lines: t.Iterable[str]) -> dict[str, str]:
    """Return the PCI address of each interface from lines with both."""
    return {match["netdev"]: match["address"].lower() for line in lines if (match := NETDEV_ADDRESS.match(line))}
