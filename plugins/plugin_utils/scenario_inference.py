# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inference of scenarios side by side: figures only under conditions that all of them have in common.

How the model is split counts as a condition between scenarios of as many nodes; on more nodes it is split otherwise by necessity.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_runs import InferenceRun, read_runs
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import counted, number_text

#: How the name of a host ends whose runs a report took over from another scenario.
TAKEN_OVER = " in run "
REMEDY = "Measure them under the same conditions (playbooks/inference.yml), or leave one of them out."
NOT_STATED = "not stated"
#: So many reasons why runs are left out are told of each scenario.
TOLD = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Clash:
    """Two scenarios and the conditions in which their runs differ, with both values; ``agreed``: so many scenarios were alike before."""

    agreed: int
    one: str
    other: str
    differences: list[tuple[str, str, str]]


@dataclasses.dataclass(frozen=True, slots=True)
class InferenceCells:
    """What the table says of a scenario's inference; ``conditions``, ``inference_nodes`` and ``parallel`` are those that its figures were measured with.

    ``left_out``: which runs do not count, and why.
    """

    inference: str | None = None
    p95: str | None = None
    conditions: str | None = None
    inference_nodes: str | None = None
    parallel: str | None = None
    left_out: str | None = None


def own_runs(report: Mapping[str, Any], nodes: int | None = None) -> tuple[list[InferenceRun], list[str]]:
    """Return a report's runs of inference at its plan's link speed, fastest first, and why others do not count; those of other scenarios are no part of it.

    :param nodes: on so many nodes; on the most that were measured where it is None
    """
    link = float(report["plan"]["link_gbps"])
    runs, problems = read_runs({host: result for host, result in (report.get("inference") or {}).items() if TAKEN_OVER not in host}, link)
    here = [run for run in runs if run.link_gbps == link]
    problems += [f"{run.name} was measured at {run.link_gbps:g}G, the plan of its run has {link:g}G" for run in runs if run.link_gbps != link]
    measured = sorted({run.nodes for run in here})
    wanted = nodes or max(measured, default=0)
    if here and wanted not in measured:
        problems.append(f"inference was measured on {', '.join(map(str, measured))} nodes, not on {wanted}")
    return sorted((run for run in here if run.nodes == wanted), key=throughput, reverse=True), problems


def throughput(run: InferenceRun) -> float:
    """Return the throughput of a run, to sort by."""
    return run.tokens_per_s


def inference_cells(reports: Mapping[str, Mapping[str, Any]], nodes: Mapping[str, int | None] | None = None) -> dict[str, InferenceCells]:
    """Return what the table says of each scenario's inference.

    Of several conditions that all scenarios share, those count under which the first scenario is fastest.

    :param reports: the report of each scenario, by its name
    :param nodes: on how many nodes a scenario is, where that is stated
    :raises FabricError: where scenarios have no conditions in common; it names what differs
    """
    found = {name: own_runs(report, (nodes or {}).get(name)) for name, report in reports.items()}
    runs = {name: own for name, (own, _problems) in found.items() if own}
    clashes: list[Clash] = []
    chosen = alike(list(runs.items()), {}, clashes)
    if chosen is None:
        raise FabricError(refusal(min(clashes, key=distance), list(runs), reports))
    told = {name: reasons(problems) for name, (_own, problems) in found.items()}
    return {name: dataclasses.replace(cells_of(runs[name], chosen[name]) if name in chosen else InferenceCells(), left_out=told[name])
            for name in reports if name in chosen or told[name]}


def alike(left: list[tuple[str, list[InferenceRun]]], chosen: dict[str, InferenceRun], clashes: list[Clash]) -> dict[str, InferenceRun] | None:
    """Return a run of each scenario under conditions that are the same for all, None where there are none.

    :param left: scenarios for which none is chosen yet, with their runs
    :param chosen: the runs chosen so far, by scenario
    :param clashes: gets what stood against each run that does not fit
    """
    if not left:
        return chosen
    (name, own), *rest = left
    for run in one_of_each(own):
        clash = next((Clash(len(chosen), other, name, told) for other, one in chosen.items() if (told := differing(one, run))), None)
        if clash:
            clashes.append(clash)
            continue
        found = alike(rest, {**chosen, name: run}, clashes)
        if found is not None:
            return found
    return None


def one_of_each(runs: Iterable[InferenceRun]) -> Iterable[InferenceRun]:
    """Return the first run of each kind: repeats under the same conditions are alike to the same others."""
    kinds: dict[tuple[Any, ...], InferenceRun] = {}
    for run in runs:
        kinds.setdefault((run.nodes, run.parallel, *sorted(run.conditions.items())), run)
    return kinds.values()


def cells_of(runs: Iterable[InferenceRun], chosen: InferenceRun) -> InferenceCells:
    """Return the medians of a scenario's runs that are like the chosen one."""
    same = [run for run in runs if not differing(chosen, run)]
    late = [run.p95_ms for run in same if run.p95_ms is not None]
    return InferenceCells(
        inference=f"{number_text(statistics.median(map(throughput, same)))} tokens/s",
        p95=f"{number_text(statistics.median(late))} ms a request" if late else None,
        conditions=", ".join(f"{key} {value}" for key, value in chosen.conditions.items()),
        inference_nodes=str(chosen.nodes),
        parallel=chosen.parallel or None,
    )


def reasons(problems: list[str]) -> str | None:
    """Return why runs are left out as one text, None where none is."""
    more = [f"{len(problems) - TOLD} more"] if len(problems) > TOLD else []
    return "; ".join([*problems[:TOLD], *more]) or None


def refusal(clash: Clash, names: list[str], reports: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the error that names two scenarios, their runs, and what differs."""
    told = ", ".join(f"{key} ({before} and {after})" for key, before, after in clash.differences)
    sides = " and ".join(f"{name} (run {reports[name]['run_id']})" for name in (clash.one, clash.other))
    return f"report_scenarios: inference was measured under no conditions that {' and '.join(names)} share; {sides} differ in {told}. {REMEDY}"


def distance(clash: Clash) -> tuple[int, int]:
    """Return how far a clash is from a table that can be filled, to sort by."""
    return (-clash.agreed, len(clash.differences))


def differing(one: InferenceRun, other: InferenceRun) -> list[tuple[str, str, str]]:
    """Return the conditions in which two runs differ, with both values."""
    keys = dict.fromkeys((*one.conditions, *other.conditions))
    pairs = [(key, one.conditions.get(key, NOT_STATED), other.conditions.get(key, NOT_STATED)) for key in keys]
    if one.nodes == other.nodes:
        pairs.append(("parallel", one.parallel or NOT_STATED, other.parallel or NOT_STATED))
    return [pair for pair in pairs if pair[1] != pair[2]]


def remark(scenario: str, nodes: str | None, inference_nodes: str | None, parallel: str | None) -> str:
    """Return how a scenario's inference was spread over nodes, empty where the table says it or nothing is known."""
    on = [f"on {counted(int(inference_nodes), 'node')}"] if inference_nodes and inference_nodes != nodes else []
    split = [f"split: {parallel}"] if parallel else []
    return f"{scenario}: inference {', '.join([*on, *split])}" if on or split else ""
