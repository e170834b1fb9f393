# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Recognise by name who set up the fabric before: the known layouts of DGX Spark clusters, and what is to be said about each.

Each layout is told by the name of its file, or by the shape of what it says of the four fabric interfaces. Pure functions.
"""

from __future__ import annotations

import fnmatch
import ipaddress
import pathlib
import typing as t
from dataclasses import dataclass, field

from ansible_collections.dgxspark.fabric.plugins.module_utils.networkmanager_profiles import Profile

TWINS = {"enp1s0f0np0": "enP2p1s0f0np0", "enp1s0f1np1": "enP2p1s0f1np1"}
RAIL_A, RAIL_B = tuple(TWINS), tuple(TWINS.values())
FABRIC = (*RAIL_A, *RAIL_B)
EUGR_NETWORKS = tuple(ipaddress.IPv4Network(f"192.168.{third}.0/24") for third in (177, 178, 187, 188, 197, 198))
LINK_LOCAL = ipaddress.IPv4Network("169.254.0.0/16")
TWO_NETWORKS = "the two rails of a cable need two networks: in one network the wrong interface answers"


@dataclass(frozen=True)
class Layout:
    """A known layout: ``name`` for people, ``note`` about it."""

    identifier: str
    name: str
    note: str


@dataclass(frozen=True)
class Shape:
    """What one netplan file says of the fabric, as far as recognising needs it."""

    renderer: str | None
    entries: t.Mapping[str, t.Mapping[str, t.Any]]  # the fabric interfaces
    bonds: t.Mapping[str, t.Mapping[str, t.Any]]  # bonds over them
    others: t.Mapping[str, t.Mapping[str, t.Any]] = field(default_factory=dict)  # other definitions, by name
    networks: t.Mapping[str, tuple[ipaddress.IPv4Interface, ...]] = field(default_factory=dict)

    def has(self, key: str, value: t.Any) -> bool:
        """Tell whether every entry sets ``key`` to ``value``."""
        return bool(self.entries) and all(entry.get(key) == value for entry in self.entries.values())

    def sets(self, key: str) -> bool:
        """Tell whether any entry sets ``key``."""
        return any(key in entry for entry in self.entries.values())

    @property
    def addressed(self) -> list[str]:
        """Return the interfaces with addresses."""
        return [name for name in self.entries if self.networks.get(name)]

    @property
    def addresses(self) -> list[ipaddress.IPv4Interface]:
        """Return all addresses."""
        return [address for name in self.entries for address in self.networks.get(name, ())]

    def within(self, *networks: str) -> bool:
        """Tell whether there are addresses, and all of them in the networks."""
        wide = [ipaddress.IPv4Network(text) for text in networks]
        return bool(self.addresses) and all(any(address.ip in network for network in wide) for address in self.addresses)

    @property
    def twins_together(self) -> list[tuple[str, str, str]]:
        """Return ``(interface, twin, network)`` for twins in one network."""
        found = []
        for a, b in TWINS.items():
            shared = {address.network for address in self.networks.get(a, ())} & {address.network for address in self.networks.get(b, ())}
            found += [(a, b, str(network)) for network in sorted(shared)]
        return found

    @property
    def link_local(self) -> list[str]:
        """Return the interfaces that ask for IPv4 link-local addresses."""
        return [name for name, entry in self.entries.items() if "ipv4" in (entry.get("link-local") or ())]


def _interfaces_of(values: t.Any) -> tuple[ipaddress.IPv4Interface, ...]:
    found = []
    for value in values if isinstance(values, list) else ():
        text = str(next(iter(value), "")) if isinstance(value, dict) else str(value)
        try:
            found.append(ipaddress.IPv4Interface(text))
        except ValueError:
            continue
    return tuple(found)


def shape_of(tree: t.Mapping[str, t.Any]) -> Shape:
    """Return the shape of a file's tree."""
    ethernets = {name: entry or {} for name, entry in (tree.get("ethernets") or {}).items()}
    entries = {name: entry for name, entry in ethernets.items() if name in FABRIC}
    bonds = {name: entry for name, entry in (tree.get("bonds") or {}).items() if set(FABRIC) & set((entry or {}).get("interfaces") or ())}
    return Shape(tree.get("renderer"), entries, bonds, {name: entry for name, entry in ethernets.items() if name not in FABRIC},
                 {name: _interfaces_of(entry.get("addresses")) for name, entry in entries.items()})


def _only(shape: Shape, *keys: str) -> bool:
    """Tell whether the entries set nothing but ``keys``."""
    return bool(shape.entries) and all(set(entry) <= set(keys) for entry in shape.entries.values())


def _bond(shape: Shape) -> bool:
    return bool(shape.bonds)


def _option_link_local(shape: Shape) -> bool:
    return set(shape.entries) == set(RAIL_A) and set(shape.link_local) == set(RAIL_A) and not shape.addresses


def _switch_link_local(shape: Shape) -> bool:
    return len(shape.link_local) > 1 and not shape.addresses and any(a in shape.link_local and b in shape.link_local for a, b in TWINS.items())


