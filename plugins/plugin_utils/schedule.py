# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rounds of measurements: the fewest possible, and nothing in a round disturbs anything else in it.

Both cages of a Spark share two PCIe x4 links, full duplex. So in a *directed* round a node sends to one node and receives from
one (both rails of the cable together); in a *bidirectional* round a run holds (node, rail) and the wire of (node, port) at both
ends for itself, and the rails are staggered over different cables.

Least numbers of rounds, which property tests hold for up to 64 nodes:

=============  ==============================  =========================================
shape          directed                        bidirectional
=============  ==============================  =========================================
pair           1 (2 with two cables)           2
mesh, ring     2                               2 when even, 3 when odd
switch         2 (n = 2: 1), all pairs: n-1    n = 2: 2, even: 4, 3: 6, odd: 5
graph          largest number of sends a node  at most 3 where there is no switch
=============  ==============================  =========================================
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.edge_colouring import (
    bipartite_colours,
    doubled_ring_colours,
    first_fit,
    ring_colours,
)
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.interfaces import RAILS
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Inventory, Plug, Segment, Topology
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rank_order import Chain, chains

OTHER_RAIL = {"a": "b", "b": "a"}


@dataclass(frozen=True)
class Run:
    """One transfer on one rail, from ``client`` to ``server`` (or both ways at once)."""

    client: Plug
    server: Plug
    rail: str
    cables: tuple[str, ...]
    bidirectional: bool

    @property
    def resources(self) -> frozenset[Hashable]:
        """What the run must have for itself in its round."""
        if self.bidirectional:
            rails = {("rail", plug.node, self.rail) for plug in (self.client, self.server)}
            return frozenset(rails | {("wire", plug) for plug in (self.client, self.server)})
        return frozenset((("sends", self.client.node, self.rail), ("receives", self.server.node, self.rail)))


@dataclass(frozen=True)
class Link:
    """Two plugs between which tests run: the ends of a cable, or two nodes on the switch."""

    tail: Plug
    head: Plug
    cables: tuple[str, ...]

    def runs(self, forward: bool) -> list[Run]:
        """Return the two directed runs (one a rail) in one direction."""
        client, server = (self.tail, self.head) if forward else (self.head, self.tail)
        return [Run(client, server, rail, self.cables, bidirectional=False) for rail in RAILS]

    def both_ways(self, rail: str) -> Run:
        """Return the bidirectional run on one rail."""
        return Run(self.tail, self.head, rail, self.cables, bidirectional=True)


Rounds = list[list[Run]]


@dataclass(frozen=True)
class _SwitchGroup:
    """The plugs of one switch group, by node number, with their cables."""

    plugs: tuple[Plug, ...]
    cables: tuple[str, ...]

    def link(self, here: int, there: int) -> Link:
        return Link(self.plugs[here], self.plugs[there], (self.cables[here], self.cables[there]))


def directed_rounds(inventory: Inventory, topology: Topology, segments: tuple[Segment, ...], everything: bool) -> Rounds:
    """Return the rounds in which every direction of every link runs once, both rails together.

    ``everything``: a link on a switch is any pair of nodes; else each node has two partners there.
    """
    found = chains(topology.cables, _by_number(inventory))
    groups = _switch_groups(inventory, topology, segments)
    if not groups:
        return _directed_chains(found)
    turns = [_rotations(group, everything) for group in groups]
    if not found and sum(len(turn) for turn in turns) == _most_sends(turns):
        return [runs for turn in turns for runs in turn]
    directed = [run for turn in turns for runs in turn for run in runs]
    directed += [run for chain in found for step in _links(chain) for forward in (True, False) for run in step.runs(forward)]
    leaders = [run for run in directed if run.rail == RAILS[0]]
    twins = {(run.client, run.server): run for run in directed if run.rail != RAILS[0]}
    colours = bipartite_colours([(run.client.node, run.server.node) for run in leaders])
    rounds: Rounds = [[] for _colour in range(max(colours, default=-1) + 1)]
    for run, colour in zip(leaders, colours):
        rounds[colour] += [run, twins[(run.client, run.server)]]
    return rounds


def bidirectional_rounds(inventory: Inventory, topology: Topology, segments: tuple[Segment, ...]) -> Rounds:
    """Return the rounds in which every rail of every cable runs once both ways at once, alone on its PCIe links and its wire.

    On a switch each node is measured with two partners (its neighbours in the order of the numbers), whatever ``fabric_switch_pairs``.
    """
    direct = _bidirectional_chains(chains(topology.cables, _by_number(inventory)))
    rounds: Rounds = []
    for group in _switch_groups(inventory, topology, segments):
        rounds = _merged(rounds, [_doubled_ring(group, swapped=False), _doubled_ring(group, swapped=True)])
    return _merged(rounds, [direct])


def one_rail_rounds(directed: Rounds) -> Rounds:
    """Return the directed rounds anew, with each rail of a link in a round of its own: as many rounds, at least two.

    The rails are staggered: while rail a runs one way, rail b runs another, so that neither has its twin beside it on the cable.
    """
    if len(directed) > 1:
        return [_of_rail(runs, RAILS[0]) + _of_rail(after, RAILS[1]) for runs, after in zip(directed, directed[1:] + directed[:1])]
    forward, backward = [], []
    seen: set[frozenset[Plug]] = set()
    for run in directed[0] if directed else []:
        ends = frozenset((run.client, run.server))
        if run.rail == RAILS[0]:
            (backward if ends in seen else forward).append(run)
            seen.add(ends)
    ways = {(run.client, run.server) for run in forward}
    twins = _of_rail(directed[0] if directed else [], RAILS[1])
    there, back = [run for run in twins if (run.client, run.server) in ways], [run for run in twins if (run.client, run.server) not in ways]
    return [runs for runs in (forward + back, backward + there) if runs]


