# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which cable is to blame when an observation crosses two of them, and where on a cable, or at which node, a fault sits.

Over a switch every ping and every load test uses the cables of two nodes. One bad cable spoils all observations of its node
and only some of each partner's, so blame goes to the cable whose share of bad observations is the largest, and what it explains is taken
away before the next one is looked for. Sending and receiving are told apart, since a cable may be bad one way only. Where a
single observation is all there is, nothing can tell its two cables apart: then one is blamed and the other is named beside it.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable

ROLES = ("sends", "receives", "either")


@dataclasses.dataclass(frozen=True, slots=True)
class Observation:
    """Something seen between two cables (the same one twice on a direct cable)."""

    name: str
    sender: str
    receiver: str
    bad: bool
    both_ways: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Blame:
    """The cable a bad observation is put down to, and the one that it cannot be told apart from."""

    cable: str
    alternative: str | None = None


def blame(observations: Iterable[Observation]) -> dict[str, Blame]:
    """Return for every bad observation, by name, the cable to blame."""
    blamed: dict[str, Blame] = {}
    seen: dict[tuple[str, str], int] = collections.Counter()
    pending: dict[tuple[str, str], dict[str, Observation]] = collections.defaultdict(dict)
    for observation in observations:
        if observation.sender == observation.receiver:
            if observation.bad:
                blamed[observation.name] = Blame(observation.sender)
            continue
        for suspect in suspects(observation):
            seen[suspect] += 1
            if observation.bad:
                pending[suspect][observation.name] = observation
    while pending:
        chosen = max(pending, key=lambda suspect: rank(suspect, pending, seen))
        explained = dict(pending[chosen])
        equal = [suspect for suspect in pending if suspect[0] != chosen[0] and rank(suspect, pending, seen) == rank(chosen, pending, seen)]
        rivals = {suspect[0] for suspect in equal if set(pending[suspect]) == set(explained)}
        for name, observation in explained.items():
            other = observation.receiver if observation.sender == chosen[0] else observation.sender
            blamed[name] = Blame(chosen[0], other if other in rivals else None)
        for suspect in list(pending):
            for name in explained:
                pending[suspect].pop(name, None)
            if not pending[suspect]:
                del pending[suspect]
    return blamed


def suspects(observation: Observation) -> list[tuple[str, str]]:
    """Return the (cable, role) pairs that could explain an observation."""
    both = [(observation.sender, "either"), (observation.receiver, "either")]
    if observation.both_ways:
        return both
    return [(observation.sender, "sends"), (observation.receiver, "receives"), *both]


def rank(suspect: tuple[str, str], pending: dict[tuple[str, str], dict[str, Observation]], seen: dict[tuple[str, str], int]) -> tuple[float, int]:
    """Return how well a suspect explains: the share of its observations that are bad, then their number."""
    bad = len(pending[suspect])
    return (bad / seen[suspect], bad)


