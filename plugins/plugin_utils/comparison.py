# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Two runs beside each other: what became slower or faster beyond noise, which cables came or went, which versions changed.

Pure: reports in, data out. A difference counts when it is larger than the noise of that very test: the range of its figures in
the good runs before, where there are enough of them, and of its repeats within these runs; else a stated percentage. Repeats of the new run do
not count: a rail that flickers would hide its own loss.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import BROKEN
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import counted, number_text

#: From this many figures of one test on, their range says more about noise than a stated percentage.
ENOUGH_RUNS = 3

#: From this many figures of one test within one run on, their range is noise too.
ENOUGH_REPEATS = 2

#: Two runs that happen to agree do not make a test free of noise.
LEAST_NOISE_PERCENT = 2.0

#: Tests whose expected rates differ by more than this share were not run alike.
ALIKE = 0.01

AGAINST = {"last_good": "the last good run", "baseline": "the baseline"}

#: One test: (cable, rail, stage, client, server).
Way = tuple[str, str, str, str, str]
WAY_NAMES = ("cable", "rail", "stage", "client", "server")


@dataclasses.dataclass(frozen=True, slots=True)
class Digest:
    """What comparing needs of a report; a small part of it, so that many runs fit into memory."""

    run_id: str
    started: str
    mode: str
    status: str
    figures: Mapping[Way, float | None]
    expected: Mapping[Way, float]
    repeats: Mapping[Way, tuple[float, ...]]
    cables: tuple[str, ...]
    versions: Mapping[tuple[str, str], str]
    broken: frozenset[tuple[str, str]]


def digest(report: Mapping[str, Any]) -> Digest:
    """Return what comparing needs of a report."""
    figures: dict[Way, float | None] = {}
    expected: dict[Way, float] = {}
    taken: dict[Way, list[float]] = {}
    for cable in report["cables"]:
        for rail, row in cable["rails"].items():
            for one in row["measurements"]:
                way = (cable["name"], rail, one["stage"], one["client"], one["server"])
                if one["state"] == "excluded":
                    continue
                value = one["gbps"] if one["state"] == "ok" else None
                # The worst of several tests counts: one without a figure is worse than any.
                known = figures.get(way, value)
                figures[way] = None if value is None or known is None else min(known, value)
                if value:
                    taken.setdefault(way, []).append(value)
                expected[way] = float(one["expected_gbps"])
    return Digest(
        run_id=str(report["run_id"]),
        started=str(report["started"]),
        mode=str(report["mode"]),
        status=str(report["verdict"]["status"]),
        figures=figures,
        expected=expected,
        repeats={way: tuple(values) for way, values in taken.items() if len(values) >= ENOUGH_REPEATS},
        cables=tuple(cable["name"] for cable in report["cables"]),
        versions=versions(report),
        broken=frozenset((one["id"], one["subject"]) for one in report["findings"] if one["status"] in BROKEN),
    )


def versions(report: Mapping[str, Any]) -> dict[tuple[str, str], str]:
    """Return every version that a report knows, by (node or ``controller``, thing)."""
    found = {("controller", "collection"): str(report["collection_version"])}
    for node, facts in report["nodes"].items():
        if facts:
            for thing, value in node_versions(facts, report["plan"]["nodes"].get(node) or {}).items():
                found[node, thing] = value
    return found


def node_versions(facts: Mapping[str, Any], planned: Mapping[str, Any]) -> dict[str, str]:
    """Return the versions of one node by name: system, kernel, tools, and driver and firmware of its fabric interfaces."""
    found = {"system": (facts.get("os") or {}).get("pretty"), "kernel": facts.get("kernel"), **(facts.get("tools") or {})}
    live = facts.get("interfaces") or {}
    mine = [live[name] for name in planned.get("interfaces") or {} if name in live]
    for thing in ("driver", "firmware"):
        found[thing] = ", ".join(dict.fromkeys(str(one[thing]) for one in mine if one.get(thing)))
    return {thing: str(value) for thing, value in found.items() if value}


