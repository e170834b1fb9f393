# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""From the inventory to cables: the cabling that each topology means, and the shape that declared cables make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cable_list import read_cables
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, closest
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.interfaces import PORTS
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Cable, Inventory, Node, Plug, Topology
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rank_order import rank_order

MOST_NODES = 64
MOST_SWITCH_NODES = 200
ACCEPTED_SHAPES = {
    "pair": ("pair",),
    "mesh": ("mesh",),
    "ring": ("ring", "mesh"),
    "switch": ("switch",),
    "custom": ("pair", "mesh", "ring", "switch", "graph"),
}


def build_topology(inventory: Inventory) -> Topology:
    """Return the cables of the cluster in their order, their shape and the rank order.

    Cables are ordered by (lower node number, higher node number, the lower node's port); a switch stands behind all nodes.
    Raises FabricError when the number of nodes, the ports or the declared cables do not fit the topology.
    """
    topology = inventory.settings.topology
    _check_count(inventory)
    declared = read_cables(inventory)
    if declared:
        cables = _ordered(declared, inventory)
        shape = shape_of(cables, [node.name for node in inventory.nodes])
        if shape not in ACCEPTED_SHAPES[topology]:
            raise FabricError(
                f"fabric_topology is {topology}, but the cables of fabric_cables make a {shape}; correct the cables, or set fabric_topology to "
                f"{'custom' if shape == 'graph' else shape} (custom takes every cabling)"
            )
    elif topology == "custom":
        raise FabricError('fabric_topology is custom, but fabric_cables is empty; list every cable, such as {a: "spark1:0", b: "spark2:1"}')
    else:
        cables = _ordered({"pair": _pair, "mesh": _closed_ring, "ring": _closed_ring, "switch": _switch}[topology](inventory), inventory)
        shape = shape_of(cables, [node.name for node in inventory.nodes])
    _check_mesh(shape, cables)
    return Topology(shape=shape, cables=cables, rank_order=rank_order(shape, cables, inventory))


def _check_count(inventory: Inventory) -> None:
    count, topology, first = len(inventory.nodes), inventory.settings.topology, inventory.nodes[0].name
    if count < 2:
        raise FabricError(f"the group {inventory.group} has 1 node, {first}; a fabric needs at least 2: add nodes to the inventory")
    if topology == "pair" and count != 2:
        raise FabricError(
            f"fabric_topology is pair, which has exactly 2 nodes, but the group {inventory.group} has {count} ({first}, ...); set mesh, ring or switch"
        )
    if topology == "mesh" and count != 3:
        raise FabricError(
            f"fabric_topology is mesh, which has exactly 3 nodes, but the group {inventory.group} has {count} ({first}, ...); set pair, ring or switch"
        )
    if topology == "ring" and count < 3:
        raise FabricError(f"fabric_topology is ring, which has at least 3 nodes, but the group {inventory.group} has {count} ({first}, ...); set pair")
    most = MOST_SWITCH_NODES if topology == "switch" else MOST_NODES
    if count > most:
        raise FabricError(
            f"the group {inventory.group} has {count} nodes ({first}, ...); fabric_topology {topology} takes at most {most}: split the cluster"
        )


def _ports(node: Node) -> tuple[int, ...]:
    return (1,) if node.ports is None else node.ports


def _pair(inventory: Inventory) -> list[Cable]:
    """Return the cables of a pair: the k-th port of one node to the k-th of the other."""
    one, two = inventory.nodes
    if len(_ports(one)) != len(_ports(two)):
        raise FabricError(
            f"fabric_ports is {list(_ports(one))} on {one.name} but {list(_ports(two))} on {two.name}; each cable of a pair takes a port of both: "
            "give both nodes the same number of ports"
        )
    return [Cable(Plug(one.name, here), Plug(two.name, there)) for here, there in zip(_ports(one), _ports(two))]


def _switch(inventory: Inventory) -> list[Cable]:
    return [Cable(Plug(node.name, port), None) for node in inventory.nodes for port in _ports(node)]