def _four_static(shape: Shape) -> bool:
    return len(shape.twins_together) == 2 and shape.within("192.168.100.0/24", "192.168.200.0/24") and not shape.sets("mtu")


def _helper(shape: Shape) -> bool:
    fits = _only(shape, "dhcp4", "addresses") and (not shape.addresses or shape.within("192.168.0.0/21"))
    return fits and (bool(shape.twins_together) or (set(shape.entries) == set(FABRIC) and shape.has("dhcp4", False)))


def _playbook(shape: Shape) -> bool:
    return shape.within("192.168.100.0/23") and not shape.twins_together and _only(shape, "dhcp4", "addresses") and shape.renderer is None


def _performance_guide(shape: Shape) -> bool:
    return shape.within("192.168.200.0/23") and _only(shape, "dhcp4", "addresses") and shape.renderer == "NetworkManager"


def _switch_static(shape: Shape) -> bool:
    return bool(shape.twins_together) and shape.within("192.168.100.0/24") and _only(shape, "dhcp4", "addresses")


def _ring_page(shape: Shape) -> bool:
    return shape.within("192.168.0.0/21") and _only(shape, "dhcp4", "addresses")


def _switch_dhcp(shape: Shape) -> bool:
    return shape.has("dhcp4", True) and not shape.addresses and not shape.sets("networkmanager")


def _sparkrun_before(shape: Shape) -> bool:
    return bool(shape.addresses) and bool(shape.link_local) and shape.has("mtu", 9000)


def _guardkit(shape: Shape) -> bool:
    return len(shape.addresses) == 1 and shape.addresses[0].ip in LINK_LOCAL


def _tied_off(shape: Shape) -> bool:
    return shape.has("dhcp4", False) and shape.has("dhcp6", False) and bool(shape.addresses)


def _otto(shape: Shape) -> bool:
    hosts = [route for entry in shape.entries.values() for route in entry.get("routes") or () if str(route.get("to", "")).endswith("/32")]
    return bool(shape.addressed) and not set(shape.addressed) & set(RAIL_B) and bool(hosts or _interfaces_of((shape.others.get("lo") or {}).get("addresses")))


def _sparkring(shape: Shape) -> bool:
    return shape.within("198.18.0.0/15")


def _sparknet(shape: Shape) -> bool:
    return _tied_off(shape) and shape.sets("accept-ra") and shape.sets("networkmanager")


def _networkd_static(shape: Shape) -> bool:
    return _tied_off(shape) and "networkd" in {shape.renderer, *(entry.get("renderer") for entry in shape.entries.values())} and shape.sets("optional")


def _eugr(shape: Shape) -> bool:
    return bool(shape.addresses) and all(any(address.ip in network for network in EUGR_NETWORKS) for address in shape.addresses)


def _sparkrun(shape: Shape) -> bool:
    return _tied_off(shape) and shape.has("link-local", []) and shape.has("mtu", 9000) and _only(
        shape, "dhcp4", "dhcp6", "link-local", "mtu", "addresses")


def _one_rail(shape: Shape) -> bool:
    return bool(shape.addressed) and not set(shape.addressed) & set(RAIL_B) and shape.has("mtu", 9000)


SAME_NETWORK = f"it puts both rails of a port in one network; {TWO_NETWORKS}"
SYNC_AGAIN = ("NVIDIA Sync writes its plan again whenever its Cluster Assistant runs, and renames files of others to *.sync-disabled-*: delete the cluster in "
              "Sync (Settings, Clusters) before this plan is used")

BY_FILE: tuple[tuple[str, Layout], ...] = (
    ("90-NM-*.yaml", Layout("networkmanager-mirror", "mirror of a NetworkManager profile",
                            "NetworkManager keeps each profile that nmcli or the desktop makes or changes in such a file, which takes single interfaces to "
                            "its own renderer and often switches DHCP on; it comes back when that profile is changed again")),
    ("99-nvidia-sync-cluster*.yaml", Layout("nvidia-sync", "NVIDIA Sync Cluster Assistant", SYNC_AGAIN)),
    ("netplan-*.yaml", Layout("nvidia-sync", "NVIDIA Sync, temporary file of its probe", SYNC_AGAIN)),
    ("98-spark-vllm-docker*.yaml", Layout("eugr-setup-cluster", "eugr/spark-vllm-docker setup-cluster",
                                          "its --restore expects this file as it wrote it; run that first if you want its own way back")),
    ("40-sparkring-fabric*.yaml", Layout("sparkring-netplan", "sparkring (August 2026)", "it addresses rail a alone, from 198.18.0.0/15")),
)

