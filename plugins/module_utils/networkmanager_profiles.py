# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Connection profiles of NetworkManager that touch planned interfaces, read from its keyfiles (nm-settings-keyfile(5)).

Profiles that netplan made (``netplan-*``) belong to its files and are left out. Where NetworkManager found a card with no
profile, it makes one that asks for DHCP ("Wired connection 1"), in memory or below /run, and gives it up for any other.
"""

from __future__ import annotations

import configparser
import fnmatch
import pathlib
import typing as t
from dataclasses import dataclass

from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_tree import Hardware

DIRECTORIES = ("etc/NetworkManager/system-connections", "run/NetworkManager/system-connections")
GENERATED_PRIORITY = "-999"  # what NetworkManager gives the profiles that it makes by itself


@dataclass(frozen=True)
class Profile:
    """One connection profile. ``addresses`` are those that it sets by itself; a DHCP client's are not known here."""

    path: str
    name: str
    uuid: str
    kind: str
    interface: str | None = None
    patterns: tuple[str, ...] = ()  # of match.interface-name
    mac: str | None = None
    controller: str | None = None  # interface name or UUID of the bond, bridge or team that it belongs to
    parent: str | None = None  # of a VLAN
    generated: bool = False
    priority: int = 0
    addresses: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    method: str = ""

    def touches(self, name: str, hardware: Hardware) -> bool:
        """Tell whether the profile is for this interface and for no other."""
        if self.kind not in ("ethernet", "802-3-ethernet", ""):
            return self.parent == name
        if self.interface:
            return self.interface == name
        if self.mac and hardware.mac:
            return self.mac.lower() == hardware.mac.lower()
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.patterns)

    @property
    def settings(self) -> str:
        """Return what the profile sets, in one line."""
        shown = [f"profile {self.name!r}"]
        if self.controller:
            shown.append(f"member of {self.controller}")
        if self.addresses:
            shown.append("addresses [" + ", ".join(self.addresses) + "]")
        elif self.method:
            shown.append(f"ipv4 {self.method}")
        if self.routes:
            shown.append("routes [" + ", ".join(self.routes) + "]")
        return ", ".join(shown)


def parse(path: str, text: str) -> Profile | None:
    """Return the profile of a keyfile, or ``None`` when it is none."""
    reader = configparser.RawConfigParser(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    try:
        reader.read_string(text)
    except configparser.Error:
        return None
    if not reader.has_section("connection"):
        return None

    def value(section: str, *keys: str) -> str:
        return next((reader.get(section, key) for key in keys if reader.has_option(section, key)), "")

    ipv4 = dict(reader.items("ipv4")) if reader.has_section("ipv4") else {}
    priority = value("connection", "autoconnect-priority")
    generated = priority == GENERATED_PRIORITY or value(".nmmeta", "nm-generated") == "true"
    return Profile(
        path=path,
        name=value("connection", "id") or pathlib.PurePosixPath(path).stem,
        uuid=value("connection", "uuid"),
        kind=value("connection", "type"),
        interface=value("connection", "interface-name") or None,
        patterns=tuple(part for part in value("match", "interface-name").split(";") if part),
        mac=value("ethernet", "mac-address") or value("802-3-ethernet", "mac-address") or None,
        controller=value("connection", "controller", "master") or None,
        parent=value("vlan", "parent") or None,
        generated=generated,
        priority=int(priority) if priority.lstrip("-").isdigit() else 0,
        # "address1=192.168.177.11/24,192.168.177.1": the gateway follows the address.
        addresses=tuple(text.partition(",")[0] for key, text in ipv4.items() if key.startswith("address") and key[7:].isdigit()),
        routes=tuple(text.partition(",")[0] for key, text in ipv4.items() if key.startswith("route") and key[5:].isdigit()),
        method=ipv4.get("method", ""),
    )


def read(root: str = "/") -> list[Profile]:
    """Return the profiles of a node that netplan did not make."""
    found = []
    for name in DIRECTORIES:
        directory = pathlib.Path(root) / name
        for file in sorted(directory.iterdir()) if directory.is_dir() else ():
            if file.name.startswith("netplan-") or file.name.endswith((".dgxspark-new", "~")):
                continue
            try:
                profile = parse(f"/{name}/{file.name}", file.read_text(encoding="utf-8", errors="replace"))
            except OSError:
                continue
            if profile is not None:
                found.append(profile)
    return found


@dataclass(frozen=True)
class ProfileClaim:
    """A profile that touches a planned interface. ``blocked`` says why it cannot be moved away without touching others."""

    profile: Profile
    interfaces: tuple[str, ...]
    why: str
    blocked: str | None = None


def claims(profiles: t.Sequence[Profile], planned: t.Mapping[str, Hardware]) -> list[ProfileClaim]:
    """Return the profiles that touch planned interfaces: their own, and those of bonds and bridges over them. Generated ones are no claims."""
    found: list[ProfileClaim] = []
    members: dict[str, list[Profile]] = {}
    for profile in profiles:
        if profile.controller:
            members.setdefault(profile.controller, []).append(profile)
    for profile in profiles:
        touched = tuple(name for name, hardware in planned.items() if profile.touches(name, hardware))
        if touched and not profile.generated:
            found.append(ProfileClaim(profile, touched, "is a VLAN upon it" if profile.parent else "configures it"))
    taken = {claim.profile.path for claim in found}
    for profile in profiles:
        own = [member for key in (profile.uuid, profile.interface) if key for member in members.get(key, ())]
        inside = [member for member in own if member.path in taken]
        if inside and profile.path not in taken:
            outside = [member.name for member in own if member.path not in taken]
            touched = tuple(dict.fromkeys(name for claim in found if claim.profile in inside for name in claim.interfaces))
            blocked = f"its members {', '.join(outside)} are no interfaces of the plan" if outside else None
            found.append(ProfileClaim(profile, touched, f"builds {profile.interface or profile.name} upon it", blocked))
    return found


def generated(profiles: t.Sequence[Profile], planned: t.Mapping[str, Hardware]) -> list[Profile]:
    """Return the profiles that NetworkManager made by itself for planned interfaces."""
    return [profile for profile in profiles if profile.generated and any(profile.touches(name, hardware) for name, hardware in planned.items())]
