# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Throughput of inference as runs under fixed conditions, and what more nodes add. Pure functions; ``docs/verdict.md`` describes a run."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import shown
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.measured_rows import is_figure
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import counted, number_text

#: What has to be the same in two runs, and stated in each; further conditions are compared where a run states them.
CONDITIONS = ("model", "quantisation", "context_tokens", "input_tokens", "output_tokens", "concurrency", "stack")
#: By so much (percent of the lower) two runs that are alike may differ.
NOISE_PERCENT = 10.0
COMMUNICATION = ("layers", "message_bytes", "token_ms")


@dataclasses.dataclass(frozen=True, slots=True)
class InferenceRun:
    """One run: ``communication`` is what a token exchanges, ``communication_percent`` the share of its time that a profile put down to that.

    ``p95_ms``: so long took 95 % of the requests at most; ``parallel``: how the model was split, empty where it is not stated.
    """

    name: str
    nodes: int
    tokens_per_s: float
    link_gbps: float
    conditions: Mapping[str, str]
    communication: Mapping[str, float] | None = None
    communication_percent: float | None = None
    p95_ms: float | None = None
    parallel: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Scaling:
    """Most nodes against fewest, at one link speed and under the same conditions; ``percent`` is of what linear growth would give."""

    link_gbps: float
    nodes: int
    base_nodes: int
    tokens_per_s: float
    base_tokens_per_s: float
    run: InferenceRun

    @property
    def ratio(self) -> float:
        """Throughput against that of the fewest nodes."""
        return self.tokens_per_s / self.base_tokens_per_s

    @property
    def percent(self) -> float:
        """Share of linear growth."""
        return 100.0 * self.ratio * self.base_nodes / self.nodes

    @property
    def text(self) -> str:
        """The arithmetic in words."""
        return (
            f"{counted(self.nodes, 'node')} {number_text(self.tokens_per_s)}, "
            f"{counted(self.base_nodes, 'node')} {number_text(self.base_tokens_per_s)} tokens/s: "
            f"{self.ratio:.2f} times with {self.nodes / self.base_nodes:g} times the nodes, {self.percent:.0f} % of linear"
        )


def read_runs(results: Mapping[str, Any], link_gbps: float) -> tuple[list[InferenceRun], list[str]]:
    """Return the runs that can be used, and why others cannot.

    :param results: what ``fabric_inference`` holds, by host: ``{runs: [...]}``
    :param link_gbps: of the plan, for a run that states none
    """
    runs: list[InferenceRun] = []
    problems: list[str] = []
    for host, result in results.items():
        given = result.get("runs") if isinstance(result, Mapping) else None
        if not isinstance(given, (list, tuple)):
            problems.append(f"fabric_inference of {host} has no list runs")
            continue
        for place, run in enumerate(given, 1):
            name = f"inference run {place} of {host}"
            problem = problem_of(run)
            if problem:
                problems.append(f"{name} {problem}")
            else:
                runs.append(run_of(run, name, link_gbps))
    return runs, problems


def problem_of(run: Any) -> str:
    """Return why a run cannot be used, empty when it can."""
    if not isinstance(run, Mapping):
        return f"is {shown(run)}, expected a mapping"
    nodes = run.get("nodes")
    if not isinstance(nodes, int) or isinstance(nodes, bool) or nodes < 1:
        return f"has nodes {shown(nodes)}, expected a whole number from 1"
    if run.get("errors"):
        return f"had errors ({shown(run['errors'])}), its throughput does not count"
    for key in ("throughput_tokens_per_s", "link_gbps"):
        if (key in run or key != "link_gbps") and not positive(run.get(key)):
            return f"has {key} {shown(run.get(key))}, expected a number above 0"
    share = run.get("communication_percent")
    if share is not None and not (is_figure(share) and 0 <= share <= 100):
        return f"has communication_percent {shown(share)}, expected 0 to 100"
    conditions = run.get("conditions")
    missing = [key for key in CONDITIONS if not isinstance(conditions, Mapping) or conditions.get(key) in (None, "")]
    if missing:
        return f"does not state its conditions {', '.join(missing)}"
    exchange = run.get("communication")
    if exchange is not None:
        wrong = [key for key in COMMUNICATION if not isinstance(exchange, Mapping) or not positive(exchange.get(key))]
        if wrong or not positive(exchange.get("messages_per_layer", 1)):
            return f"has no usable communication.{(wrong or ['messages_per_layer'])[0]}, expected a number above 0"
    return ""


