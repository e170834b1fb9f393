# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Cabling, judged: the plan against what the probe of the links heard, laid out for the rules by cable and rail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cabling_compare import CableVerdict, compare
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cabling_seen import seen_cabling


def cabling_verdicts(data: Mapping[str, Any]) -> dict[str, CableVerdict]:
    """Return the verdict on every cable by name; none when no node was probed."""
    probed = {node: data["neighbours"][node] for node in data["plan"]["nodes"] if data["neighbours"].get(node)}
    return {verdict.name: verdict for verdict in compare(data["plan"], seen_cabling(probed))} if probed else {}


def cabling_facts(verdict: CableVerdict | None) -> dict[str, Any]:
    """Return the ``cabling`` facts of a cable."""
    if verdict is None:
        return {"probed": False, "number": None, "wrong": None, "fix": "", "not_probed": [], "heard": {}}
    return {
        "probed": verdict.probed, "number": verdict.number, "wrong": verdict.wrong, "fix": verdict.fix,
        "not_probed": list(verdict.not_probed), "heard": {end: list(others) for end, others in verdict.heard.items()}}


def hearing_facts(verdict: CableVerdict | None, rail: str) -> dict[str, Any]:
    """Return the ``hears`` facts of a rail: ``silent`` are the ends that hear nobody, null where no end was probed."""
    if verdict is None or not verdict.probed:
        return {"silent": None, "number": None}
    return {"silent": list(verdict.silent.get(rail, ())), "number": verdict.number}