def _of_rail(runs: list[Run], rail: str) -> list[Run]:
    return [run for run in runs if run.rail == rail]


def split(rounds: Rounds, most: int | None) -> Rounds:
    """Return the rounds cut so that none has more than ``most`` runs; twins on one cable stay together where they fit."""
    if most is None:
        return rounds
    result: Rounds = []
    for runs in rounds:
        twins: dict[tuple[Plug, Plug], list[Run]] = {}
        for run in runs:
            twins.setdefault((run.client, run.server), []).append(run)
        current: list[Run] = []
        for group in twins.values():
            for part in [group] if len(group) <= most else [[run] for run in group]:
                if len(current) + len(part) > most:
                    result.append(current)
                    current = []
                current = current + part
        if current:
            result.append(current)
    return result


def _by_number(inventory: Inventory) -> list[str]:
    return [node.name for node in sorted(inventory.nodes, key=lambda node: node.number)]


def _links(chain: Chain) -> list[Link]:
    return [Link(step.tail, step.head, (step.cable.name,)) for step in chain.steps]


def _directed_chains(found: list[Chain]) -> Rounds:
    """Return one round where all chains are single cables (a node sends and receives on it); else all forward, then all backward."""
    forward = [run for chain in found for link in _links(chain) for run in link.runs(True)]
    backward = [run for chain in found for link in _links(chain) for run in link.runs(False)]
    if all(len(chain.steps) == 1 for chain in found):
        return [forward + backward]
    return [forward, backward]


def _bidirectional_chains(found: list[Chain]) -> Rounds:
    """Return the rounds of node-to-node cables: a proper colouring of the cables, rail b one colour after rail a."""
    if not found:
        return []
    coloured = [(link, colour) for chain in found for link, colour in zip(_links(chain), _chain_colours(chain))]
    count = max(2, max(colour for _link, colour in coloured) + 1)
    rounds: Rounds = [[] for _round in range(count)]
    for link, colour in coloured:
        rounds[colour].append(link.both_ways("a"))
        rounds[(colour + 1) % count].append(link.both_ways("b"))
    return rounds


def _chain_colours(chain: Chain) -> list[int]:
    return ring_colours(len(chain.steps)) if chain.closed else [place % 2 for place in range(len(chain.steps))]


def _switch_groups(inventory: Inventory, topology: Topology, segments: tuple[Segment, ...]) -> list[_SwitchGroup]:
    numbers = {node.name: node.number for node in inventory.nodes}
    cable_at = {plug: cable.name for cable in topology.cables if cable.b is None for plug in cable.plugs}
    groups = []
    for segment in segments:
        if segment.rail == RAILS[0] and segment.members[0].plug in cable_at:
            plugs = tuple(sorted((member.plug for member in segment.members), key=lambda plug: (numbers[plug.node], plug.port)))
            if len(plugs) > 1:
                groups.append(_SwitchGroup(plugs, tuple(cable_at[plug] for plug in plugs)))
    return groups


def _rotations(group: _SwitchGroup, everything: bool) -> Rounds:
    """Return the rounds i -> i+k on a switch: k = 1..n-1 for all pairs, or the two neighbours 1 and n-1."""
    count = len(group.plugs)
    steps = range(1, count) if everything else sorted({1, count - 1})
    return [[run for here in range(count) for run in group.link(here, (here + step) % count).runs(True)] for step in steps]


def _most_sends(turns: list[Rounds]) -> int:
    sends: dict[str, int] = {}
    for turn in turns:
        for runs in turn:
            for run in runs:
                if run.rail == RAILS[0]:
                    sends[run.client.node] = sends.get(run.client.node, 0) + 1
    return max(sends.values())


def _doubled_ring(group: _SwitchGroup, swapped: bool) -> Rounds:
    """Return the rounds in which each node of a switch group runs both rails with both neighbours.

    ``swapped`` exchanges the rails, so that a second group of the same nodes fits into the same rounds.
    """
    count = len(group.plugs)
    first, second = (OTHER_RAIL[rail] if swapped else rail for rail in RAILS)
    if count == 2:
        link = group.link(0, 1)
        return [[link.both_ways(first)], [link.both_ways(second)]]
    pairs = doubled_ring_colours(count)
    rounds: Rounds = [[] for _round in range(max(max(pair) for pair in pairs) + 1)]
    for here, (one, two) in enumerate(pairs):
        link = group.link(here, (here + 1) % count)
        rounds[one].append(link.both_ways(first))
        rounds[two].append(link.both_ways(second))
    return rounds


def _merged(rounds: Rounds, variants: list[Rounds]) -> Rounds:
    """Return the shortest way to run both: one of the variants beside the rounds, its runs fitted in singly, or one after the other."""
    if not rounds or not variants[0]:
        return rounds or variants[0]
    candidates = []
    for variant in variants:
        if all(_compatible(ours, theirs) for ours, theirs in zip(rounds, variant)):
            longer, shorter = (rounds, variant) if len(rounds) >= len(variant) else (variant, rounds)
            candidates.append([runs + (shorter[place] if place < len(shorter) else []) for place, runs in enumerate(longer)])
    runs = [run for each in variants[0] for run in each]
    candidates.append(first_fit(runs, {run: run.resources for run in runs + [run for each in rounds for run in each]}, rounds))
    candidates.append(rounds + variants[0])
    return min(candidates, key=len)


def _compatible(ours: list[Run], theirs: list[Run]) -> bool:
    held = {resource for run in ours for resource in run.resources}
    return not any(held & run.resources for run in theirs)
