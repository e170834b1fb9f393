# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The ladder of TCP tests, summed up: each rail against its rate, both rails together, and the cables against each other."""

from __future__ import annotations

import collections
import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils.iperf3_output import one_thread
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import number_text

#: States in which nothing is said about the cable: the test did not happen.
UNMEASURED = ("missing", "control_blocked", "peer_absent", "void", "implausible")

Way = tuple[str, str]


def tcp_facts(results: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the ``tcp`` facts of one rail from its TCP results."""
    results = [result for result in results if result["state"] != "excluded" and result["blamed"] is None]
    ladders: dict[Way, dict[int, Mapping[str, Any]]] = collections.defaultdict(dict)
    for result in results:
        if result["state"] == "ok" and not result["with_twin"]:
            ladders[(result["client"], result["server"])][result["streams"]] = result
    tops = [max(ladder.values(), key=lambda result: result["gbps"]) for ladder in ladders.values()]
    lacking = [result for result in results if result["error"] == "tool_missing"]
    return {
        "missing": list(dict.fromkeys(text_of(result) for result in results if result["state"] in UNMEASURED)),
        "failed": list(dict.fromkeys(text_of(result) for result in results if result["state"] in ("failed", "zero", "timeout") and result not in lacking)),
        "tool_missing": list(dict.fromkeys(result["message"] for result in lacking)),
        "tool_missing_node": next((result["guilty_node"] for result in lacking), None),
        "best": best_of(min(tops, key=lambda result: result["percent"] or 0.0)) if tops else None,
        "ladder": [ladder_text(way, ladder) for way, ladder in ladders.items()],
        "mtu": min((result["evidence"]["path_mtu_bytes"] for result in results if result["evidence"].get("path_mtu_bytes")), default=None),
        "tests": {result["test"]: result["evidence"] for result in results if result["evidence"]},
    }


def best_of(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the highest rung of the ladder in the worse direction."""
    of = f"{number_text(float(result['expected_gbps']))} Gb/s" + (f" ({result['percent']:.0f} %)" if result["percent"] is not None else "")
    text = f"{result['name']} {number_text(result['gbps'])} of {of} with {streams_text(result['streams'])}"
    if one_thread(str(result["evidence"].get("version") or "")):
        text += f", which iperf3 {result['evidence']['version']} serves in one thread: the limit may be the tool's"
    return {"percent": result["percent"], "gbps": result["gbps"], "expected_gbps": result["expected_gbps"], "streams": result["streams"], "text": text}


def ladder_text(way: Way, ladder: Mapping[int, Mapping[str, Any]]) -> str:
    """Return one direction's ladder in words."""
    rungs = ", ".join(f"{streams_text(streams)} {number_text(ladder[streams]['gbps'])}" for streams in sorted(ladder))
    return f"{way[0]} -> {way[1]}: {rungs} Gb/s"


def streams_text(streams: int) -> str:
    """Return a number of streams in words."""
    return f"{streams} stream{'' if streams == 1 else 's'}"


def text_of(result: Mapping[str, Any]) -> str:
    """Return a test without a figure in words."""
    return f"{result['name']} ({result['message'] or result['state']})"


def cable_tcp_facts(rails: Mapping[str, list[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return the ``tcp`` facts of a cable: the sum of both rails at once, its share of the link, and whether two rails give more than one."""
    sums: dict[tuple[str, str, int, int], dict[str, Mapping[str, Any]]] = collections.defaultdict(dict)
    alone: dict[Way, float] = {}
    for rail, results in rails.items():
        for result in results:
            if result["state"] != "ok" or result["blamed"] is not None:
                continue
            way = (result["client"], result["server"])
            if result["with_twin"]:
                sums[(*way, result["streams"], result["round"])][rail] = result
            else:
                alone[way] = max(alone.get(way, 0.0), result["gbps"])
    best: dict[Way, dict[str, Any]] = {}
    for (client, server, streams, _round), both in sums.items():
        if len(both) == 2:
            gbps, expected = (sum(float(result[key]) for result in both.values()) for key in ("gbps", "expected_gbps"))
            text = f"{client} -> {server} {number_text(gbps)} Gb/s over both rails with {streams_text(streams)} each"
            one = {"gbps": round(gbps, 4), "expected_gbps": round(expected, 4), "percent": round(100.0 * gbps / expected, 2), "text": text}
            if (client, server) not in best or best[(client, server)]["gbps"] < gbps:
                best[(client, server)] = one
    no_gain = [f"{one['text']}, one rail alone {number_text(alone[way])}" for way, one in best.items() if one["gbps"] < alone.get(way, 0.0)]
    worst = min(best.values(), key=lambda one: one["percent"], default=None)
    return {"sum": worst, "no_gain": no_gain}


def dispersion(cables: Mapping[str, Mapping[str, Any]], link_gbps: float) -> dict[str, Any] | None:
    """Return how far the cables' TCP sums lie apart, None with fewer than two of them.

    :return: ``slowest_percent`` of the median, ``spread_percent`` (largest minus smallest, of the median), ``efficiency_percent`` of the
        link (the median), and the slowest and the fastest in words
    """
    known = {name: facts["sum"] for name, facts in cables.items() if facts["sum"] is not None}
    if len(known) < 2:
        return None
    middle = statistics.median(one["gbps"] for one in known.values())
    slowest, fastest = (pick(known, key=lambda name: known[name]["gbps"]) for pick in (min, max))
    return {
        "slowest_percent": round(100.0 * known[slowest]["gbps"] / middle, 2),
        "spread_percent": round(100.0 * (known[fastest]["gbps"] - known[slowest]["gbps"]) / middle, 2),
        "efficiency_percent": round(100.0 * middle / link_gbps, 2) if link_gbps else None,
        "median_gbps": round(middle, 4),
        "slowest": f"cable {slowest}, {known[slowest]['text']}",
        "fastest": f"cable {fastest}, {known[fastest]['text']}",
    }
