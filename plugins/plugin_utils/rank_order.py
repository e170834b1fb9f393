# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Walks along the cables: chains of nodes joined by cables, and the order of NCCL's ranks.

A node has two ports, so without a switch every connected part of a cluster is a path or a closed ring (two parallel cables
being a ring of two).
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Cable, Inventory, Plug


@dataclass(frozen=True)
class Step:
    """One cable walked from ``tail`` to ``head``."""

    cable: Cable
    tail: Plug
    head: Plug


@dataclass(frozen=True)
class Chain:
    """A path or closed ring of steps; a closed one ends where it began."""

    steps: tuple[Step, ...]
    closed: bool

    @property
    def nodes(self) -> tuple[str, ...]:
        """Its nodes in walking order, each once."""
        nodes = [step.tail.node for step in self.steps]
        return tuple(nodes if self.closed else [*nodes, self.steps[-1].head.node])


def chains(cables: tuple[Cable, ...], order: list[str]) -> list[Chain]:
    """Return the chains that the node-to-node cables make.

    ``order`` (by node number) decides where a walk begins: a path at its end of the lower number, a ring at its lowest node, leaving
    by port 0 (or the lowest port with such a cable).
    """
    at: dict[Plug, Cable] = {plug: cable for cable in cables if cable.b is not None for plug in cable.plugs}
    plugs = {name: [Plug(name, port) for port in (0, 1) if Plug(name, port) in at] for name in order}
    found: list[Chain] = []
    walked: set[str] = set()
    ends = [name for name in order if len(plugs[name]) == 1]
    for start in ends + [name for name in order if len(plugs[name]) == 2]:
        if plugs[start] and at[plugs[start][0]].name not in walked:
            found.append(_walk(plugs[start][0], at, walked))
    place = {name: index for index, name in enumerate(order)}
    return sorted(found, key=lambda chain: min(place[name] for name in chain.nodes))


def _walk(start: Plug, at: dict[Plug, Cable], walked: set[str]) -> Chain:
    steps: list[Step] = []
    tail = start
    while True:
        cable = at[tail]
        walked.add(cable.name)
        head = next(plug for plug in cable.plugs if plug != tail)
        steps.append(Step(cable, tail, head))
        onward = Plug(head.node, 1 - head.port)
        if onward == start:
            return Chain(tuple(steps), closed=True)
        if onward not in at:
            return Chain(tuple(steps), closed=False)
        tail = onward


def rank_order(shape: str, cables: tuple[Cable, ...], inventory: Inventory) -> tuple[str, ...]:
    """Return the hosts in the order of NCCL's ranks.

    On a ring this is the physical order, beginning at the lowest node number and leaving by its port 0; on a graph the nodes stand chain
    after chain. Where every pair of nodes has a way (pair, mesh, switch), the order is that of the node numbers.
    """
    by_number = [node.name for node in sorted(inventory.nodes, key=lambda node: node.number)]
    if shape not in ("ring", "graph"):
        return tuple(by_number)
    ranked: list[str] = []
    for chain in chains(cables, by_number):
        ranked.extend(name for name in chain.nodes if name not in ranked)
    return tuple(ranked + [name for name in by_number if name not in ranked])