def run_of(run: Mapping[str, Any], name: str, link_gbps: float) -> InferenceRun:
    """Return a run that has no problem as a record."""
    exchange = run.get("communication")
    share = run.get("communication_percent")
    return InferenceRun(
        name=name,
        nodes=run["nodes"],
        tokens_per_s=float(run["throughput_tokens_per_s"]),
        link_gbps=float(run.get("link_gbps") or link_gbps),
        conditions={str(key): str(value) for key, value in run["conditions"].items()},
        communication=None if exchange is None else {key: float(exchange.get(key, 1)) for key in (*COMMUNICATION, "messages_per_layer")},
        communication_percent=None if share is None else float(share),
        p95_ms=float(latency["p95"]) if isinstance(latency := run.get("request_ms"), Mapping) and positive(latency.get("p95")) else None,
        parallel=" ".join(str(run.get("parallel") or "").split()),
    )


def positive(value: Any) -> bool:
    """Tell whether a value is a number above 0."""
    return is_figure(value) and value > 0


def disagreements(runs: Iterable[InferenceRun]) -> list[str]:
    """Return the runs that are alike and differ by more than noise."""
    alike: dict[tuple[Any, ...], list[InferenceRun]] = {}
    for run in runs:
        alike.setdefault((run.link_gbps, run.nodes, *sorted(run.conditions.items())), []).append(run)
    texts = []
    for (link, nodes, *_conditions), ones in alike.items():
        low, high = min(one.tokens_per_s for one in ones), max(one.tokens_per_s for one in ones)
        if high > low * (1 + NOISE_PERCENT / 100):
            texts.append(f"runs on {counted(nodes, 'node')} at {link:g}G under the same conditions gave {number_text(low)} and {number_text(high)} tokens/s")
    return texts


def scaling(runs: Iterable[InferenceRun], link_gbps: float) -> Scaling | None:
    """Return most nodes against fewest at a link speed, of the conditions that were run on the most numbers of nodes; None without two of them."""
    best: Scaling | None = None
    for ones in by_conditions(run for run in runs if run.link_gbps == link_gbps):
        numbers = sorted({run.nodes for run in ones})
        if len(numbers) > 1 and (best is None or (numbers[-1] - numbers[0]) > best.nodes - best.base_nodes):
            top = [run for run in ones if run.nodes == numbers[-1]]
            best = Scaling(link_gbps, numbers[-1], numbers[0], middle(top), middle(run for run in ones if run.nodes == numbers[0]), top[-1])
    return best


def links_compared(runs: Iterable[InferenceRun], link_gbps: float, faster_gbps: float) -> tuple[int, float, float] | None:
    """Return number of nodes and throughput at a link speed and at a faster one under the same conditions, of the most nodes; None without such runs."""
    found: list[tuple[int, float, float]] = []
    for ones in by_conditions(runs):
        for nodes in {run.nodes for run in ones}:
            sides = [[run for run in ones if run.nodes == nodes and run.link_gbps == link] for link in (link_gbps, faster_gbps)]
            if all(sides) and nodes > 1:
                found.append((nodes, middle(sides[0]), middle(sides[1])))
    return max(found, default=None)


def by_conditions(runs: Iterable[InferenceRun]) -> list[list[InferenceRun]]:
    """Return runs under the same conditions together."""
    groups: dict[tuple[Any, ...], list[InferenceRun]] = {}
    for run in runs:
        groups.setdefault(tuple(sorted(run.conditions.items())), []).append(run)
    return list(groups.values())


def middle(runs: Iterable[InferenceRun]) -> float:
    """Return the median throughput of runs."""
    return statistics.median(run.tokens_per_s for run in runs)


def incomparable(runs: Iterable[InferenceRun], link_gbps: float) -> str:
    """Return what differs between the runs on fewest and most nodes at a link speed, empty when nothing does."""
    ones = sorted((run for run in runs if run.link_gbps == link_gbps), key=lambda run: run.nodes)
    if not ones or ones[0].nodes == ones[-1].nodes:
        return ""
    few, many = ones[0], ones[-1]
    keys = [key for key in dict.fromkeys((*few.conditions, *many.conditions)) if few.conditions.get(key) != many.conditions.get(key)]
    told = [f"{key} ({few.conditions.get(key, 'not stated')} and {many.conditions.get(key, 'not stated')})" for key in keys]
    return f"the runs on {few.nodes} and {counted(many.nodes, 'node')} differ in {', '.join(told)} and are not compared" if told else ""
