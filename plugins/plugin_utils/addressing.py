# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Networks and addresses: one segment (network) for each cable, or group of switch ports, on each rail.

Cable k gets base + k*step for rail a and the next /24 for rail b; with a pool, consecutive /24s of the pool. A node's host part
is ``fabric_host_offset`` + its number, on every segment. Cables with explicit networks keep them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, ip_address

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, shown
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.interfaces import RAILS, interface_name
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Cable, Inventory, Member, Plug, Segment, Settings, Topology

PRIVATE = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
"""RFC 1918: what the collection assigns from."""
TOLERATED = PRIVATE + tuple(IPv4Network(text) for text in ("100.64.0.0/10", "169.254.0.0/16", "198.18.0.0/15"))
"""Also found on working fabrics (leases of a switch, link-local, benchmarking): accepted where given explicitly."""
LAST_HOST = 254
SHAPES_WITH_BARE_RAILS = ("pair", "switch")


@dataclass(frozen=True)
class _Group:
    """Plugs that share a layer 2: one cable, or the k-th switch port of every node."""

    name: str
    cables: tuple[Cable, ...]
    explicit: bool

    @property
    def plugs(self) -> tuple[Plug, ...]:
        return tuple(plug for cable in self.cables for plug in cable.plugs)

    def segment_name(self, rail: str) -> str:
        return f"{self.name}/{rail}"


def build_segments(inventory: Inventory, topology: Topology) -> tuple[Segment, ...]:
    """Return the segments in the order of the cables, rail a before rail b.

    Raises FabricError when networks run out, overlap each other or a management address, are not private, put two interfaces of a
    node into one network, or cannot hold a node's address.
    """
    groups = _groups(topology)
    take = _allocator(inventory.settings)
    segments: list[Segment] = []
    place = 0
    for group in groups:
        if group.explicit:
            segments.extend(_explicit_segment(group, rail, inventory, topology.shape) for rail in RAILS)
            continue
        segments.extend(_managed_segment(group, rail, network, inventory) for rail, network in zip(RAILS, take(place, group.name)))
        place += 1
    _check_overlaps(segments)
    _check_management(segments, inventory)
    return tuple(segments)


def _groups(topology: Topology) -> list[_Group]:
    """Return the direct cables one by one, then the switch groups.

    The k-th managed port that a node uses on the switch belongs to group k; cables with explicit networks are grouped by those.
    """
    direct = [_Group(cable.name, (cable,), cable.explicit is not None) for cable in topology.cables if cable.b is not None]
    managed: dict[int, list[Cable]] = {}
    used: dict[str, int] = {}
    explicit: dict[IPv4Network | None, list[Cable]] = {}
    for cable in topology.cables:
        if cable.b is not None:
            continue
        if cable.explicit is None:
            used[cable.a.node] = used.get(cable.a.node, 0) + 1
            managed.setdefault(used[cable.a.node], []).append(cable)
        else:
            key = cable.explicit.networks["a"] or cable.explicit.networks["b"]
            explicit.setdefault(key, []).append(cable)
    switch = [(tuple(cables), False) for _place, cables in sorted(managed.items())] + [
        (tuple(cables), True) for cables in explicit.values()
    ]
    return direct + [_Group(f"switch{place}", cables, given) for place, (cables, given) in enumerate(switch, start=1)]


def _allocator(settings: Settings) -> Callable[[int, str], tuple[IPv4Network, IPv4Network]]:
    """Return the function from (place of a cable, its name) to its two networks."""
    if settings.subnet_pool is not None:
        pool = _own_network("fabric_subnet_pool", settings.subnet_pool, 8, 23)
        room = 2 ** (24 - pool.prefixlen) // 2

        def from_pool(place: int, name: str) -> tuple[IPv4Network, IPv4Network]:
            if place >= room:
                raise FabricError(
                    f"{name} is cable {place + 1} and needs two /24 networks, but fabric_subnet_pool {pool} holds those of {room} cables: "
                    "set fabric_subnet_pool to a larger private network, such as 10.20.0.0/16"
                )
            first = int(pool.network_address) + 512 * place
            return IPv4Network((first, 24)), IPv4Network((first + 256, 24))

        return from_pool

    base = _own_network("fabric_subnet_base", settings.subnet_base, 24, 24)
    third = int(base.network_address) >> 8 & 255

    def from_base(place: int, name: str) -> tuple[IPv4Network, IPv4Network]:
        if third + place * settings.subnet_step + 1 > 255:
            raise FabricError(
                f"{name} is cable {place + 1}, for which fabric_subnet_base {base} and fabric_subnet_step {settings.subnet_step} leave no network "
                f"(they end at {(254 - third) // settings.subnet_step + 1} cables): set fabric_subnet_pool to a private network, such as 10.20.0.0/16"
            )
        first = int(base.network_address) + 256 * place * settings.subnet_step
        return IPv4Network((first, 24)), IPv4Network((first + 256, 24))

    return from_base


def _own_network(variable: str, value: str, shortest: int, longest: int) -> IPv4Network:
    wanted = f"an IPv4 /{shortest} network" if shortest == longest else f"an IPv4 network from /{shortest} to /{longest}"
    try:
        network = IPv4Network(value)
    except ValueError:
        raise FabricError(
            f"{variable} is {shown(value)} (all hosts); expected {wanted} with no host bits set, such as 10.20.0.0/{shortest if shortest == longest else 16}"
        ) from None
    if not shortest <= network.prefixlen <= longest:
        raise FabricError(f"{variable} is {network} (all hosts); expected {wanted}: correct the prefix length")
    if not any(network.subnet_of(private) for private in PRIVATE):
        raise FabricError(
            f"{variable} is {network} (all hosts), which is not private; expected a network of RFC 1918 (10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16; "
            "IPv6 networks of RFC 4193 are not used here): choose one of those"
        )
    return network


