# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What only all cables together show: one that stands apart from the others, and all of them equally low."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_rdma import STAGES, Limits, own, put_down_as, result_text
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import RailKey
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import number_text

#: From this many figures on, their median and scatter say what is usual.
ENOUGH_FIGURES = 6

#: An outlier lies this many times the scatter below the median, the scatter being 1.4826 times the median absolute deviation
#: (Iglewicz and Hoaglin, How to Detect and Handle Outliers, 1993), and at least this many percentage points, since figures that happen to agree have none.
OUTLIER_SCATTERS = 3.5
OUTLIER_POINTS = 5.0
SCATTER_OF_DEVIATION = 1.4826

#: Cables are equally low when the best is at most this share (percent) better than the worst.
EQUAL_PERCENT = 10.0
#: Below this a rail is broken rather than limited, and its own signature says how.
LEAST_PERCENT = 25.0
#: A device that sent less than this share of what its test reports carried nothing of it; one that sent more than the other carried it.
IDLE_SHARE, LOADED_SHARE = 0.1, 0.5

Results = Mapping[RailKey, list[dict[str, Any]]]


def outliers(results: Results) -> dict[RailKey, dict[str, Any]]:
    """Return for every rail with figures how they stand among those of all rails.

    ``texts`` names what lies apart, ``percent`` is the worst of it; ``median`` and ``count`` are those of all figures.
    Rails of a cluster with too few figures are left out.
    """
    found: dict[RailKey, dict[str, Any]] = {}
    for stage in STAGES:
        figures = {result["test"]: result for rail in results.values() for result in own(rail) if result["stage"] == stage and measured(result)}
        if len(figures) < ENOUGH_FIGURES:
            continue
        percents = [result["percent"] for result in figures.values()]
        median = statistics.median(percents)
        scatter = SCATTER_OF_DEVIATION * statistics.median(abs(percent - median) for percent in percents)
        least = median - max(OUTLIER_SCATTERS * scatter, OUTLIER_POINTS)
        apart = {test: result for test, result in figures.items() if result["percent"] < least}
        for key, rail in put_down_as(figures.values(), lambda result: result["test"] in apart).items():
            mine = [result for result in rail if result["test"] in apart and result["blamed"] is None]
            facts = found.setdefault(key, {"texts": [], "percent": None, "median": None, "count": 0})
            facts["texts"] += [result_text(result) for result in mine]
            worst = min((result["percent"] for result in mine), default=None)
            if worst is not None and (facts["percent"] is None or worst < facts["percent"]) or facts["median"] is None:
                facts.update(percent=worst, median=round(median, 1), count=len(figures))
    return found


def measured(result: Mapping[str, Any]) -> bool:
    """Tell whether a result is a figure that can be compared with others."""
    return result["state"] == "ok" and result["percent"] is not None


def edge_facts(plan: Mapping[str, Any], results: Results, limits: Limits) -> dict[str, Any]:
    """Return what all cables have in common.

    ``low`` is true when every one-way figure falls short by the same share; ``percent`` is that share (of a cable with both rails, where one of them
    has no tests), ``loaded`` says whether the counters show ``both`` rails loaded, ``one``, or ``unknown``; ``idle`` names the rails that carried nothing.
    """
    rails: dict[str, dict[str, list[dict[str, Any]]]] = {cable["name"]: {} for cable in plan["cables"]}
    for node in plan["nodes"].values():
        for interface in node["interfaces"].values():
            key = (interface["cable"], interface["rail"])
            rails[key[0]][key[1]] = [result for result in results.get(key, []) if result["stage"] == "directed"]
    both_gbps = max((plan["expected"].get("cable_gbps") or {"1": 0.0}).values())
    figures: dict[str, float] = {}
    seen: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for cable, both in rails.items():
        for result in (result for rail in both.values() for result in rail if measured(result)):
            figures[result["test"]] = result["percent"] if all(both.values()) or not both_gbps else 100.0 * result["gbps"] / both_gbps
            seen[cable] = both
    facts: dict[str, Any] = {"count": len(seen), "low": False, "percent": None, "loaded": "unknown", "idle": [], "text": "", "rails": []}
    if not figures:
        return facts
    lowest, highest = min(figures.values()), max(figures.values())
    facts["percent"] = round(statistics.median(figures.values()), 1)
    facts["low"] = len(seen) > 1 and LEAST_PERCENT <= lowest and highest < limits.percent["directed"] and highest <= lowest * (1 + EQUAL_PERCENT / 100)
    facts["text"] = f"{number_text(facts['percent'])} % ({number_text(lowest)} to {number_text(highest)} % on {len(seen)} cables)"
    loads = {(cable, rail): rail_load(both[rail]) for cable, both in seen.items() for rail in sorted(both)}
    facts["idle"] = [f"{cable} rail {rail}" for (cable, rail), load in loads.items() if load == "idle"]
    facts["loaded"] = "one" if facts["idle"] else "both" if all(load == "loaded" for load in loads.values()) else "unknown"
    facts["rails"] = [f"{cable}/{rail}" for cable, rail in loads]
    return facts


def rail_load(results: Iterable[Mapping[str, Any]]) -> str:
    """Tell by the counters of the sending device whether the one-way tests of a rail went over it: ``loaded``, ``idle`` or ``unknown``."""
    results = list(results)
    if not results:
        return "idle"
    shares = []
    for result in results:
        counters, evidence = result["evidence"].get("counters") or {}, result["evidence"]
        told = (evidence.get("size_bytes") or 0) * (evidence.get("iterations") or 0)
        if measured(result) and told and counters:
            # The kernel counts an interface's bytes without RDMA on mlx5 and with it on rxe; port_xmit_data counts words of four bytes.
            shares.append(max(counters.get("tx_bytes", 0), 4 * counters.get("port_xmit_data", 0)) / told)
    if not shares:
        return "unknown"
    return "idle" if max(shares) < IDLE_SHARE else "loaded" if min(shares) > LOADED_SHARE else "unknown"
