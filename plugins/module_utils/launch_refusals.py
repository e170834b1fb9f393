# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reasons not to launch at all: orders, meeting places and versions that are known to fail after minutes of waiting. Pure.

Without a switch NCCL's ring needs a cable between each rank and the next; a rank order across the ring's diagonal ends in ``ibv_modify_qp`` 110, a
rendezvous on a data address in "3/4 clients joined" after three minutes, an NCCL before 2.30.7 connects over cables that do not reach the peer.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence

SWITCHLESS = ("mesh", "ring", "graph")
MEETING_VARIABLES = ("NCCL_SOCKET_IFNAME", "NCCL_COMM_ID", "MASTER_ADDR")
FABRIC_INTERFACE = re.compile(r"^(?:enp1|enP2p1)s0f[01]", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Refusal:
    """One reason: its class ``id``, the ``nodes`` it is about, and the sentence."""

    id: str
    nodes: tuple[str, ...]
    message: str
    fix: str


def order_refusals(order: Sequence[str], links: Iterable[Sequence[str]], shape: str, planned: Sequence[str]) -> list[Refusal]:
    """Refuse an order in which a rank and the next have no cable.

    :param order: nodes in the order of the ranks
    :param links: pairs of nodes that can reach each other directly
    :param planned: the plan's order, which is offered instead
    """
    known = {frozenset(link) for link in links}
    unknown = [node for node in order if node not in planned]
    if unknown or len(set(order)) != len(order):
        return [
            Refusal(
                "order", tuple(unknown), f"the rank order {', '.join(order)} names {', '.join(unknown) or 'a node twice'}",
                f"Name each node once; the plan's order is {', '.join(planned)}.")
        ]
    if shape not in SWITCHLESS or len(order) < 2:
        return []
    hops = list(zip(order, [*order[1:], order[0]])) if len(order) > 2 else [(order[0], order[1])]
    return [
        Refusal(
            "order", (tail, head),
            f"ranks {order.index(tail)} and {order.index(head)} would be {tail} and {head}, which have no cable between them "
            f"(order {', '.join(order)}): NCCL would wait for them and fail with ibv_modify_qp 110",
            f"Use the physical order round the ring, {', '.join(planned)}: leave nccl_tests_order out, or correct fabric_cables if there is such a cable.")
        for tail, head in hops if frozenset((tail, head)) not in known
    ]


def meeting_refusals(
    shape: str, addresses: Mapping[str, str], fabric_networks: Iterable[str], environments: Mapping[str, Mapping[str, str]]
) -> list[Refusal]:
    """Refuse a rendezvous on an address or interface of the fabric where no fabric network reaches every node.

    :param addresses: the address of each node that the launch would use
    :param fabric_networks: networks of the fabric's segments
    :param environments: NCCL's environment of each node
    """
    if shape not in SWITCHLESS:
        return []
    networks = [ipaddress.ip_network(network) for network in fabric_networks]
    found = []
    for node, address in addresses.items():
        network = _network_of(address, networks)
        if network is not None:
            found.append(_meeting(node, f"its address {address} lies on {network}, a network of the fabric", shape))
    for node, environment in environments.items():
        for name in MEETING_VARIABLES:
            value = environment.get(name, "")
            for part in re.split(r"[,;\s]+", value):
                place = part.lstrip("=^").partition(":")[0]
                network = _network_of(place, networks)
                if network is not None or (not value.startswith("^") and FABRIC_INTERFACE.match(place)):
                    found.append(_meeting(node, f"{name}={value} is on the fabric", shape))
                    break
    return found


def _network_of(text: str, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> str | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return next((str(network) for network in networks if address in network), None)


def _meeting(node: str, what: str, shape: str) -> Refusal:
    return Refusal(
        "rendezvous", (node,),
        f"the ranks would meet over the fabric on {node}: {what}; on a {shape} no fabric network reaches every node, and the launch would end "
        "after three minutes with ranks missing",
        f"Use {node}'s management address and interface: set fabric_management_address or fabric_management_interface, and take "
        "NCCL_SOCKET_IFNAME out of fabric_nccl_environment.")


def version_numbers(version: str | None) -> tuple[int, ...]:
    """Return (2, 30, 7) from ``v2.30.7-1``, () when it is none."""
    match = re.match(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?", version or "", re.ASCII)
    return tuple(int(part) for part in match.groups() if part is not None) if match else ()


def version_refusals(versions: Mapping[str, str | None], least: str | None) -> list[Refusal]:
    """Refuse an NCCL that is older than the plan needs; a version that is not known refuses nothing here."""
    wanted = version_numbers(least)
    old = {node: version for node, version in versions.items() if version and wanted and version_numbers(version) < wanted}
    if not old:
        return []
    told = ", ".join(f"{node} has {version}" for node, version in old.items())
    return [
        Refusal(
            "version", tuple(old),
            f"NCCL is older than the {least} that this fabric needs ({told}): it ignores NCCL_IB_SUBNET_AWARE_ROUTING without a word and connects over "
            "cables that do not reach the peer",
            f"Install NCCL {least} or later (fabric_nccl_version, or fabric_nccl_prefix for one of your own).")
    ]
