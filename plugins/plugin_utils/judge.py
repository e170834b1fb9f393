# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts, plan and rules in, findings and a verdict out. Pure: a stored run can be judged again with no cluster at hand."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_rdma import Limits
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, shown
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.evaluate import judge_subject, limit_status
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import LAYERS, Finding, counts_of, in_order, worst
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.first_broken import hide_above, hide_outranked, lowest_broken, tell_together
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rules import Rule, load_rules
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.subjects import Cluster

MODES = ("validate", "check")
INPUTS = ("plan", "nodes", "unreachable", "not_tested", "paths", "perftest", "drift", "mode")

#: Measured by stages that a run may leave out, or that earlier versions did not have, with what then stands for them.
OPTIONAL_INPUTS: dict[str, Any] = {"neighbours": {}, "iperf3": {}, "diagnosis": [], "nccl": {}, "inference": {}}
BANDWIDTH_RULES = {
    "directed": "rdma.rail_bandwidth",
    "bidirectional": "rdma.rail_bidirectional",
    "read": "rdma.read_bandwidth",
    "send": "rdma.send_bandwidth",
}

#: Layers, and checks of other layers, that provisioning puts right: in check mode their faults are drift, told by the same setting (fabric_drift_fails).
PROVISIONED_LAYERS = ("address", "path")
PROVISIONED_CHECKS = ("link.admin_up", "link.enslaved")


def judge(results: Mapping[str, Any]) -> dict[str, Any]:
    """Judge one run.

    :param results: plan, nodes, unreachable, not_tested, paths, perftest, drift and mode, and what was measured beside that, as ``results.py`` collects them
    :return: the report's content but for its metadata: the same data, with ``findings``, ``cables`` and ``verdict``
    :raises FabricError: when the input is not complete, or a rule cannot be used
    """
    data, cluster, separate = cluster_and_findings(results)
    rules = load_rules(data["plan"].get("rules") or [])
    findings = in_order(tell_together(separate, rules), rules, [cable["name"] for cable in data["plan"]["cables"]])
    return {
        **data,
        "findings": [finding.document() for finding in findings],
        "cables": cables_table(cluster, findings, rules),
        "verdict": verdict(findings, data),
    }


def cluster_and_findings(results: Mapping[str, Any]) -> tuple[dict[str, Any], Cluster, list[Finding]]:
    """Return the checked input, the cluster laid out, and a finding for every check and subject, before any are told together."""
    data = checked(results)
    rules = load_rules(data["plan"].get("rules") or [])
    cluster = Cluster(data, limits_of(rules))
    raw: list[Finding] = []
    for subject in cluster.subjects():
        raw.extend(judge_subject(rules.values(), subject))
    cable_names = [cable["name"] for cable in data["plan"]["cables"]]
    return data, cluster, in_order(hide_above(hide_outranked(raw, rules)), rules, cable_names)


