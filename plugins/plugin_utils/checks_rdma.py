# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Load tests, put down to rails and cables, and summed up to what the rules ask."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import RailKey
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.load_results import load_result, records_by_test
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.localise import Observation, blame
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import number_text

STAGES = ("directed", "bidirectional")

#: Results this close to the worst one (percentage points) are told with it.
NEAR_PERCENT = 10.0

#: Facts that list results in one state: fact, state.
STATE_FACTS = (
    ("zero", "zero"),
    ("timeouts", "timeout"),
    ("failed", "failed"),
    ("voided", "void"),
    ("blocked", "control_blocked"),
    ("absent", "peer_absent"),
    ("implausible", "implausible"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Below which share of the expected rate (percent) a result counts as bad when a culprit is looked for, by stage."""

    directed: float
    bidirectional: float

    def bad(self, result: Mapping[str, Any]) -> bool:
        """Tell whether a result is anything but good."""
        return result["state"] != "ok" or result["percent"] is None or result["percent"] < getattr(self, result["stage"])


def load_results(data: Mapping[str, Any], excluded: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the result of every planned test, in the plan's order."""
    records = records_by_test(data["perftest"])
    return [load_result(test, records, excluded) for test in data["plan"]["tests"]]


def put_down(results: Iterable[dict[str, Any]], limits: Limits) -> dict[RailKey, list[dict[str, Any]]]:
    """List the results of every rail; a bad one that is another cable's fault says so in ``blamed``."""
    return put_down_as(results, limits.bad)


def put_down_as(results: Iterable[dict[str, Any]], bad: Callable[[Mapping[str, Any]], bool]) -> dict[RailKey, list[dict[str, Any]]]:
    """List the results of every rail, bad being what a function says."""
    results = list(results)
    observations = []
    for result in results:
        if result["state"] in ("excluded", "missing"):
            continue
        ends = [f"{cable}/{result['rail']}" for cable in result["cables"]]
        observations.append(Observation(result["test"], ends[0], ends[-1], bad(result), both_ways=result["stage"] == "bidirectional"))
    verdicts = blame(observations)
    rails: dict[RailKey, list[dict[str, Any]]] = collections.defaultdict(list)
    for result in results:
        verdict = verdicts.get(result["test"])
        for cable in result["cables"]:
            mine = dict(result, blamed=None, alternative=None)
            if verdict is not None:
                culprit = verdict.cable.rpartition("/")[0]
                mine["blamed"] = None if culprit == cable else culprit
                mine["alternative"] = verdict.alternative.rpartition("/")[0] if verdict.alternative else None
            rails[(cable, result["rail"])].append(mine)
    return dict(rails)


def own(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results that a rail answers for."""
    return [result for result in results if result["blamed"] is None and result["state"] != "excluded"]


def result_text(result: Mapping[str, Any]) -> str:
    """Return a result in words: ``spark1 -> spark2 41.2 of 98.0 Gb/s (42 %)``."""
    text = result["name"]
    if result["gbps"] is not None:
        text += f" {number_text(result['gbps'])} of {number_text(float(result['expected_gbps']))} Gb/s"
        if result["percent"] is not None:
            text += f" ({result['percent']:.0f} %)"
    elif result["message"]:
        text += f" ({result['message']})"
    if result.get("alternative"):
        text += f"; one test cannot tell it from {result['alternative']}"
    return text


def summary_of(results: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the worst of some results, as the facts ``directed`` and ``bidirectional`` have it."""
    good = [result for result in results if result["state"] == "ok" and result["percent"] is not None]
    if not good:
        return None
    worst = min(good, key=lambda result: result["percent"])
    near = [result for result in good if result["percent"] <= worst["percent"] + NEAR_PERCENT]
    return {
        "percent": worst["percent"],
        "gbps": worst["gbps"],
        "expected_gbps": worst["expected_gbps"],
        "text": "; ".join(result_text(result) for result in sorted(near, key=lambda result: result["percent"])[:2]),
    }


def rail_facts(results: list[dict[str, Any]], ceilings: Mapping[str, float]) -> dict[str, Any]:
    """Return the ``rdma`` facts of one rail."""
    mine = own(results)
    facts: dict[str, Any] = {fact: [result_text(result) for result in mine if result["state"] == state] for fact, state in STATE_FACTS}
    facts["missing"] = missing_texts(results, mine)
    for fact, state in (("blocked_node", "control_blocked"), ("absent_node", "peer_absent")):
        guilty = [result["guilty_node"] for result in mine if result["state"] == state]
        facts[fact] = guilty[0] if guilty else None
    for stage in STAGES:
        facts[stage] = summary_of(result for result in mine if result["stage"] == stage)
    facts["above_ceiling"] = []
    measured = [result for result in mine if result["state"] == "ok"]
    shares = []
    for result in measured:
        ceiling = ceilings.get("rail_bidirectional" if result["stage"] == "bidirectional" else "rail")
        if ceiling:
            shares.append(100.0 * result["gbps"] / ceiling)
            if result["gbps"] > ceiling:
                facts["above_ceiling"].append(f"{result['name']} {number_text(result['gbps'])} Gb/s, ceiling {number_text(float(ceiling))}")
    facts["best_percent"] = round(max(shares), 2) if shares else None
    facts["mtu"] = min((result["rdma_mtu"] for result in mine if result["rdma_mtu"]), default=None)
    facts["wrong_gid"] = list(dict.fromkeys(text for result in mine for text in result["wrong_gid"]))
    facts["tests"] = {result["test"]: result["evidence"] for result in mine if result["evidence"]}
    return facts


def missing_texts(results: list[dict[str, Any]], mine: list[dict[str, Any]]) -> list[str]:
    """Say which results a rail lacks; partners that did not take part only count when they leave nothing to judge."""
    missing = [result_text(result) for result in mine if result["state"] == "missing"]
    if not mine and not any(result["blamed"] for result in results):
        missing += dict.fromkeys(result["message"] for result in results if result["state"] == "excluded")
    return missing


def cable_facts(rails: Mapping[str, list[dict[str, Any]]], ceilings: Mapping[str, float]) -> dict[str, Any]:
    """Return the ``rdma`` facts of one cable: what both its rails carry at once, for the worst direction."""
    sums: dict[tuple[str, str, int], dict[str, dict[str, Any]]] = collections.defaultdict(dict)
    for rail, results in rails.items():
        for result in own(results):
            if result["stage"] == "directed" and result["state"] == "ok":
                sums[(result["client"], result["server"], result["round"])][rail] = result
    found = []
    for (client, server, _round), both in sums.items():
        if len(both) < 2:
            continue
        gbps = sum(result["gbps"] for result in both.values())
        expected = sum(float(result["expected_gbps"]) for result in both.values())
        if expected:
            text = f"{client} -> {server} {number_text(gbps)} of {number_text(expected)} Gb/s ({100.0 * gbps / expected:.0f} %)"
            found.append({"percent": round(100.0 * gbps / expected, 2), "gbps": round(gbps, 4), "expected_gbps": round(expected, 4), "text": text})
    ceiling = ceilings.get("cable")
    best = max((one["gbps"] for one in found), default=None)
    return {
        "sum": min(found, key=lambda one: one["percent"]) if found else None,
        "best_percent": round(100.0 * best / ceiling, 2) if best is not None and ceiling else None,
        "above_ceiling": [one["text"] for one in found if ceiling and one["gbps"] > ceiling],
    }