def _managed_segment(group: _Group, rail: str, network: IPv4Network, inventory: Inventory) -> Segment:
    members = tuple(Member(plug, rail, _host_address(network, plug, inventory)) for plug in group.plugs)
    return Segment(group.segment_name(rail), rail, network, tuple(cable.name for cable in group.cables), members, managed=True)


def _host_address(network: IPv4Network, plug: Plug, inventory: Inventory) -> IPv4Address:
    offset, number = inventory.settings.host_offset, inventory.node(plug.node).number
    last = network.num_addresses - 2 if network.prefixlen < 31 else 1
    if offset + number > last:
        raise FabricError(
            f"fabric_node_number {number} of {plug.node} plus fabric_host_offset {offset} gives the host part {offset + number}, too large for {network} "
            f"(last: {last}): lower fabric_node_number or fabric_host_offset, or give the address in fabric_cables"
        )
    return network.network_address + offset + number


def _explicit_segment(group: _Group, rail: str, inventory: Inventory, shape: str) -> Segment:
    networks = {cable.explicit.networks[rail] for cable in group.cables if cable.explicit} - {None}
    if len(networks) > 1:
        first, other = sorted(str(network) for network in networks)[:2]
        raise FabricError(
            f"networks of fabric_cables put {group.cables[0].name} and its neighbours on {group.name} into both {first} and {other} on rail {rail}; "
            "cables that share rail a have to share rail b: correct the networks"
        )
    network = next(iter(networks), None)
    if network is not None and not any(network.subnet_of(tolerated) for tolerated in TOLERATED):
        raise FabricError(
            f"networks of {group.cables[0].name} in fabric_cables give {network} on rail {rail}, which is not private; expected a private "
            f"network (RFC 1918): renumber the cable"
        )
    members = []
    for cable in group.cables:
        for plug in cable.plugs:
            address = _explicit_address(cable, plug, rail, network, inventory)
            if address is None and shape not in SHAPES_WITH_BARE_RAILS:
                raise FabricError(
                    f"fabric_cables gives {cable.name} no address for {plug} on rail {rail}; on a {shape} NCCL finds its way by addresses, "
                    f"so both rails need one "
                    "(only a pair or a switch runs without): add the network and the address"
                )
            members.append(Member(plug, rail, address))
    _check_members(group, rail, network, members)
    return Segment(group.segment_name(rail), rail, network, tuple(cable.name for cable in group.cables), tuple(members), managed=False)


def _explicit_address(cable: Cable, plug: Plug, rail: str, network: IPv4Network | None, inventory: Inventory) -> IPv4Address | None:
    if network is None or cable.explicit is None or cable.explicit.networks[rail] is None:
        return None
    if cable.explicit.addresses is None:
        return _host_address(network, plug, inventory)
    return cable.explicit.addresses[plug][rail]


def _check_members(group: _Group, rail: str, network: IPv4Network | None, members: list[Member]) -> None:
    seen: dict[IPv4Address, Plug] = {}
    nodes: dict[str, Plug] = {}
    for member in members:
        if member.address is None or network is None:
            continue
        where = f"{member.plug} rail {rail} ({interface_name(member.plug.port, rail)})"
        if network.prefixlen < 31 and member.address in (network.network_address, network.broadcast_address):
            raise FabricError(
                f"fabric_cables gives {where} the address {member.address}, the network or broadcast address of {network}: choose a host address"
            )
        if member.plug.node in nodes:
            raise FabricError(
                f"fabric_cables puts both {nodes[member.plug.node]} and {where} into {network}; two interfaces of one node never share a network: use two"
            )
        if member.address in seen:
            raise FabricError(
                f"fabric_cables gives {member.address} to both {seen[member.address]} and {where} on {group.name}: correct one of them"
            )
        seen[member.address] = member.plug
        nodes[member.plug.node] = member.plug


def _check_overlaps(segments: list[Segment]) -> None:
    """Raise when two segments overlap; among sorted networks, an overlap shows between neighbours."""
    numbered = sorted((segment.network, segment.name) for segment in segments if segment.network is not None)
    by_name = {segment.name: segment for segment in segments}
    for (network, name), (following, other) in zip(numbered, numbered[1:]):
        if network.overlaps(following):
            raise FabricError(
                f"{name} ({network}) and {other} ({following}) overlap, and no node may have two interfaces in one network"
                f"{_twins(by_name[name], by_name[other])}: correct {_origin(by_name[name], by_name[other])}"
            )


def _twins(one: Segment, other: Segment) -> str:
    return " (twins of one port, which share a wire, need two networks as well)" if one.cables == other.cables else ""


def _origin(one: Segment, other: Segment) -> str:
    return (
        "fabric_subnet_base, fabric_subnet_step or fabric_subnet_pool" if one.managed and other.managed else "the networks in fabric_cables"
    )


def _check_management(segments: list[Segment], inventory: Inventory) -> None:
    for node in inventory.nodes:
        try:
            address = ip_address(node.management_address)
        except ValueError:
            continue
        for segment in segments:
            if segment.network is not None and address in segment.network:
                variables = "fabric_subnet_base or fabric_subnet_pool" if segment.managed else "the networks in fabric_cables"
                raise FabricError(
                    f"{node.management_address_from} of {node.name} is {address}, which lies in {segment.network}, the network of "
                    f"{segment.name}; the fabric must "
                    f"not overlap the management network: set {variables} to another network, or give the node's management address"
                )