def compare(now: Digest, then: Digest, against: str, history: Iterable[Digest] = (), noise_percent: float = 10.0) -> dict[str, Any]:
    """Compare a run with an earlier one.

    :param against: ``last_good`` or ``baseline``
    :param history: good runs, for the noise of each test
    :param noise_percent: what counts as noise where history is too short
    """
    runs = {run.run_id: run for run in (*history, then) if run.mode == "validate" and run.run_id != now.run_id}
    regressions, improvements, compared, unlike = [], [], 0, 0
    for way, value in now.figures.items():
        before = then.figures.get(way)
        if before is None:
            continue
        if abs(now.expected[way] - then.expected[way]) > ALIKE * then.expected[way]:
            unlike += 1
            continue
        compared += 1
        noise = noise_of(way, now.expected[way], runs.values(), noise_percent)
        change = None if value is None else 100.0 * (value - before) / before if before else 0.0
        entry = {
            **dict(zip(WAY_NAMES, way)),
            "before_gbps": before,
            "now_gbps": value,
            "change_percent": None if change is None else round(change, 1),
            "noise_percent": round(noise.percent, 1),
            "noise_runs": noise.runs,
            "noise_repeats": noise.repeats,
        }
        if change is None or change < -noise.percent:
            regressions.append(entry)
        elif change > noise.percent:
            improvements.append(entry)
    regressions.sort(key=lambda entry: -200.0 if entry["change_percent"] is None else entry["change_percent"])
    improvements.sort(key=lambda entry: -entry["change_percent"])
    result: dict[str, Any] = {
        "against": against,
        "run_id": then.run_id,
        "started": then.started,
        "verdict": then.status,
        "compared": compared,
        "not_alike": unlike,
        "stated_noise_percent": noise_percent,
        "regressions": regressions,
        "improvements": improvements,
        "new_cables": [cable for cable in now.cables if cable not in then.cables],
        "gone_cables": [cable for cable in then.cables if cable not in now.cables],
        "versions": changed_versions(now, then),
        "newly_broken": told(now.broken - then.broken),
        "mended": told(then.broken - now.broken),
    }
    return {**result, "message": message_of(result)}


@dataclasses.dataclass(frozen=True, slots=True)
class Noise:
    """By how much a test scatters, percent, and in how many runs and in how many repeats within one run that was seen (both 0: it is the stated one)."""

    percent: float
    runs: int = 0
    repeats: int = 0


def noise_of(way: Way, expected: float, runs: Iterable[Digest], stated: float) -> Noise:
    """Return the noise of one test: the larger of its range over the runs and of its widest range within one of them."""
    alike = [run for run in runs if way in run.expected and abs(run.expected[way] - expected) <= ALIKE * expected]
    known = [value for run in alike if (value := run.figures.get(way))]
    seen = len(known) if len(known) >= ENOUGH_RUNS else 0
    widest = max((run.repeats[way] for run in alike if way in run.repeats), key=spread_percent, default=())
    if not seen and not widest:
        return Noise(stated)
    return Noise(max(spread_percent(known) if seen else 0.0, spread_percent(widest), LEAST_NOISE_PERCENT), seen, len(widest))


def spread_percent(values: Sequence[float]) -> float:
    """Return the range of some figures in percent of their median; 0 for none."""
    return 100.0 * (max(values) - min(values)) / statistics.median(values) if values else 0.0


def changed_versions(now: Digest, then: Digest) -> list[dict[str, Any]]:
    """List versions that differ; nodes that only one of the runs saw are left out."""
    both = {node for node, _thing in now.versions} & {node for node, _thing in then.versions}
    keys = dict.fromkeys((*now.versions, *then.versions))
    return [
        {"node": node, "what": thing, "before": then.versions.get((node, thing)), "now": now.versions.get((node, thing))}
        for node, thing in keys
        if node in both and now.versions.get((node, thing)) != then.versions.get((node, thing))
    ]


def told(checks: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    """Return checks as a list."""
    return [{"id": check, "subject": subject} for check, subject in sorted(checks)]


def message_of(result: Mapping[str, Any]) -> str:
    """Say in one line what a comparison found."""
    parts = []
    lost = [one for one in result["regressions"] if one["now_gbps"] is None]
    slower = [one for one in result["regressions"] if one["now_gbps"] is not None]
    if lost:
        parts.append(f"{counted(len(lost), 'figure')} lost, on {', '.join(list(dict.fromkeys(one['cable'] for one in lost))[:3])}")
    if slower:
        worst = slower[0]
        parts.append(
            f"{counted(len(slower), 'figure')} slower, worst {worst['cable']} rail {worst['rail']} {way_text(worst)}: "
            f"{number_text(worst['before_gbps'])} to {number_text(worst['now_gbps'])} Gb/s ({worst['change_percent']:+.0f} %)"
        )
    if result["improvements"]:
        parts.append(f"{counted(len(result['improvements']), 'figure')} faster")
    for key, noun in (("new_cables", "new cable"), ("gone_cables", "gone cable"), ("newly_broken", "newly broken check"), ("mended", "mended check")):
        if result[key]:
            parts.append(counted(len(result[key]), noun))
    if result["versions"]:
        parts.append(f"{counted(len(result['versions']), 'version')} changed")
    if not parts:
        parts.append(f"no change beyond noise in {counted(result['compared'], 'figure')}" if result["compared"] else "cables and versions are the same")
    if result["not_alike"]:
        parts.append(f"{counted(result['not_alike'], 'figure')} not compared, since other rates are expected now")
    return f"against {AGAINST.get(result['against'], result['against'])} {result['run_id']}: {'; '.join(parts)}"


def way_text(entry: Mapping[str, Any]) -> str:
    """Name the direction of a test."""
    return f"{entry['client']} {'<->' if entry['stage'] == 'bidirectional' else '->'} {entry['server']}"
