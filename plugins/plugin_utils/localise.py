# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which cable is to blame when an observation crosses two of them.

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
