# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Colouring of edges: which runs may share a round.

Two exact tools and one that is merely good: bipartite colouring with as many colours as the largest degree (König), pairs of
colours for the edges of a ring that is walked twice, and first fit for graphs that have no closed form.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")

# Five pairs out of five colours, neighbours disjoint all round: the outer ring of the Petersen graph, whose nodes are such pairs.
FIVE_PAIRS = ((0, 1), (2, 3), (4, 0), (1, 2), (3, 4))


def bipartite_colours(edges: Sequence[tuple[Hashable, Hashable]]) -> list[int]:
    """Return a colour for each edge (from, to) so that no two edges of one colour share their from or their to.

    Uses as many colours as the largest degree, which no colouring can undercut (König's theorem): where the free colours of both
    ends differ, the path that alternates between them is swapped.
    """
    at: dict[tuple[str, Hashable], dict[int, int]] = {}
    colours = [-1] * len(edges)

    def ends(edge: int) -> tuple[tuple[str, Hashable], tuple[str, Hashable]]:
        return ("from", edges[edge][0]), ("to", edges[edge][1])

    def free(end: tuple[str, Hashable]) -> int:
        taken = at.setdefault(end, {})
        return next(colour for colour in range(len(taken) + 1) if colour not in taken)

    for edge in range(len(edges)):
        tail, head = ends(edge)
        wanted, other = free(tail), free(head)
        path: list[int] = []
        end, colour = head, wanted
        while wanted != other and colour in at[end]:
            step = at[end][colour]
            path.append(step)
            first, second = ends(step)
            end = second if end == first else first
            colour = other if colour == wanted else wanted
        for step in path:
            for end in ends(step):
                del at[end][colours[step]]
        for step in path:
            colours[step] = other if colours[step] == wanted else wanted
            for end in ends(step):
                at[end][colours[step]] = step
        colours[edge] = wanted
        for end in (tail, head):
            at[end][wanted] = edge
    return colours


def ring_colours(length: int) -> list[int]:
    """Return a colour for each edge of a closed ring (2 or more edges): two colours, or three when the length is odd."""
    colours = [place % 2 for place in range(length)]
    if length % 2:
        colours[-1] = 2
    return colours


def doubled_ring_colours(length: int) -> list[tuple[int, int]]:
    """Return two colours for each edge of a closed ring of 3 or more, no colour twice at a node.

    Uses the least number of colours: 4 when the length is even; else ceil(4 n / (n - 1)), since a round holds (n - 1)/2 of 2n runs at
    most, which is 6 for 3 and 5 from 5 on.
    """
    if length % 2 == 0:
        return [(0, 1), (2, 3)] * (length // 2)
    if length == 3:
        return [(0, 1), (2, 3), (4, 5)]
    return [(0, 1), (2, 3)] * ((length - 5) // 2) + list(FIVE_PAIRS)


def first_fit(items: Iterable[Item], resources: dict[Item, frozenset[Hashable]], rounds: list[list[Item]]) -> list[list[Item]]:
    """Return the rounds with each item put into the first one in which none of its resources is taken; rounds are added at need."""
    result = [list(items_of) for items_of in rounds]
    taken = [set().union(*(resources[item] for item in items_of)) for items_of in result]
    for item in items:
        place = next((index for index, held in enumerate(taken) if not held & resources[item]), None)
        if place is None:
            result.append([])
            taken.append(set())
            place = len(result) - 1
        result[place].append(item)
        taken[place] |= resources[item]
    return result
