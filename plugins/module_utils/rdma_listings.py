# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read listings of RDMA devices: ``ibdev2netdev``, ``rdma link``, ``show_gids``, ``ibv_devinfo``. Pure: lines in, records out.

Lines of other kinds are skipped. Newer systems lack the first and third tool; the fourth is everywhere.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
import typing as t

IBDEV2NETDEV = re.compile(
    r"^\s*(?:[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d )?(?P<device>[A-Za-z][\w.-]{0,60}) (?:\(.{0,200}?\) .{0,120}?)?port (?P<port>\d{1,3})"
    r"(?: \([A-Z]{1,12}\s*\))? (?:==>|<===>) (?P<netdev>[\w.-]{0,40}) ?\((?P<state>Up|Down|NA)\)",
    re.ASCII,
)
RDMA_LINK = re.compile(
    r"^\s*link (?P<device>[A-Za-z][\w.-]{0,60})/(?P<port>\d{1,3}) .{0,200}?state (?P<state>[A-Z_]{1,20})(?: physical_state (?P<physical>[A-Z_]{1,20}))?"
    r"(?: netdev (?P<netdev>[\w.-]{1,40}))?",
    re.ASCII,
)
GID_ROW = re.compile(
    r"^\s*(?P<device>[A-Za-z][\w.-]{0,60})\s+(?P<port>\d{1,3})\s+(?P<index>\d{1,5})\s+(?P<gid>(?:[0-9a-fA-F]{4}:){7}[0-9a-fA-F]{4})"
    r"(?:\s+(?P<ipv4>\d{1,3}(?:\.\d{1,3}){3}))?\s+(?P<version>v1|v2)(?:\s+(?P<netdev>[\w.-]{1,40}))?\s*$",
    re.ASCII,
)
HCA = re.compile(r"^\s*hca_id:\s+(?P<device>\S{1,60})", re.ASCII)
FIELD = re.compile(r"^\s*(?P<key>state|active_mtu|fw_ver|link_layer|max_mtu):\s+(?P<value>\S{1,60})", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class RdmaLink:
    """One RDMA device with its interface; ``netdev`` is "" where it has none."""

    device: str
    netdev: str
    up: bool
    state: str


@dataclasses.dataclass(frozen=True, slots=True)
class Gid:
    """One entry of a GID table. ``ipv4`` is None where the GID holds no IPv4 address."""

    device: str
    index: int
    gid: str
    ipv4: str | None
    version: str
    netdev: str | None

    @property
    def link_local(self) -> bool:
        """Tell whether it is an ``fe80::`` GID, which reaches no peer on a routed cable."""
        return self.gid.lower().startswith("fe80")


@dataclasses.dataclass(slots=True)
class DeviceInfo:
    """What ``ibv_devinfo`` says of one device; ``device`` is "" where only an excerpt was kept."""

    device: str
    state: str | None = None
    active_mtu: int | None = None
    firmware: str | None = None


def ibdev2netdev(lines: t.Iterable[str]) -> list[RdmaLink]:
    """Return the devices that ``ibdev2netdev`` or ``rdma link`` lists."""
    found = []
    for line in lines:
        if match := IBDEV2NETDEV.match(line):
            found.append(RdmaLink(match["device"], match["netdev"], match["state"] == "Up", match["state"]))
        elif match := RDMA_LINK.match(line):
            found.append(RdmaLink(match["device"], match["netdev"] or "", match["state"] == "ACTIVE", match["state"]))
    return found


def rdma_link_json(document: t.Any) -> list[RdmaLink]:
    """Return the devices of ``rdma -j link`` (parsed JSON); up to iproute2 5.4 the name has ``/port`` behind it."""
    found = []
    for entry in document if isinstance(document, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("ifname"), str) and isinstance(entry.get("state"), str) and "physical_state" in entry:
            netdev = entry.get("netdev")
            found.append(RdmaLink(entry["ifname"].partition("/")[0], netdev if isinstance(netdev, str) else "", entry["state"] == "ACTIVE", entry["state"]))
    return found


def show_gids(lines: t.Iterable[str]) -> list[Gid]:
    """Return the entries of ``show_gids``. Rows without IPv4 have empty columns, so nothing is taken by its place from the right."""
    found = []
    for line in lines:
        match = GID_ROW.match(line)
        if match:
            mapped = ipaddress.IPv6Address(match["gid"]).ipv4_mapped
            found.append(Gid(match["device"], int(match["index"]), match["gid"], str(mapped) if mapped else None, match["version"], match["netdev"]))
    return found


def ibv_devinfo(lines: t.Iterable[str]) -> list[DeviceInfo]:
    """Return what ``ibv_devinfo`` says, whole or cut down by ``grep``."""
    found: list[DeviceInfo] = []
    for line in lines:
        if match := HCA.match(line):
            found.append(DeviceInfo(match["device"]))
        elif match := FIELD.match(line):
            if not found:
                found.append(DeviceInfo(""))
            value = match["value"]
            if match["key"] == "state":
                found[-1].state = value.removeprefix("PORT_")
            elif match["key"] == "active_mtu" and value.isdigit() and len(value) < 9:
                found[-1].active_mtu = int(value)
            elif match["key"] == "fw_ver":
                found[-1].firmware = value
    return [info for info in found if info.state or info.active_mtu or info.firmware]
