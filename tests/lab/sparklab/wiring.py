# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which port is joined to which: the lab's topologies as pure data.

Names follow the collection: nodes ``spark1``…, ports 0 and 1, cables ``spark1:0-spark2:1`` (lower node number first)
or ``spark1:1-switch``; a cable carries both twins of both ends.
"""

from __future__ import annotations

import dataclasses
import re

from .errors import LabError

TOPOLOGIES = ("pair", "mesh", "ring", "switch")
MAX_NODES = 8
SWITCH = "switch"


@dataclasses.dataclass(frozen=True, order=True)
class End:
    """One end of a cable: a node's number (from 1) and its port (0 or 1)."""

    node: int
    port: int

    def __str__(self) -> str:
        return f"spark{self.node}:{self.port}"


@dataclasses.dataclass(frozen=True)
class Cable:
    """A cable from ``a`` to ``b``; ``b`` is None when it ends in the switch."""

    a: End
    b: End | None

    @property
    def name(self) -> str:
        """Name of the cable, as the collection calls it."""
        return f"{self.a}-{self.b if self.b else SWITCH}"

    @property
    def ends(self) -> tuple[End, ...]:
        """The ends that are ports of nodes."""
        return (self.a, self.b) if self.b else (self.a,)


@dataclasses.dataclass(frozen=True)
class Wiring:
    """The whole fabric: topology (``custom`` for cables listed by hand), number of nodes, cables in order, ring order."""

    topology: str
    nodes: int
    cables: tuple[Cable, ...]
    order: tuple[int, ...] = ()

    @property
    def numbers(self) -> range:
        """Node numbers."""
        return range(1, self.nodes + 1)

    def cabled(self) -> dict[End, Cable]:
        """Map each used port to its cable."""
        return {end: cable for cable in self.cables for end in cable.ends}

    def find(self, text: str) -> Cable:
        """Find a cable by name (either end first) or by number from 1.

        Raises:
            LabError: no such cable; the text lists those that exist.
        """
        for place, cable in enumerate(self.cables, 1):
            names = {cable.name, str(place)}
            names.add("-".join(reversed(cable.name.split("-"))))
            if text in names:
                return cable
        known = ", ".join(f"{place}: {cable.name}" for place, cable in enumerate(self.cables, 1))
        raise LabError(f"no cable {text!r} in this lab; its cables are {known}")

    def node(self, text: str) -> int:
        """Return a node's number from ``spark2`` or ``2``.

        Raises:
            LabError: no such node.
        """
        match = re.fullmatch(r"(?:spark)?(\d+)", text)
        if not match or int(match[1]) not in self.numbers:
            raise LabError(f"no node {text!r} in this lab; its nodes are {', '.join(f'spark{n}' for n in self.numbers)}")
        return int(match[1])


def parse_cable(text: str) -> Cable:
    """Read ``spark1:0-spark2:1`` or ``spark1:1-switch``.

    Raises:
        LabError: not in that form, or both ends on one node.
    """
    parts = text.split("-")
    ends = []
    for part in parts:
        if part == SWITCH:
            continue
        match = re.fullmatch(r"spark([1-9]\d*):([01])", part)
        if not match:
            raise LabError(f"cable {text!r}: {part!r} is no end; write spark1:0-spark2:1 or spark1:1-switch (ports are 0 and 1)")
        ends.append(End(int(match[1]), int(match[2])))
    if len(parts) != 2 or not ends:
        raise LabError(f"cable {text!r}: write spark1:0-spark2:1 or spark1:1-switch")
    if len(ends) == 1:
        return Cable(ends[0], None)
    a, b = sorted(ends)
    if a.node == b.node:
        raise LabError(f"cable {text!r} joins spark{a.node} to itself; give two nodes")
    return Cable(a, b)


def sort_cables(cables: list[Cable]) -> tuple[Cable, ...]:
    """Order cables by lower node, higher node, the lower node's port."""
    return tuple(sorted(cables, key=lambda cable: (cable.a.node, cable.b.node if cable.b else 0, cable.a.port)))


def ring_cables(order: tuple[int, ...]) -> list[Cable]:
    """Join port 0 of each place to port 1 of the next, closed."""
    cables = []
    for place, node in enumerate(order):
        a, b = sorted([End(node, 0), End(order[(place + 1) % len(order)], 1)])
        cables.append(Cable(a, b))
    return cables


def make_wiring(topology: str | None, nodes: int | None, order: tuple[int, ...] = (), cables: tuple[str, ...] = ()) -> Wiring:
    """Work out the wiring of a topology, or of cables listed by hand.

    Args:
        topology: one of TOPOLOGIES, or None with ``cables``.
        nodes: number of machines; None takes the topology's usual number.
        order: node numbers round a ring, when it is not wired 1-2-3-…
        cables: names of cables for a fabric of one's own.

    Raises:
        LabError: what was asked for does not fit together.
    """
    if cables:
        return custom_wiring(nodes, order, cables)
    if topology not in TOPOLOGIES:
        raise LabError(f"topology {topology!r}: choose one of {', '.join(TOPOLOGIES)}, or list cables with --cable")
    count = nodes if nodes is not None else {"pair": 2, "mesh": 3, "ring": 4, "switch": 2}[topology]
    least, most = {"pair": (2, 2), "mesh": (3, 3), "ring": (3, MAX_NODES), "switch": (2, MAX_NODES)}[topology]
    if not least <= count <= most:
        wanted = str(least) if least == most else f"{least} to {most}"
        raise LabError(f"topology {topology} has {wanted} nodes, not {count}")
    if order and topology not in ("ring", "mesh"):
        raise LabError(f"--order is the order round a ring; topology {topology} has none")
    if order and sorted(order) != list(range(1, count + 1)):
        raise LabError(f"--order {','.join(map(str, order))}: name each node from 1 to {count} once")
    if topology == "pair":
        return Wiring(topology, count, (Cable(End(1, 1), End(2, 1)),))
    if topology == "switch":
        return Wiring(topology, count, tuple(Cable(End(n, 1), None) for n in range(1, count + 1)))
    return Wiring(topology, count, sort_cables(ring_cables(order or tuple(range(1, count + 1)))), order)


def custom_wiring(nodes: int | None, order: tuple[int, ...], cables: tuple[str, ...]) -> Wiring:
    """Wire what was listed by hand."""
    parsed = [parse_cable(text) for text in cables]
    used: dict[End, Cable] = {}
    for cable in parsed:
        for end in cable.ends:
            if end in used:
                raise LabError(f"port {end} is in two cables, {used[end].name} and {cable.name}")
            used[end] = cable
    highest = max(end.node for end in used)
    count = nodes if nodes is not None else highest
    if not max(2, highest) <= count <= MAX_NODES:
        raise LabError(f"these cables need {max(2, highest)} to {MAX_NODES} nodes, not {count}")
    if order:
        raise LabError("--order goes with --topology ring; cables listed by hand have their own order")
    return Wiring("custom", count, sort_cables(parsed))