def _closed_ring(inventory: Inventory) -> list[Cable]:
    """Return the cables of a mesh or ring: port 0 of each place to port 1 of the next, closed."""
    topology = inventory.settings.topology
    for node in inventory.nodes:
        if node.ports is not None and set(node.ports) != set(PORTS):
            raise FabricError(
                f"fabric_ports of {node.name} is {list(node.ports)}; a {topology} uses both ports of every node: remove fabric_ports, or set [0, 1]"
            )
    order = _ring_order(inventory)
    return [Cable(Plug(here, 0), Plug(there, 1)) for here, there in zip(order, order[1:] + order[:1])]


def _ring_order(inventory: Inventory) -> list[str]:
    names = [node.name for node in sorted(inventory.nodes, key=lambda node: node.number)]
    order = inventory.settings.ring_order
    if order is None:
        return names
    for name in order:
        if name not in names:
            raise FabricError(
                f"fabric_ring_order names the unknown host {name}{closest(name, names)}; expected each host of the group {inventory.group} once: correct it"
            )
        if order.count(name) > 1:
            raise FabricError(
                f"fabric_ring_order names {name} {order.count(name)} times; expected each host of the group {inventory.group} once: remove the repetition"
            )
    missing = [name for name in names if name not in order]
    if missing:
        raise FabricError(
            f"fabric_ring_order lacks {', '.join(missing[:8])}; expected each host of the group {inventory.group} once: add what is missing"
        )
    return list(order)


def _ordered(cables: tuple[Cable, ...] | list[Cable], inventory: Inventory) -> tuple[Cable, ...]:
    numbers = {node.name: node.number for node in inventory.nodes}
    behind = max(numbers.values()) + 1
    turned = [
        cable if cable.b is None or numbers[cable.a.node] < numbers[cable.b.node] else Cable(cable.b, cable.a, cable.explicit)
        for cable in cables
    ]
    return tuple(
        sorted(
            turned, key=lambda cable: (numbers[cable.a.node], numbers[cable.b.node] if cable.b else behind, cable.a.port if cable.b else 0)
        )
    )


def shape_of(cables: Sequence[Cable], nodes: Iterable[str]) -> str:
    """Return the shape that the cables make of the nodes: pair, mesh, ring, switch, or graph for everything else.

    Raises FabricError when a node has no cable.
    """
    degree = {name: 0 for name in nodes}
    neighbours: dict[str, set[str]] = {name: set() for name in degree}
    for cable in cables:
        for plug in cable.plugs:
            degree[plug.node] += 1
        if cable.b is not None:
            neighbours[cable.a.node].add(cable.b.node)
            neighbours[cable.b.node].add(cable.a.node)
    for name, count in degree.items():
        if count == 0:
            raise FabricError(
                f"{name} has no cable in fabric_cables; every node needs at least one: add its cable, or take {name} out of the inventory's group"
            )
    to_switch = [cable for cable in cables if cable.b is None]
    if to_switch:
        return "switch" if len(to_switch) == len(cables) else "graph"
    if len(degree) == 2:
        return "pair"
    if all(len(near) == 2 for near in neighbours.values()) and _connected(neighbours):
        return "mesh" if len(degree) == 3 else "ring"
    return "graph"


def _connected(neighbours: dict[str, set[str]]) -> bool:
    start = next(iter(neighbours))
    seen, waiting = {start}, [start]
    while waiting:
        for name in neighbours[waiting.pop()] - seen:
            seen.add(name)
            waiting.append(name)
    return len(seen) == len(neighbours)


def _check_mesh(shape: str, cables: tuple[Cable, ...]) -> None:
    for cable in cables:
        if shape == "mesh" and cable.b is not None and cable.a.port == cable.b.port:
            raise FabricError(
                f"the cable {cable.name} of the mesh joins equal port numbers ({cable.a.node} port {cable.a.port}, {cable.b.node} port {cable.b.port}); "
                "NCCL fails on it and no variable helps: plug every cable from port 0 of one node to port 1 of the next, and correct fabric_cables"
            )
