# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Latency of the rails, each beside the others: nobody publishes how slow is too slow, but the other rails of a cluster tell."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

VERBS = ("write", "send")
STAGES = tuple(f"{verb}_latency" for verb in VERBS)


def latency_facts(results: Iterable[Mapping[str, Any]], others: Mapping[str, list[Mapping[str, float]]]) -> dict[str, Any]:
    """Return the ``latency`` facts of one rail.

    :param results: its latency results
    :param others: by stage, the figures (microseconds) of all other rails
    :return: for each verb the worst test's figures; ``slow`` and ``jitter`` list what stands out. A rail is slow when a typical
        message takes longer than 99 of 100 on the other rails (the median of their 99th percentiles), and jittery when its 99th
        percentile is beyond the median of their 99.9th: both limits are those of the cluster itself.
    """
    facts: dict[str, Any] = {**dict.fromkeys(VERBS), "slow": [], "jitter": []}
    for verb, stage in zip(VERBS, STAGES):
        done = [result for result in results if result["stage"] == stage and result["state"] == "ok"]
        if not done:
            continue
        worst = max(done, key=lambda result: (result["latency_us"].get("typical") or result["latency_us"].get("average") or 0.0))
        facts[verb] = {**{f"{name}_us": value for name, value in worst["latency_us"].items()}, "text": latency_text(worst)}
        for fact, mine, theirs, words in (("slow", "typical", "p99", "99 of 100 take"), ("jitter", "p99", "p99_9", "999 of 1000 take")):
            known = [figures[theirs] for figures in others.get(stage, []) if figures.get(theirs) is not None]
            own = worst["latency_us"].get(mine)
            if known and own is not None and own > statistics.median(known):
                facts[fact].append(f"{worst['name']} {verb} {name_of(mine)} {own:.2f} us; on the other rails {words} at most {statistics.median(known):.2f} us")
    return facts


def latency_text(result: Mapping[str, Any]) -> str:
    """Return a latency in words."""
    figures = result["latency_us"]
    parts = [f"{name_of(name)} {figures[name]:.2f}" for name in ("typical", "p99", "p99_9") if figures.get(name) is not None]
    return f"{result['name']} {', '.join(parts) or 'average ' + format(figures.get('average') or 0.0, '.2f')} us"


def name_of(figure: str) -> str:
    """Return the name of a figure for people."""
    return {"typical": "typical", "p99": "99th percentile", "p99_9": "99.9th percentile"}[figure]


def figures_by_rail(further: Mapping[Any, list[Mapping[str, Any]]]) -> dict[Any, dict[str, list[Mapping[str, float]]]]:
    """Return the latency figures of every rail, by stage."""
    found: dict[Any, dict[str, list[Mapping[str, float]]]] = {}
    for key, results in further.items():
        for result in results:
            if result["stage"] in STAGES and result["state"] == "ok":
                found.setdefault(key, {}).setdefault(result["stage"], []).append(result["latency_us"])
    return found


def others_of(key: Any, by_rail: Mapping[Any, Mapping[str, list[Mapping[str, float]]]]) -> dict[str, list[Mapping[str, float]]]:
    """Return the figures of all rails but one."""
    return {stage: [figures for other, stages in by_rail.items() if other != key for figures in stages.get(stage, [])] for stage in STAGES}
