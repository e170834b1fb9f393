# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Inference judged by itself, where no run of the network is at hand: the findings of its layer, and what was measured in a few lines. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.evaluate import Subject, judge_subject
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import Finding, counts_of
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_facts import inference_facts, run_text, runs_of
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.measured_rows import is_figure
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import number_text
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rules import load_rules

LAYER = "inference"
BAD = ("fail", "unknown")


def judge_inference(results: Mapping[str, Any], cluster: str, rules: Iterable[Any] = ()) -> dict[str, Any]:
    """Judge what was measured of inference.

    :param results: ``fabric_inference`` by the host that holds it
    :param cluster: its name
    :param rules: of the site, as ``fabric_rules``
    :return: ``status`` (pass or fail), ``message``, ``counts``, ``findings``, and ``lines`` for people
    :raises FabricError: for a rule that cannot be used
    """
    facts = {"cluster": cluster, "mode": "validate", "plan": {"cluster": cluster}, "nodes": {}, "inference": inference_facts(results)}
    mine = [rule for rule in load_rules(rules).values() if rule.layer == LAYER]
    findings = judge_subject(mine, Subject("cluster", cluster, facts))
    bad = [finding for finding in findings if finding.status in BAD]
    return {
        "status": "fail" if bad else "pass",
        "message": "; ".join(finding.message for finding in bad) or "the endpoint was measured without an error",
        "counts": counts_of(findings),
        "findings": [finding.document() for finding in findings],
        "lines": [*(line for fact in results.values() for line in measured_lines(fact)), *(line for finding in findings for line in told(finding))],
    }


def measured_lines(fact: Mapping[str, Any]) -> list[str]:
    """Return what a host measured, a line a run."""
    return [f"  {run_text(run)}: {figures(run)}" for run in runs_of(fact)]


def figures(run: Mapping[str, Any]) -> str:
    """Return the figures of a run in words."""
    rate = run.get("throughput_tokens_per_s")
    parts = [f"{number_text(rate)} tokens/s" if is_figure(rate) else "no throughput"]
    for name, key in (("first token", "ttft_ms"), ("between tokens", "inter_token_ms"), ("request", "request_ms")):
        spread = run.get(key) if isinstance(run.get(key), Mapping) else {}
        known = [f"P{number} {number_text(spread[f'p{number}'])}" for number in (50, 95, 99) if is_figure(spread.get(f"p{number}"))]
        if known:
            parts.append(f"{name} {', '.join(known)} ms")
    failed = run.get("errors")
    return "; ".join([*parts, *([f"{failed} requests failed"] if failed else [])])


def told(finding: Finding) -> list[str]:
    """Return a finding that is not good in words, cause and way out included."""
    if finding.status in ("pass", "skip"):
        return []
    return [f"  {finding.status.upper()} {finding.id}: {finding.message}", *([f"    {finding.cause}"] if finding.cause else []), *(
        [f"    {finding.fix}"] if finding.fix else [])]
