# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find what is set for planned interfaces beside netplan: NetworkManager profiles, files of systemd-networkd, addresses set at runtime."""

from __future__ import annotations

import configparser
import fnmatch
import ipaddress
import pathlib
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils import foreign_layouts, networkmanager_profiles
from ansible_collections.dgxspark.fabric.plugins.module_utils.foreign_settings import Edit, Foreign
from ansible_collections.dgxspark.fabric.plugins.module_utils.live_state import Live
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_tree import Hardware, Planned

VIRTUAL_KINDS = ("bond", "bridge", "team", "vlan")
NETWORKD = "etc/systemd/network"
NETWORKD_LAYOUT = foreign_layouts.Layout("networkd-file", "hand-made file of systemd-networkd", "of several files that match an interface networkd takes the "
                                         "first by name")
NOT_FOR_LONG = ipaddress.IPv4Network("169.254.0.0/16")


def profiles(root: str, planned: t.Mapping[str, Hardware]) -> tuple[list[Foreign], list[str]]:
    """Return the claims of NetworkManager's profiles, and notes on those that it made by itself."""
    known = networkmanager_profiles.read(root)
    found = []
    for claim in networkmanager_profiles.claims(known, planned):
        profile = claim.profile
        found.append(Foreign(profile.path, foreign_layouts.recognise_profile(profile), [f"{', '.join(claim.interfaces)}: it {claim.why}, {profile.settings}"],
                             "move the profile away", [Edit(profile.path, None)], [claim.blocked] if claim.blocked else [], "networkmanager", claim.interfaces,
                             upper=profile.interface if profile.kind in VIRTUAL_KINDS else None))
    notes = [f"NetworkManager made the profile {profile.name!r} ({profile.path}) for {profile.interface or profile.mac} by itself and asks for DHCP there; "
             "it gives way to the plan" for profile in networkmanager_profiles.generated(known, planned)]
    return found, notes


def _networkd_match(text: str) -> tuple[list[str], str | None]:
    """Return the name patterns and the MAC address of a ``.network`` file's [Match] section (systemd.network(5))."""
    reader = configparser.RawConfigParser(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#", ";"))
    try:
        reader.read_string(text)
    except configparser.Error:
        return [], None
    section = {key.lower(): value for key, value in reader.items("Match")} if reader.has_section("Match") else {}
    return section.get("name", "").split(), section.get("macaddress") or section.get("permanentmacaddress")


def _selects(patterns: t.Sequence[str], mac: str | None, name: str, hardware: Hardware) -> bool:
    """Tell whether a [Match] section selects an interface: all its conditions must hold."""
    by_name = any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    by_mac = mac is not None and mac.lower() == (hardware.mac or "").lower()
    return by_name and (by_mac or mac is None) if patterns else by_mac


def networkd_files(root: str, planned: t.Mapping[str, Hardware], every: t.Mapping[str, Hardware]) -> list[Foreign]:
    """Return the claims of ``.network`` files that somebody put into /etc/systemd/network."""
    found = []
    directory = pathlib.Path(root) / NETWORKD
    for file in sorted(directory.glob("*.network")) if directory.is_dir() else ():
        try:
            patterns, mac = _networkd_match(file.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
        touched = tuple(name for name, hardware in planned.items() if _selects(patterns, mac, name, hardware))
        if not touched:
            continue
        others = [name for name in every if name not in planned and _selects(patterns, mac, name, every[name])]
        path = f"/{NETWORKD}/{file.name}"
        found.append(Foreign(path, NETWORKD_LAYOUT, [f"its [Match] selects {', '.join(touched)}"], "move the file away", [Edit(path, None)],
                             [f"it also selects {', '.join(others)}"] if others else [], "networkd", touched))
    return found


def _explained(tree: t.Mapping[str, t.Any], name: str) -> set[str]:
    settings = (tree.get("ethernets") or {}).get(name)
    values = settings.get("addresses") or [] if isinstance(settings, dict) else []
    return {str(next(iter(value), "") if isinstance(value, dict) else value) for value in values}


def runtime_addresses(planned: t.Sequence[Planned], live: t.Mapping[str, Live], tree: t.Mapping[str, t.Any], claimed: t.Collection[str]) -> list[Foreign]:
    """Return addresses that somebody set by hand: live, static, and in no configuration.

    Args:
        planned: The planned interfaces.
        live: Their live state.
        tree: The merged netplan configuration as it is.
        claimed: Interfaces that something beside netplan configures, which explains their addresses.
    """
    found = []
    for interface in planned:
        state = live[interface.name]
        if interface.name in claimed:
            continue
        explained = _explained(tree, interface.name) | set(state.dynamic) | {interface.address or ""}
        own = [address for address in state.addresses if address not in explained and ipaddress.ip_interface(address).ip not in NOT_FOR_LONG]
        if own:
            found.append(Foreign(f"live {interface.name}", foreign_layouts.RUNTIME, [f"{interface.name} has {', '.join(own)}, which no file configures"],
                                 f"take {', '.join(own)} away", kind="runtime", interfaces=(interface.name,)))
    return found
