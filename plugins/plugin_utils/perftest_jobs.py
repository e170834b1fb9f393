# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The load test job of one node, from the plan and what was observed of all nodes. Pure functions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.seen_nodes import SeenNode

#: Seconds that starting the job takes on one host over ssh, on slow machines, and what a peer may be late besides.
START_SECONDS = 10
START_MARGIN = 15


def start_skew(hosts: int, forks: int) -> float:
    """Return the seconds by which the first node may have started before the last one."""
    return float(START_MARGIN + START_SECONDS * math.ceil(hosts / max(1, forks)))


def make_job(plan: Mapping[str, Any], node: str, seen: Mapping[str, SeenNode], run: str, start_skew_seconds: float,
             grace_seconds: float | None = None) -> dict[str, Any]:
    """Return the job of ``node``, as the module ``perftest`` takes it.

    Tests that cannot be run from what is known now are not in it but under ``not_run``, with the reason: an end
    outside of the run, a link that is down, an address that is missing. Raises FabricError.
    """
    if node not in plan["nodes"]:
        raise FabricError(f"{node} is not in the plan; the plan's nodes are {', '.join(plan['nodes'])}")
    if node not in seen:
        raise FabricError(f"{node} was not observed: run the role observe on it first")
    if seen[node].management is None:
        raise FabricError(f"{node} has no management address: set fabric_management_interface or fabric_management_address for it")
    # A limit on tests at once holds for the whole cluster: nodes that share no test must keep step too.
    in_step = (plan.get("settings") or {}).get("fabric_max_concurrent_tests") is not None
    planned = [*plan["tests"], *(plan.get("further_tests") or [])]
    reasons = {test["id"]: obstacle(test, seen) for test in planned}
    at_once = Counter(test["round"] for test in planned if reasons[test["id"]] is None)
    tests, not_run, peers = [], [], {}
    if in_step:
        runnable = [test for test in planned if reasons[test["id"]] is None]
        names = dict.fromkeys(name for test in runnable for name in (test["client"], test["server"]) if name != node)
        peers = {name: {"address": seen[name].management} for name in names}
    for test in planned:
        if node not in (test["client"], test["server"]):
            continue
        role, other = ("client", "server") if node == test["client"] else ("server", "client")
        reason = reasons[test["id"]]
        common = {"id": test["id"], "round": test["round"], "role": role, "peer": test[other],
                  "device": test[f"{role}_device"], "interface": test[f"{role}_interface"], "tool": test["tool"], "stage": test["stage"]}
        if reason is not None:
            not_run.append({**common, **reason})
            continue
        peers[test[other]] = {"address": seen[test[other]].management}
        tests.append({
            **common, "address": test[f"{role}_address"], "peer_address": test[f"{other}_address"],
            "server_address": seen[test["server"]].management, "port": test["port"], "seconds": test["seconds"],
            "bidirectional": test["bidirectional"], "concurrent": at_once[test["round"]],
            **{name: test[name] for name in ("size_bytes", "queue_pairs", "iterations", "qp_timeout", "streams") if test.get(name)}})
    job = {"run": run, "node": node, "control_address": seen[node].management, "control_port": plan["control_port"],
           "rounds": plan["rounds"] + (plan.get("further_rounds") or 0),
           "start_skew_seconds": float(start_skew_seconds), "force_busy": bool(plan["force_busy"]), "in_step": in_step,
           "peers": peers, "tests": tests, "not_run": not_run}
    return job if grace_seconds is None else {**job, "grace_seconds": float(grace_seconds)}


def obstacle(test: Mapping[str, Any], seen: Mapping[str, SeenNode]) -> dict[str, str] | None:
    """Return why a test cannot be run (``error``, ``message``, ``guilty_node``), None when nothing known stands against it."""
    for role in ("client", "server"):
        name = test[role]
        found = _obstacle_at(name, test[f"{role}_interface"], test[f"{role}_address"], seen.get(name))
        if found is not None:
            return {"error": found[0], "message": found[1], "guilty_node": name}
    return None


def _obstacle_at(name: str, interface: str, address: str, node: SeenNode | None) -> tuple[str, str] | None:
    """Return what stands against a test at one of its ends: class and text."""
    if node is None:
        return "not_observed", f"{name} was not observed: it is outside of --limit, or did not answer"
    if node.management is None:
        return "no_management", f"{name} has no management address: set fabric_management_interface or fabric_management_address for it"
    found = node.interfaces.get(interface)
    if found is None:
        return "interface_missing", f"{name} has no interface {interface}"
    if found.up is False:
        return "link_down", f"the link of {interface} on {name} is down"
    if address not in found.addresses:
        return "address_missing", f"{interface} of {name} does not have the address {address} (it has: {', '.join(found.addresses) or 'none'})"
    return None
