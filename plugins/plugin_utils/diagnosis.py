# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Screen, then diagnose: which tests to repeat, alone, after some fell short. Pure: results of a run in, a plan of further tests out.

What is repeated: the test as it was (with its twin, where both rails ran), then each rail without its twin, both ways. In a round no
node has a part in two of them, so nothing disturbs anything. On a cluster where all is well there is nothing to repeat.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_rdma import own
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.edge_colouring import first_fit
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.judge import cluster_and_findings
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rates import rate_at

#: Results that a repetition can tell more about. The others name a cause already, or no test took place.
REPEATABLE = ("ok", "zero", "failed", "timeout")
#: Errors that will not go away by themselves.
CERTAIN = ("tool_missing", "device_missing", "gid_missing", "link_down", "memory_registration", "bad_option", "version_gap", "busy")
ENDS = ("client", "server")

Test = Mapping[str, Any]


@dataclass(frozen=True)
class Unit:
    """Tests that run at once, both rails of a link or one test alone: each with the ids of the tests that it repeats."""

    kind: str
    tests: tuple[tuple[Test, list[str]], ...]

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes that have a part in it."""
        return frozenset(str(test[end]) for test, _of in self.tests for end in ENDS)


def diagnosis_plan(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan with the tests of the diagnosis in place of its own; none on a healthy cluster.

    Each test has besides ``of`` (the ids of the tests that it repeats) and ``kind`` (``repeat`` or ``alone``); ``measuring`` lists the
    nodes that have any. Raises FabricError.
    """
    data, cluster, findings = cluster_and_findings(results)
    plan = data["plan"]
    repeats = plan.get("test_repeats") or 0
    guilty = {rail for finding in findings if finding.layer == "rdma" and finding.status in ("fail", "unknown", "warn") for rail in finding.touches}
    tests = {test["id"]: test for test in [*plan["tests"], *(plan.get("further_tests") or [])]}
    short: dict[str, Mapping[str, Any]] = {}
    for key in [rail for rail in cluster.results if rail in guilty]:
        for result in own([*cluster.results[key], *cluster.further.get(key, [])]):
            if result["state"] in REPEATABLE and result["error"] not in CERTAIN and cluster.limits.bad(result):
                short[result["test"]] = result
    rounds = _rounds(_units(short, tests, repeats), (plan.get("settings") or {}).get("fabric_max_concurrent_tests"))
    named = [test for number, units in enumerate(rounds) for test in _round(number, units, plan)]
    measuring = sorted({test[end] for test in named for end in ENDS})
    return {**plan, "tests": named, "rounds": len(rounds), "further_tests": [], "further_rounds": 0, "measuring": measuring}


def _units(short: Mapping[str, Mapping[str, Any]], tests: Mapping[str, Test], repeats: int) -> list[Unit]:
    """Return what is to be run. A test that hung is repeated once, since each time costs its deadline."""
    units: list[Unit] = []
    done: set[tuple[Any, ...]] = set()
    alone: dict[tuple[Any, ...], tuple[Test, list[str]]] = {}
    for identity, result in short.items():
        test = tests[identity]
        twins = [twin for twin in tests.values() if test["with_twin"] and _link(twin) == _link(test)] or [test]
        if _link(test) not in done or not test["with_twin"]:
            done.add(_link(test))
            for number in range(min(repeats, 1) if result["state"] == "timeout" else repeats):
                exchange = test["bidirectional"] and number % 2 == 0
                units.append(Unit("repeat", tuple((swapped(twin) if exchange else twin, [twin["id"]]) for twin in twins)))
        if test["with_twin"] and result["state"] != "timeout":
            for one in (test, swapped(test)) if test["stage"] == "directed" else (test,):
                alone.setdefault((test["stage"], one["client"], one["server"], one["client_interface"]), (one, []))[1].append(identity)
    return units + [Unit("alone", (one,)) for one in alone.values() for _time in range(repeats)]


def _link(test: Test) -> tuple[Any, ...]:
    return (test["round"], test["client"], test["server"], test["client_interface"][-1])


def swapped(test: Test) -> dict[str, Any]:
    """Return a test with its ends' roles exchanged."""
    result = {**test, "cables": list(reversed(test["cables"]))}
    for key in ("{}", "{}_interface", "{}_device", "{}_address"):
        result[key.format("client")], result[key.format("server")] = test[key.format("server")], test[key.format("client")]
    return result


def _rounds(units: list[Unit], most: int | None) -> list[list[Unit]]:
    """Return the units in rounds: no node in two units of a round, and no more tests at once than the settings allow."""
    numbers = range(len(units))
    result: list[list[Unit]] = []
    for members in first_fit(numbers, {number: units[number].nodes for number in numbers}, []):
        current: list[Unit] = []
        for unit in (units[number] for number in members):
            if current and most is not None and sum(len(each.tests) for each in (*current, unit)) > most:
                result.append(current)
                current = []
            current.append(unit)
        result.append(current)
    return result


def _round(number: int, units: Iterable[Unit], plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    members = [(unit.kind, test, of, len(unit.tests) > 1) for unit in units for test, of in unit.tests]
    made = []
    for place, (kind, test, of, with_twin) in enumerate(members):
        rate = test["expected_gbps"]
        if rate is not None:
            table = "rail_bidirectional_gbps" if test["bidirectional"] else "cable_gbps" if with_twin else "rail_gbps"
            rate = rate_at(plan["expected"][table], len(members)) / (2 if with_twin else 1)
        made.append({
            **test,
            "id": f"d{number}-{place}-{test['client']}-{test['server']}-{test['rail']}",
            "round": number,
            "of": list(of),
            "kind": kind,
            "port": plan["test_port_base"] + place,
            "concurrent": len(members),
            "with_twin": with_twin,
            "expected_gbps": rate,
        })
    return made