BY_SHAPE: tuple[tuple[t.Callable[[Shape], bool], Layout], ...] = (
    (_bond, Layout("bond", "twins in a bond (as rmkraus/spark-cluster)",
                   "a bond holds the only address, so neither rail has one of its own; RDMA and NCCL use the rails, not the bond")),
    (_option_link_local, Layout("nvidia-link-local", "NVIDIA playbook option 1 (October 2025 to July 2026)",
                                "link-local addresses change, and all of them are in 169.254.0.0/16; rail b has none")),
    (_switch_link_local, Layout("nvidia-switch-link-local", "NVIDIA switch playbook, link-local (March to July 2026)",
                                f"both rails are in 169.254.0.0/16; {TWO_NETWORKS}")),
    (_four_static, Layout("nvidia-static-twins", "NVIDIA playbook option 2 (November 2025 to July 2026)", SAME_NETWORK)),
    (_switch_static, Layout("nvidia-switch-static", "NVIDIA switch playbook (before June 2026)", SAME_NETWORK)),
    (_helper, Layout("nvidia-helper", "NVIDIA's spark_cluster_setup helper",
                     "it names all four interfaces and writes 192.168.0.0/24 and on, which home networks use too; up to July 2026 it put both rails of a port "
                     "in one network")),
    (_performance_guide, Layout("nvidia-performance-guide", "NVIDIA performance guide",
                                "it sets NetworkManager as renderer of everything; NetworkManager may clear such addresses after a reboot")),
    (_playbook, Layout("nvidia-playbook", "NVIDIA playbook (since July 2026)", "two networks, but no MTU: the interfaces stay at 1500")),
    (_ring_page, Layout("nvidia-ring", "NVIDIA three-node ring playbook", "two networks a cable, but no MTU: the interfaces stay at 1500")),
    (_switch_dhcp, Layout("nvidia-switch-dhcp", "DHCP on the fabric (NVIDIA switch playbook, or DGX OS as delivered)",
                          "addresses come from a server, which gives both rails the same network; on a cable without a server it asks for ever")),
    (_guardkit, Layout("guardkit", "guardkit/dgx-spark runbook", "one rail has a static 169.254 address, the other none")),
    (_sparkring, Layout("sparkring-netplan", "sparkring", "its networks come from 198.18.0.0/15")),
    (_otto, Layout("colonel-otto", "rail a with host routes (as colonel-otto)",
                   "routes to other nodes' /32 addresses lead over the fabric; they go with the entries, the address on lo stays")),
    (_sparknet, Layout("sparknet", "christopherowen/dgx-spark-networking (sparknet)", "NetworkManager renders it; networks 10.x.path.0/24")),
    (_sparkrun_before, Layout("sparkrun-old", "sparkrun (before July 2026)", "link-local leaves a 169.254 address beside each static one")),
    (_networkd_static, Layout("technical-depth", "cloudone365/technical-depth cx7_fabric", "static addresses by networkd")),
    (_eugr, Layout("eugr-guide", "eugr/spark-vllm-docker networking guide (also spark-pulse)", "the networks 192.168.177 to 198 that this plan uses by "
                   "default, too")),
    (_sparkrun, Layout("sparkrun", "sparkrun", "static addresses, as here; a second run of its wizard writes its own plan again")),
    (_one_rail, Layout("one-rail", "one rail addressed (as jnardiello)", "rail b is up without an address: NCCL cannot route over it on rings")),
)
HAND_MADE = Layout("hand-made", "hand-made file", "no known tool writes it in this form")
RUNTIME = Layout("runtime", "addresses set at runtime (ip addr add, as NVIDIA's manual way and graham33/nixos-dgx-spark)", "they are lost at the next reboot")


def recognise(path: str, tree: t.Mapping[str, t.Any]) -> Layout:
    """Return the layout of a netplan file; ``HAND_MADE`` when none of the known ones fits."""
    name = pathlib.PurePosixPath(path).name
    for pattern, layout in BY_FILE:
        if fnmatch.fnmatchcase(name, pattern):
            return layout
    shape = shape_of(tree)
    return next((layout for fits, layout in BY_SHAPE if fits(shape)), HAND_MADE)


def twins_note(tree: t.Mapping[str, t.Any]) -> str:
    """Return what is to be said about twins in one network, empty when there are none."""
    return "; ".join(f"{a} and {b} are both in {network}" for a, b, network in shape_of(tree).twins_together)


def recognise_profile(profile: Profile) -> Layout:
    """Return the layout of a NetworkManager profile."""
    if profile.kind == "bond" or profile.controller:
        return Layout("bond", "twins in a bond by nmcli (as rmkraus/spark-cluster)", "neither rail has an address of its own")
    if profile.routes and any(route.endswith("/32") for route in profile.routes):
        return Layout("colonel-otto", "rail a with host routes (as colonel-otto)", "its routes go with the profile")
    if any(address.ip in ipaddress.IPv4Network("198.18.0.0/15") for address in _interfaces_of(list(profile.addresses))) or profile.priority >= 100:
        return Layout("sparkring", "sparkring's NetworkManager profiles", "a profile of high priority takes the interface from any other")
    if profile.method == "auto":
        return Layout("networkmanager-dhcp", "NetworkManager profile with DHCP", "on a cable without a DHCP server it asks for ever")
    return Layout("networkmanager", "NetworkManager profile (nmcli, as spark-pulse)", "it competes with what netplan sets")
