# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The model of a cluster: what the inventory says, as data that cannot change.

Everything derived (topology, addresses, tests) is computed from these by pure functions. A *plug* is one end of a cable at a
node, written ``spark1:0``; a cable's ``b`` is None where it ends at the switch.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

Rates = tuple[tuple[int, float], ...]
"""Gb/s by the number of tests at once in the cluster, ascending."""


@dataclass(frozen=True)
class Settings:
    """The cluster's variables, without their prefix; ``variables.py`` says what each means."""

    cluster_name: str
    topology: str
    cables: Any
    ring_order: tuple[str, ...] | None
    subnet_base: str
    subnet_step: int
    subnet_pool: str | None
    host_offset: int
    mtu: int
    netplan_optional: bool
    netplan_renderer: str
    netplan_path: str
    apply_batch: int
    ssh_mesh: bool
    link_gbps: float
    rail_gbps: Rates | None
    rail_bidirectional_gbps: Rates | None
    test_seconds: int
    test_qp_timeout: int | None
    test_size_bytes: int | None
    test_queue_pairs: int | None
    rdma_tests: tuple[str, ...]
    latency_iterations: int
    iperf3_streams: tuple[int, ...]
    iperf3_seconds: int
    test_repeats: int
    max_concurrent_tests: int | None
    switch_pairs: str
    control_port: int
    test_port_base: int
    force_busy: bool
    drift_fails: bool
    fail_on: str
    rules: Any
    nccl_version: str | None
    nccl_prefix: str | None
    nccl_source: Any
    nccl_image: str | None
    nccl_bootstrap: str
    nccl_profile: str
    nccl_environment: Any
    packages: bool


@dataclass(frozen=True)
class Node:
    """One Spark as the inventory gives it. ``ports`` is None where the inventory leaves them to the topology."""

    name: str
    number: int
    ports: tuple[int, ...] | None
    management_interface: str | None
    management_address: str
    management_address_from: str
    ssh_user: str | None
    foreign_netplan: str
    local: bool


@dataclass(frozen=True)
class Inventory:
    """All nodes in the order of the group of that name, the cluster's settings, and what is to be said about unknown variables."""

    nodes: tuple[Node, ...]
    settings: Settings
    unknown: tuple[tuple[str, str], ...]
    group: str

    def node(self, name: str) -> Node:
        """Return the node of a name that is known to exist."""
        return next(node for node in self.nodes if node.name == name)


@dataclass(frozen=True, order=True)
class Plug:
    """One end of a cable: a port of a node."""

    node: str
    port: int

    def __str__(self) -> str:
        return f"{self.node}:{self.port}"


@dataclass(frozen=True)
class Explicit:
    """Networks and addresses that the inventory gives for a cable, each by rail; None is a rail without IPv4.

    ``addresses`` is None where only the networks are given and the hosts' parts follow from the node numbers.
    """

    networks: dict[str, IPv4Network | None]
    addresses: dict[Plug, dict[str, IPv4Address | None]] | None


@dataclass(frozen=True)
class Cable:
    """A cable between two plugs, or from a plug to the switch (``b`` is None)."""

    a: Plug
    b: Plug | None
    explicit: Explicit | None = None

    @property
    def name(self) -> str:
        """The cable's name: ``spark1:0-spark2:1`` or ``spark1:1-switch``."""
        return f"{self.a}-{self.b if self.b else 'switch'}"

    @property
    def plugs(self) -> tuple[Plug, ...]:
        """Its ends at nodes."""
        return (self.a,) if self.b is None else (self.a, self.b)


@dataclass(frozen=True)
class Topology:
    """The cables in their order, the shape that they make, and the order of NCCL's ranks."""

    shape: str
    cables: tuple[Cable, ...]
    rank_order: tuple[str, ...]

    def cables_of(self, node: str) -> list[tuple[int, Cable]]:
        """Return (port, cable) of a node, by port."""
        return sorted(((plug.port, cable) for cable in self.cables for plug in cable.plugs if plug.node == node), key=lambda pair: pair[0])


@dataclass(frozen=True)
class Member:
    """An interface in a segment; ``address`` is None on a rail without IPv4."""

    plug: Plug
    rail: str
    address: IPv4Address | None


@dataclass(frozen=True)
class Segment:
    """One network: one cable, or one of the switch's groups of ports, on one rail."""

    name: str
    rail: str
    network: IPv4Network | None
    cables: tuple[str, ...]
    members: tuple[Member, ...]
    managed: bool
