# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Load tests, put down to rails and cables, and summed up to what the rules ask."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_latency import latency_facts
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_retests import figure_text, only_together, retest_facts
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import RailKey
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.load_results import load_result, records_by_test
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.localise import Blame, Observation, Place, Transfer, blame, places
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import number_text

STAGES = ("directed", "bidirectional", "read", "send")
#: Stages whose result is about both directions at once, or about none.
BOTH_WAYS = ("bidirectional", "write_latency", "send_latency")

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
    """What counts as bad when a culprit is looked for: a share of the expected rate (percent) below this, by stage, or more packets lost (percent)."""

    percent: Mapping[str, float]
    lost_percent: float | None = None

    def bad(self, result: Mapping[str, Any]) -> bool:
        """Tell whether a result is anything but good; a latency is good when there is one."""
        if result["state"] != "ok":
            return True
        if self.lost_percent is not None and result["lost_percent"] is not None and result["lost_percent"] > self.lost_percent:
            return True
        least = self.percent.get(result["stage"])
        return least is not None and (result["percent"] is None or result["percent"] < least)


def all_results(tests: Iterable[Mapping[str, Any]], data: Mapping[str, Any], excluded: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the result of every test, in the tests' order."""
    records = {**records_by_test(data["perftest"]), **records_by_test(data["iperf3"])}
    return [load_result(test, records, excluded) for test in tests]


def retests_by_test(data: Mapping[str, Any], excluded: Mapping[str, str]) -> dict[str, list[dict[str, Any]]]:
    """Return the results of the diagnosis under the test that each repeats."""
    found: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for test, result in zip(data["diagnosis"], all_results(data["diagnosis"], data, excluded)):
        for origin in test["of"]:
            found[origin].append({**result, "kind": test["kind"]})
    return dict(found)


def put_down(results: Iterable[dict[str, Any]], limits: Limits) -> dict[RailKey, list[dict[str, Any]]]:
    """List the results of every rail; a bad one that is another cable's fault says so in ``blamed``."""
    return put_down_as(results, limits.bad)


def put_down_as(results: Iterable[dict[str, Any]], bad: Callable[[Mapping[str, Any]], bool]) -> dict[RailKey, list[dict[str, Any]]]:
    """List the results of every rail, bad being what a function says; what kept a test from running at a known node is put down to that end."""
    results = list(results)
    observations = []
    hindered = {}
    for result in results:
        ends = [f"{cable}/{result['rail']}" for cable in flow(result)]
        if result["guilty_node"] is not None and result["state"] not in ("ok", "excluded"):
            hindered[result["test"]] = Blame(f"{result['cables'][0 if result['guilty_node'] == result['client'] else -1]}/{result['rail']}")
        elif result["state"] not in ("excluded", "missing"):
            observations.append(Observation(result["test"], ends[0], ends[-1], bad(result), both_ways=result["stage"] in BOTH_WAYS))
    verdicts = {**blame(observations), **hindered}
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


def flow(result: Mapping[str, Any]) -> list[str]:
    """Return a result's cables in the direction of its data: a read pulls it from the server."""
    return list(reversed(result["cables"])) if result["stage"] == "read" else list(result["cables"])


def where_faults_sit(results: Iterable[Mapping[str, Any]], limits: Limits) -> dict[RailKey, Place]:
    """Return for every rail with a bad one-way write where the fault sits."""
    transfers = []
    for result in results:
        if result["stage"] == "directed" and result["state"] not in ("excluded", "missing", "control_blocked", "peer_absent", "void"):
            transfers.append(
                Transfer(result["client"], result["server"], result["cables"][0], result["cables"][-1], result["rail"], limits.bad(result))
            )
    return places(transfers)


def own(results: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the results that a rail answers for."""
    return [result for result in results if result["blamed"] is None and result["state"] != "excluded"]


def result_text(result: Mapping[str, Any]) -> str:
    """Return a result in words: ``spark1 -> spark2 41.2 of 98.0 Gb/s (42 %)``."""
    text = result["name"] if result["stage"] in ("directed", "bidirectional") else f"{result['name']} {result['stage'].replace('_', ' ')}"
    if result["gbps"] is not None:
        text += f" {figure_text(result)}"
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


def loss_of(results: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the worst loss of some results and those that lost about as much, as the fact ``lost`` has it."""
    counted = [result for result in results if result["state"] == "ok" and result["lost_percent"] is not None]
    worst = max((result["lost_percent"] for result in counted), default=None)
    told = sorted((result for result in counted if worst and result["lost_percent"] >= worst / 2), key=lambda result: -result["lost_percent"])
    return {"percent": worst, "text": "; ".join(f"{result['name']} {result['lost_percent']:.2g} % of the packets" for result in told[:2])}


@dataclasses.dataclass(frozen=True, slots=True)
class RailView:
    """What is known of one rail besides its screening: further RDMA results, repetitions, where its fault sits, the others' latency."""

    further: list[dict[str, Any]]
    retests: Mapping[str, list[dict[str, Any]]]
    place: Place | None
    others_latency: Mapping[str, list[Mapping[str, float]]]


def rail_facts(results: list[dict[str, Any]], view: RailView, limits: Limits, ceilings: Mapping[str, float]) -> dict[str, Any]:
    """Return the ``rdma`` facts of one rail."""
    screened = own(results)
    mine = [*screened, *own(view.further)]
    lacking = [result for result in mine if result["error"] == "tool_missing"]
    facts: dict[str, Any] = {
        fact: [result_text(result) for result in mine if result["state"] == state and result not in lacking] for fact, state in STATE_FACTS
    }
    facts["missing"] = missing_texts(results, mine)
    for fact, state in (("blocked_node", "control_blocked"), ("absent_node", "peer_absent")):
        guilty = [result["guilty_node"] for result in mine if result["state"] == state]
        facts[fact] = guilty[0] if guilty else None
    facts["tool_missing"] = list(dict.fromkeys(result["message"] for result in lacking))
    facts["tool_missing_node"] = next((result["guilty_node"] for result in lacking), None)
    for stage in STAGES:
        facts[stage] = summary_of(result for result in mine if result["stage"] == stage)
    facts["lost"] = loss_of(mine)
    facts["latency"] = latency_facts(mine, view.others_latency)
    facts["retests"] = retest_facts([result for result in mine if limits.bad(result)], view.retests, limits.bad)
    facts["place"] = {
        "kind": view.place.kind if view.place else "",
        "node": view.place.node if view.place else None,
        "text": view.place.text if view.place else "",
        "note": f"; {view.place.text}" if view.place else "",
    }
    shares = ceiling_shares(mine, ceilings)
    facts["above_ceiling"] = [text for share, text in shares if share > 100.0]
    facts["best_percent"] = round(max(share for share, _text in shares), 2) if shares else None
    facts["mtu"] = min((result["rdma_mtu"] for result in mine if result["rdma_mtu"]), default=None)
    facts["wrong_gid"] = list(dict.fromkeys(text for result in mine for text in result["wrong_gid"]))
    facts["tests"] = {result["test"]: result["evidence"] for result in mine if result["evidence"]}
    for result in mine:
        for again in view.retests.get(result["test"], []):
            if again["evidence"]:
                facts["tests"][again["test"]] = again["evidence"]
    return facts


def ceiling_shares(results: Iterable[Mapping[str, Any]], ceilings: Mapping[str, float]) -> list[tuple[float, str]]:
    """Return each figure in percent of what a rail can carry, and in words."""
    found = []
    for result in results:
        ceiling = ceilings.get("rail_bidirectional" if result["stage"] == "bidirectional" else "rail")
        if ceiling and result["state"] == "ok" and result["gbps"] is not None:
            found.append((100.0 * result["gbps"] / ceiling, f"{result['name']} {number_text(result['gbps'])} Gb/s, ceiling {number_text(float(ceiling))}"))
    return found


def missing_texts(results: list[dict[str, Any]], mine: list[dict[str, Any]]) -> list[str]:
    """Say which results a rail lacks; partners that did not take part only count when they leave nothing to judge."""
    missing = [result_text(result) for result in mine if result["state"] == "missing"]
    if not mine and not any(result["blamed"] for result in results):
        missing += dict.fromkeys(result["message"] for result in results if result["state"] == "excluded")
    return missing


def cable_facts(
    rails: Mapping[str, list[dict[str, Any]]], retests: Mapping[str, list[dict[str, Any]]], limits: Limits, ceilings: Mapping[str, float]
) -> dict[str, Any]:
    """Return the ``rdma`` facts of one cable: what both its rails carry at once, for the worst direction, and what repeating it showed."""
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
    repeated = {
        rail: retest_facts([one for one in own(results) if one["stage"] == "directed" and limits.bad(one)], retests, limits.bad)
        for rail, results in rails.items()
    }
    ceiling = ceilings.get("cable")
    best = max((one["gbps"] for one in found), default=None)
    return {
        "sum": min(found, key=lambda one: one["percent"]) if found else None,
        "best_percent": round(100.0 * best / ceiling, 2) if best is not None and ceiling else None,
        "above_ceiling": [one["text"] for one in found if ceiling and one["gbps"] > ceiling],
        "only_together": only_together(repeated),
        "passing": any(one is not None for one in repeated.values()) and all(one is None or one["passing"] for one in repeated.values()),
    }