@dataclasses.dataclass(frozen=True, slots=True)
class Transfer:
    """One-way traffic on a rail, by the nodes and the cables at its two ends, and whether it fell short."""

    sender: str
    receiver: str
    sender_cable: str
    receiver_cable: str
    rail: str
    bad: bool

    @property
    def cables(self) -> tuple[str, str]:
        """Return the cables at both ends (the same one twice where there is no switch)."""
        return (self.sender_cable, self.receiver_cable)


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a fault sits: ``kind`` is "everything", "node", "node_rail", "node_sends", "node_receives", "cable", "rail" or "direction".

    ``node`` is the guilty node of the four kinds that are named for it. ``text`` says why, from the tests that were compared.
    """

    kind: str
    text: str
    node: str | None = None


def places(transfers: Iterable[Transfer]) -> dict[tuple[str, str], Place]:
    """Return for every (cable, rail) with a bad transfer where its fault sits, as far as the transfers that share something with it tell.

    A node is to blame where all that it sends, or receives, on a rail falls short over two or more cables, and no other node
    explains the same as well.
    """
    transfers = list(transfers)
    sends: dict[tuple[str, str], list[Transfer]] = collections.defaultdict(list)
    receives: dict[tuple[str, str], list[Transfer]] = collections.defaultdict(list)
    over: dict[tuple[str, str], list[Transfer]] = collections.defaultdict(list)
    for transfer in transfers:
        sends[(transfer.sender, transfer.rail)].append(transfer)
        receives[(transfer.receiver, transfer.rail)].append(transfer)
        for cable in dict.fromkeys(transfer.cables):
            over[(cable, transfer.rail)].append(transfer)
    found = {}
    for (cable, rail), mine in over.items():
        bad = [transfer for transfer in mine if transfer.bad]
        if not bad:
            continue
        of_rail = [transfer for transfer in transfers if transfer.rail == rail]
        if all(transfer.bad for transfer in of_rail) and len({name for transfer in of_rail for name in transfer.cables}) > 2:
            found[(cable, rail)] = Place("everything", f"every cable falls short on rail {rail}: a setting or a load that all share, not a cable")
            continue
        nodes = sorted({name for transfer in bad for name in (transfer.sender, transfer.receiver)})
        guilty = [place for node in nodes if (place := _node_place(node, rail, bad, sends, receives)) is not None]
        found[(cable, rail)] = guilty[0] if len(guilty) == 1 else _cable_place(cable, rail, bad, over, sends, receives)
    return found


def _node_place(
    node: str, rail: str, bad: list[Transfer], sends: dict[tuple[str, str], list[Transfer]], receives: dict[tuple[str, str], list[Transfer]]
) -> Place | None:
    """Return the node's guilt for the bad transfers of a cable, None where its other cable speaks for it."""
    out, into = sends[(node, rail)], receives[(node, rail)]
    sends_bad, receives_bad = _all_bad(out, "sender_cable"), _all_bad(into, "receiver_cable")
    if sends_bad and receives_bad:
        other = next(name for name in ("a", "b") if name != rail)
        twin = [*sends[(node, other)], *receives[(node, other)]]
        if twin and all(transfer.bad for transfer in twin):
            return Place("node", f"all that {node} sends and receives falls short, over every cable and on both rails: look at {node}, not at its cables", node)
        return Place("node_rail", f"all that {node} sends and receives on rail {rail} falls short, over every cable: its PCIe link or network chip", node)
    if sends_bad and all(transfer.sender == node for transfer in bad):
        return Place("node_sends", f"all that {node} sends on rail {rail} falls short, over every cable, and what it receives does not", node)
    if receives_bad and all(transfer.receiver == node for transfer in bad):
        return Place("node_receives", f"all that {node} receives on rail {rail} falls short, over every cable, and what it sends does not", node)
    return None


def _all_bad(transfers: list[Transfer], cable: str) -> bool:
    return len({getattr(transfer, cable) for transfer in transfers}) > 1 and all(transfer.bad for transfer in transfers)


def _cable_place(
    cable: str,
    rail: str,
    bad: list[Transfer],
    over: dict[tuple[str, str], list[Transfer]],
    sends: dict[tuple[str, str], list[Transfer]],
    receives: dict[tuple[str, str], list[Transfer]],
) -> Place:
    """Return where on its cable a fault sits: in both rails, in one, or in one direction of one."""
    mine = over[(cable, rail)]
    twins = [transfer for (name, other), those in over.items() if name == cable and other != rail for transfer in those]
    if all(transfer.bad for transfer in [*mine, *twins]) and twins:
        return Place("cable", "both rails fall short in both directions: the cable, its plugs, or a port that both rails share")
    ways = {(transfer.sender, transfer.receiver) for transfer in bad}
    if len(ways) > 1 or len({(transfer.sender, transfer.receiver) for transfer in mine}) == 1:
        measured = "both ways" if len(ways) > 1 else "the only way that was measured"
        twin = ", its twin does not" if twins and not any(transfer.bad for transfer in twins) else ""
        return Place("rail", f"rail {rail} falls short {measured}{twin}")
    sender, receiver = next(iter(ways))
    text = f"only {sender} -> {receiver} falls short, the way back does not"
    if any(not transfer.bad and transfer.sender_cable != cable for transfer in sends[(sender, rail)]):
        text += f"; {sender} sends well over its other cable"
    if any(not transfer.bad and transfer.receiver_cable != cable for transfer in receives[(receiver, rail)]):
        text += f"; {receiver} receives well over its other cable"
    return Place("direction", text)