def checked(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input as plain data with every part there."""
    data = plain(results)
    missing = [name for name in INPUTS if name not in data]
    if missing:
        raise FabricError(f"judge: the input lacks {', '.join(missing)}; it takes what the filter dgxspark.fabric.results returns.")
    if not isinstance(data["plan"], dict) or "cables" not in data["plan"]:
        raise FabricError("judge: plan is empty: no host has fabric_plan. Run the role dgxspark.fabric.plan first.")
    if data["mode"] not in MODES:
        raise FabricError(f"judge: mode is {shown(data['mode'])}, expected one of {', '.join(MODES)}.")
    return {**{name: data[name] for name in INPUTS}, **{name: data.get(name) or nothing for name, nothing in OPTIONAL_INPUTS.items()}}


def limits_of(rules: Mapping[str, Rule]) -> Limits:
    """Return below what a bandwidth counts as bad, by stage, and above what a loss does."""
    loss = rules.get("rdma.loss")
    return Limits({stage: bad_below(rules.get(rule_id)) for stage, rule_id in BANDWIDTH_RULES.items()}, loss.fail if loss is not None else None)


def bad_below(rule: Rule | None) -> float:
    """Return the share below which a bandwidth counts as bad: where the rule starts to warn, or to fail when it never warns."""
    if rule is None:
        return 0.0
    return rule.warn if rule.warn is not None else rule.fail if rule.fail is not None else 0.0


def cables_table(cluster: Cluster, findings: Iterable[Finding], rules: Mapping[str, Rule]) -> list[dict[str, Any]]:
    """Return every cable with its rails: verdict, lowest broken layer and what was measured."""
    by_rail: dict[Any, list[Finding]] = collections.defaultdict(list)
    findings = list(findings)
    for finding in findings:
        for key in finding.touches:
            by_rail[key].append(finding)
    broken = lowest_broken(findings)
    table = []
    for cable in cluster.plan["cables"]:
        rails = {}
        for rail in cluster.rails_of(cable):
            key = (cable["name"], rail)
            below = broken.get(key)
            hidden = below is not None and LAYERS.index(below.layer) < LAYERS.index("rdma")
            rails[rail] = {
                **rail_verdict(by_rail[key], below, cluster.data["mode"]),
                "measurements": [measurement(result, rules, hidden) for result in cluster.results.get(key, [])],
                "further": [further(result, rules, hidden) for results in (cluster.further, cluster.tcp) for result in results.get(key, [])],
                "retests": [
                    {**further(again, rules, hidden), "of": result["test"], "kind": again["kind"]}
                    for result in cluster.results.get(key, []) + cluster.further.get(key, [])
                    for again in cluster.retests.get(result["test"], [])
                ],
            }
        table.append({"name": cable["name"], "status": worst(row["status"] for row in rails.values()), "rails": rails})
    return table


def rail_verdict(findings: list[Finding], below: Finding | None, mode: str) -> dict[str, Any]:
    """Return status, layer and message of a rail from the findings that touch it."""
    if below is not None:
        return {"status": below.status, "layer": below.layer, "message": below.message}
    for finding in findings:
        if finding.status == "warn":
            return {"status": "warn", "layer": None, "message": finding.message}
    unmeasured = next((finding for finding in findings if finding.status == "skip" and finding.id in ("rdma.measured", "node.not_measured")), None)
    if unmeasured is not None and mode != "check":
        return {"status": "skip", "layer": None, "message": unmeasured.message}
    if any(finding.status == "pass" for finding in findings):
        return {"status": "pass", "layer": None, "message": unmeasured.message if unmeasured is not None else ""}
    return {"status": "skip", "layer": None, "message": unmeasured.message if unmeasured is not None else "nothing was judged"}


def measurement(result: Mapping[str, Any], rules: Mapping[str, Rule], hidden: bool) -> dict[str, Any]:
    """Return one load test of a rail as the report has it."""
    rule = rules.get(BANDWIDTH_RULES.get(result["stage"], ""))
    message = result["message"]
    if result.get("blamed") is not None:
        status, message = "skip", f"counted at cable {result['blamed']}"
    elif result["state"] == "excluded" or hidden:
        status = "skip"
    elif result["state"] == "ok":
        status = limit_status(rule, result["percent"]) if rule is not None else "pass" if result["stage"] not in BANDWIDTH_RULES else "skip"
    else:
        status = "unknown" if result["state"] in ("missing", "void") else "fail"
    return {
        "test": result["test"],
        "stage": result["stage"],
        "client": result["client"],
        "server": result["server"],
        "gbps": result["gbps"],
        "expected_gbps": result["expected_gbps"],
        "percent": result["percent"],
        "state": result["state"],
        "status": status,
        "message": message,
        "evidence": result["evidence"],
    }


def further(result: Mapping[str, Any], rules: Mapping[str, Rule], hidden: bool) -> dict[str, Any]:
    """Return a test besides the screening as the report has it: of latency, read, send, TCP, or a repetition."""
    return {
        **measurement(result, rules, hidden or result.get("blamed") is not None),
        "latency_us": result["latency_us"],
        "streams": result["streams"],
        "with_twin": result["with_twin"],
    }


@dataclasses.dataclass(frozen=True, slots=True)
class Weight:
    """What makes a run fail."""

    statuses: frozenset[str]
    drift: bool
    provisioned: bool

    def forgives(self, check: str, layer: str) -> bool:
        """Return whether a fault that this check found is for provisioning to put right, and does not make this run fail."""
        return not self.provisioned and (layer in PROVISIONED_LAYERS or check in PROVISIONED_CHECKS)


def weight(data: Mapping[str, Any]) -> Weight:
    """Return what makes this run fail: fabric_fail_on, and in check mode fabric_drift_fails."""
    statuses = {"fail", "unknown"} | ({"warn"} if data["plan"].get("fail_on") == "warn" else set())
    check = data["mode"] == "check"
    strict = bool(data["plan"].get("drift_fails", True))
    return Weight(frozenset(statuses), check and strict, strict or not check)


def verdict(findings: Iterable[Finding], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict on the whole run."""
    findings = list(findings)
    scale = weight(data)
    counts = counts_of(findings)
    bad = [finding for finding in findings if finding.status in scale.statuses and not scale.forgives(finding.id, finding.layer)]
    drift = data["drift"] if scale.drift else []
    parts = [f"{finding.id} on {finding.subject}" for finding in bad[:3]]
    if len(bad) > 3:
        parts.append(f"{len(bad) - 3} more")
    if drift:
        hosts = list(dict.fromkeys(entry["host"] for entry in drift))
        parts.append(f"{len(drift)} {'setting has' if len(drift) == 1 else 'settings have'} drifted on {', '.join(hosts[:6])}")
    if bad or drift:
        return {"status": "fail", "counts": counts, "message": "; ".join(parts)}
    warnings = f", {counts['warn']} warning{'s' if counts['warn'] > 1 else ''}" if counts["warn"] else ""
    told = "no drift found, load tests skipped in check mode" if data["mode"] == "check" else "every cable and rail that was measured delivers"
    return {"status": "pass", "counts": counts, "message": f"{told}{warnings}"}
