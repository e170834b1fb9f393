# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inference of scenarios side by side: figures only under conditions that all of them have in common."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_runs import InferenceRun, read_runs
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import number_text

#: How the name of a host ends whose runs a report took over from another scenario.
TAKEN_OVER = " in run "
REMEDY = "Measure them under the same conditions (playbooks/inference.yml), or leave one of them out."


@dataclasses.dataclass(frozen=True, slots=True)
class InferenceCells:
    """What the table says of a scenario's inference; ``conditions`` are those that its figures were measured under."""

    inference: str | None = None
    p95: str | None = None
    conditions: str | None = None


def own_runs(report: Mapping[str, Any]) -> list[InferenceRun]:
    """Return the runs of a report on its most nodes; those of other scenarios, and runs that cannot be used, are left out."""
    own = {host: result for host, result in (report.get("inference") or {}).items() if TAKEN_OVER not in host}
    runs, _problems = read_runs(own, report["plan"]["link_gbps"])
    most = max((run.nodes for run in runs), default=0)
    return [run for run in runs if run.nodes == most]


def inference_cells(reports: Mapping[str, Mapping[str, Any]]) -> dict[str, InferenceCells]:
    """Return what the table says of each scenario's inference.

    Of several conditions that all scenarios share, those count under which the first scenario is fastest.

    :param reports: the report of each scenario, by its name
    :raises FabricError: where two scenarios have no conditions in common; it names what differs
    """
    runs = {name: own for name, report in reports.items() if (own := own_runs(report))}
    if not runs:
        return {}
    shared = set.intersection(*(set(map(conditions_of, own)) for own in runs.values()))
    if not shared:
        raise FabricError(refusal({name: (reports[name]["run_id"], own) for name, own in runs.items()}))
    first = next(iter(runs.values()))
    chosen = conditions_of(max((run for run in first if conditions_of(run) in shared), key=lambda run: run.tokens_per_s))
    return {name: cells_of([run for run in own if conditions_of(run) == chosen]) for name, own in runs.items()}


def conditions_of(run: InferenceRun) -> tuple[tuple[str, str], ...]:
    """Return the conditions of a run as something that can be compared."""
    return tuple(sorted(run.conditions.items()))


def cells_of(runs: list[InferenceRun]) -> InferenceCells:
    """Return the medians of runs under the same conditions."""
    late = [run.p95_ms for run in runs if run.p95_ms is not None]
    return InferenceCells(
        inference=f"{number_text(statistics.median(run.tokens_per_s for run in runs))} tokens/s",
        p95=f"{number_text(statistics.median(late))} ms a request" if late else None,
        conditions=", ".join(f"{key} {value}" for key, value in runs[0].conditions.items()),
    )


def refusal(runs: Mapping[str, tuple[str, list[InferenceRun]]]) -> str:
    """Return the error that names the two scenarios that differ in least, and in what."""
    names = list(runs)
    pairs = [(few, many) for place, few in enumerate(names) for many in names[place + 1 :]]
    apart = [(few, many, found) for few, many in pairs if (found := differences(runs[few][1], runs[many][1]))]
    if not apart:  # any two of them have something in common, but not all
        return f"report_scenarios: {', '.join(names)} measured inference under no conditions that all of them share. {REMEDY}"
    few, many, found = min(apart, key=lambda one: len(one[2]))
    told = ", ".join(f"{key} ({before} and {after})" for key, before, after in found)
    return f"report_scenarios: {few} (run {runs[few][0]}) and {many} (run {runs[many][0]}) measured inference under different conditions: {told}. {REMEDY}"


def differences(few: Iterable[InferenceRun], many: Iterable[InferenceRun]) -> list[tuple[str, str, str]]:
    """Return the conditions in which the two most alike runs differ, with both values; empty when two are alike."""
    others = list(many)
    return min((list(differing(one, other)) for one in few for other in others), key=len)


def differing(one: InferenceRun, other: InferenceRun) -> Iterable[tuple[str, str, str]]:
    """Yield the conditions in which two runs differ, with both values."""
    for key in dict.fromkeys((*one.conditions, *other.conditions)):
        values = tuple(run.conditions.get(key, "not stated") for run in (one, other))
        if values[0] != values[1]:
            yield key, *values
