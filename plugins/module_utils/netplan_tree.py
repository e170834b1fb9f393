# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare netplan trees: what the merged configuration says of planned interfaces, and what others claim. Pure functions.

A tree is the mapping under ``network:``. netplan merges files by key: scalars of the last file win, lists are concatenated,
so two files that name one interface give it both files' addresses.
"""

from __future__ import annotations

import fnmatch
import typing as t
from dataclasses import dataclass

Tree = t.Mapping[str, t.Any]

# Every key of a tree that holds definitions of interfaces by name.
NOT_KINDS = ("version", "renderer", "openvswitch")
# Keys by which a definition builds upon other interfaces.
LOWER_KEYS = ("interfaces", "link")


@dataclass(frozen=True)
class Planned:
    """What the plan wants of one interface."""

    name: str
    address: str | None  # "192.168.177.11/24"
    mtu: int
    rdma_device: str | None = None


@dataclass(frozen=True)
class Hardware:
    """By what a definition may match an interface without naming it."""

    mac: str | None = None
    driver: str | None = None


@dataclass(frozen=True)
class Claim:
    """A definition, outside our file, that touches a planned interface."""

    interface: str
    key: str  # "ethernets.enp1s0f0np0"
    why: str
    settings: str  # a short description of what it sets
    definition: tuple[str, str] = ("", "")  # kind and identifier
    way: str = "name"  # "name", "match" or "upon": by its name, by a match, or as what another definition builds upon


def definitions(tree: Tree) -> dict[tuple[str, str], t.Mapping[str, t.Any]]:
    """Return ``{(kind, id): settings}`` of every interface that a tree defines."""
    found = {}
    for kind, entries in tree.items():
        if kind in NOT_KINDS or not isinstance(entries, dict):
            continue
        for name, settings in entries.items():
            found[(kind, name)] = settings if isinstance(settings, dict) else {}
    return found


def short(settings: t.Mapping[str, t.Any]) -> str:
    """Return the settings of a definition in one line, for a message."""
    shown = []
    for key, value in settings.items():
        if key in ("match", "networkmanager", "optional", "wakeonlan"):
            continue
        if isinstance(value, list):
            value = "[" + ", ".join(str(item) for item in value) + "]"
        elif isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, dict):
            value = "{…}"
        shown.append(f"{key} {value}")
    return ", ".join(shown) or "no settings"


def matches(match: t.Mapping[str, t.Any], name: str, hardware: Hardware) -> bool:
    """Tell whether a ``match`` mapping selects an interface: all its conditions must hold (netplan: "match")."""
    conditions = []
    if "name" in match:
        conditions.append(fnmatch.fnmatchcase(name, str(match["name"])))
    if "macaddress" in match:
        conditions.append(str(match["macaddress"]).lower() == (hardware.mac or "").lower())
    if "driver" in match:
        patterns = match["driver"] if isinstance(match["driver"], list) else [match["driver"]]
        conditions.append(any(fnmatch.fnmatchcase(hardware.driver or "", str(pattern)) for pattern in patterns))
    return bool(conditions) and all(conditions)


def claims(tree: Tree, planned: t.Mapping[str, Hardware]) -> list[Claim]:
    """Return the definitions of ``tree`` (the configuration without our file) that touch planned interfaces."""
    found = []
    for (kind, identifier), settings in definitions(tree).items():
        key = f"{kind}.{identifier}"
        match = settings.get("match")
        for name, hardware in planned.items():
            if kind in ("ethernets", "wifis", "modems"):
                if identifier == name:
                    found.append(Claim(name, key, "defines it", short(settings), (kind, identifier)))
                elif isinstance(match, dict) and matches(match, name, hardware):
                    found.append(Claim(name, key, "matches it by " + " and ".join(sorted(match)), short(settings), (kind, identifier), "match"))
            for lower in LOWER_KEYS:
                value = settings.get(lower)
                if name == value or (isinstance(value, list) and name in value):
                    found.append(Claim(name, f"{key}.{lower}", f"builds {identifier} upon it", short(settings), (kind, identifier), "upon"))
    return found


def planned_differences(tree: Tree, planned: t.Iterable[Planned]) -> list[str]:
    """Return how the merged tree deviates from the plan for the planned interfaces; nothing when it is exact."""
    ethernets = tree.get("ethernets") or {}
    problems = []
    for interface in planned:
        settings = ethernets.get(interface.name)
        if not isinstance(settings, dict):
            problems.append(f"{interface.name}: the merged netplan configuration does not have it; expected {interface.address or 'no address'}")
            continue
        wanted = [interface.address] if interface.address else []
        given = [str(address if not isinstance(address, dict) else next(iter(address), "")) for address in settings.get("addresses") or []]
        if given != wanted:
            problems.append(f"{interface.name}: merged addresses are {given}, expected exactly {wanted}")
        if settings.get("mtu") != interface.mtu:
            problems.append(f"{interface.name}: merged mtu is {settings.get('mtu', 'not set')}, expected {interface.mtu}")
        for key in ("dhcp4", "dhcp6"):
            if settings.get(key):
                problems.append(f"{interface.name}: merged {key} is true, expected false")
    return problems


def renderer_of(tree: Tree, name: str) -> str:
    """Return who renders an ethernet interface: its own setting, else the tree's, else networkd."""
    settings = (tree.get("ethernets") or {}).get(name)
    own = settings.get("renderer") if isinstance(settings, dict) else None
    return str(own or tree.get("renderer") or "networkd")


def other_changes(before: Tree, after: Tree, planned: t.Container[str], removed: t.Container[tuple[str, str]] = ()) -> list[str]:
    """Return what our file would change for interfaces outside the plan, and for the tree as a whole; expected is nothing.

    Args:
        before: The configuration as it is.
        after: The configuration with our file.
        planned: The planned interfaces.
        removed: Definitions that are taken away on purpose.
    """
    old, new = definitions(before), definitions(after)
    problems = []
    for key in sorted(set(old) | set(new)):
        if (key[0] == "ethernets" and key[1] in planned) or (key in removed and key not in new):
            continue
        name = ".".join(key)
        if key not in new:
            problems.append(f"{name} would disappear ({short(old[key])})")
        elif key not in old:
            problems.append(f"{name} would be added ({short(new[key])})")
        elif old[key] != new[key]:
            problems.append(f"{name} would change from {short(old[key])} to {short(new[key])}")
    default = "networkd"
    if before.get("renderer", default) != after.get("renderer", default) and old:
        problems.append(f"the renderer of all interfaces would change from {before.get('renderer', default)} to {after.get('renderer', default)}")
    return problems


def same_meaning(before: Tree, planned: t.Sequence[Planned]) -> bool:
    """Tell whether a file's tree already says of the planned interfaces what the plan says, and nothing of others."""
    names = {interface.name for interface in planned}
    outside = [key for key in definitions(before) if key[0] != "ethernets" or key[1] not in names]
    return not outside and not planned_differences(before, planned)
