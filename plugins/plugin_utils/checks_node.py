# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which nodes took part: who answered, who dropped out, who could not measure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.busy_cluster import LEFT_ALONE, REFUSED

NO_FACTS = "no facts came from it: it was unreachable, or a task failed on it (see the output above)"

#: States of a load test job in which nothing of it can be used, in words.
IDLE_STATES = {REFUSED: "is busy", LEFT_ALONE: "was left alone", "not_started": "did not start measuring"}


def attendance(data: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Sort the nodes of the plan by what can be said about them.

    :return: ``not_tested``, ``unreachable`` (never answered), ``lost`` (answered first), ``idle`` (answered, but did not
        measure): each maps a node's name to the reason in words
    """
    seats: dict[str, dict[str, str]] = {"not_tested": {}, "unreachable": {}, "lost": {}, "idle": {}}
    testing = {node for test in data["plan"]["tests"] for node in (test["client"], test["server"])} if data["mode"] == "validate" else set()
    others_measured = any(data["perftest"].values())
    for name in data["plan"]["nodes"]:
        if name in data["not_tested"]:
            seats["not_tested"][name] = f"{name} is outside --limit"
            continue
        record = data["perftest"].get(name) or {}
        gone = data["unreachable"].get(name)
        if not gone and not record and name in testing and others_measured:
            gone = "nothing came from it after it was observed, while other nodes measured"
        if data["nodes"].get(name) is None:
            seats["unreachable"][name] = data["unreachable"].get(name) or NO_FACTS
        elif gone is not None or record.get("status") == "lost":
            seats["lost"][name] = gone or record.get("message") or "its load test was never heard of again"
        elif record.get("status") in IDLE_STATES:
            seats["idle"][name] = f"{name} {IDLE_STATES[record['status']]}: {record.get('message') or 'no reason was given'}"
    return seats


def measuring(data: Mapping[str, Any], node: str, has_tests: bool) -> dict[str, Any]:
    """Return what became of the load test job of a node that answered."""
    record = data["perftest"].get(node)
    if record is None:
        expected = has_tests and data["mode"] == "validate"
        problem = "no result of its load test came back" if expected else ""
        return {"status": None, "refused": False, "problem": problem, "message": ""}
    status = record.get("status")
    message = record.get("message") or ""
    problem = ""
    if status == "not_started":
        problem = message or "its load test did not start"
    elif status == "running":
        problem = message or "its load test had not ended at the deadline"
    return {"status": status, "refused": status == REFUSED, "problem": problem, "message": message}


def left_alone(data: Mapping[str, Any]) -> str:
    """Say that nothing was measured since the cluster is in use; empty when it was measured, or is free."""
    records = [record for record in data["perftest"].values() if record]
    busy = [record["node"] for record in records if record.get("status") == REFUSED]
    if not busy or any(record.get("status") not in IDLE_STATES for record in records):
        return ""
    return f"not measured: {', '.join(busy)} {'is' if len(busy) == 1 else 'are'} in use"


def clock_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``clock`` facts of a node."""
    offset = facts.get("clock_offset_seconds")
    if not isinstance(offset, (int, float)):
        return {"apart_seconds": None, "text": ""}
    apart = abs(float(offset))
    size = next((f"{apart / unit:.1f} {name}" for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")) if apart >= unit), f"{apart:.0f} seconds")
    return {"apart_seconds": apart, "text": f"{size} {'ahead of' if offset > 0 else 'behind'}"}
