# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One rule, one subject: one finding, or none."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import Finding, RailKey
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import OWN_NAMES, fill, lookup, placeholders, value_text
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rules import TEXT_FIELDS, Rule, search


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """Something that is judged: its place in the cluster and its facts.

    ``not_judged`` holds the layers that cannot be judged on it and why; such a layer gives one ``skip``, from the rule that is
    its ``gate``, or nothing where nobody asked for it (an empty reason).
    """

    scope: str
    name: str
    facts: dict[str, Any]
    nodes: tuple[str, ...] = ()
    cable: str | None = None
    rail: str | None = None
    touches: tuple[RailKey, ...] = ()
    not_judged: Mapping[str, str] = dataclasses.field(default_factory=dict)


def judge_subject(rules: Iterable[Rule], subject: Subject) -> list[Finding]:
    """Ask all rules of the subject's scope; signatures last, since they look at what the others found."""
    mine = [rule for rule in rules if rule.scope == subject.scope]
    ordered = [rule for rule in mine if rule.op != "matches"] + [rule for rule in mine if rule.op == "matches"]
    outcome: dict[str, str] = {}
    facts = {**subject.facts, "subject": subject.name, "outcome": outcome}
    findings: list[Finding] = []
    for rule in ordered:
        finding = judge_rule(rule, subject, facts)
        if finding is not None:
            outcome[rule.id] = finding.status
            findings.append(finding)
    return findings


def judge_rule(rule: Rule, subject: Subject, facts: Mapping[str, Any]) -> Finding | None:
    """Ask one rule about a subject; None when it does not apply."""
    reason = subject.not_judged.get(rule.layer)
    if reason is not None:
        return finding_of(rule, subject, "skip", message=reason) if rule.gate and reason else None
    if rule.when is not None and not holds(search(rule, "when", facts)):
        return None
    value = search(rule, "query", facts)
    wanted = search(rule, "expected", facts)
    if rule.op == "matches":
        return told(rule, subject, facts, rule.severity, value, wanted) if holds(value) else None
    if value is None or (wanted is None and rule.op in ("==", "!=", "in")):
        return absent(rule, subject, facts, wanted)
    status = status_of(rule, value, wanted)
    return told(rule, subject, facts, status, value, wanted)


def holds(value: Any) -> bool:
    """Tell whether JMESPath takes a value as true: everything but null, false and what is empty."""
    if value is None or value is False:
        return False
    return not (isinstance(value, (str, list, dict)) and len(value) == 0)


def status_of(rule: Rule, value: Any, wanted: Any) -> str:
    """Return the status that a value has under a rule; a value of the wrong kind is as good as none."""
    if rule.op in (">=", "<="):
        return limit_status(rule, value)
    good = {
        "==": lambda: value == wanted,
        "!=": lambda: value != wanted,
        "in": lambda: isinstance(wanted, list) and value in wanted,
        "is_true": lambda: value is True,
        "is_false": lambda: value is False,
        "is_empty": lambda: not holds(value),
    }[rule.op]()
    return "pass" if good else rule.severity


def limit_status(rule: Rule, value: Any) -> str:
    """Return the status of a number against the limits of a rule."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "unknown"
    sign = 1 if rule.op == ">=" else -1
    if rule.fail is not None and sign * value < sign * rule.fail:
        return "fail"
    if rule.warn is not None and sign * value < sign * rule.warn:
        return "warn"
    return "pass"


def told(rule: Rule, subject: Subject, facts: Mapping[str, Any], status: str, value: Any, wanted: Any) -> Finding:
    """Return the finding with its sentences."""
    shown_value = search(rule, "actual", facts) if rule.actual is not None else value
    if isinstance(shown_value, float):
        shown_value = round(shown_value, 4)
    if wanted is None and rule.op in ("is_true", "is_false"):
        wanted = rule.op == "is_true"
    if status == "pass":
        return finding_of(rule, subject, status, actual=shown_value, expected=wanted, message=f"{rule.title or rule.id}: ok")
    evidence = search(rule, "evidence", facts)
    names = names_for(rule, facts, shown_value, wanted)
    return finding_of(
        rule,
        subject,
        status,
        actual=shown_value,
        expected=wanted,
        message=fill(rule.message, names),
        cause=fill(rule.cause, names),
        fix=fill(rule.fix, names),
        evidence=evidence if isinstance(evidence, dict) else {},
        blame=blamed(rule, facts),
        names=names,
        **covered(rule, facts),
    )


def absent(rule: Rule, subject: Subject, facts: Mapping[str, Any], wanted: Any) -> Finding:
    """Return the finding for a question without an answer."""
    names = names_for(rule, facts, None, wanted)
    message = fill(rule.missing, names)
    if rule.when_missing == "skip":
        return finding_of(rule, subject, "skip", expected=wanted, message=message)
    return finding_of(
        rule,
        subject,
        rule.when_missing,
        expected=wanted,
        message=message,
        cause="There is no value to judge, and no value is never taken for a good one.",
        fix=fill(rule.fix, names),
        blame=blamed(rule, facts),
        names={**names, "missing": "yes"},
    )


def blamed(rule: Rule, facts: Mapping[str, Any]) -> str | None:
    """Return the node that a rule puts its findings down to."""
    if rule.blame is None:
        return None
    name = lookup(facts, rule.blame)
    return None if name is None else str(name)


def covered(rule: Rule, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rails that a rule says its finding speaks for; nothing where it leaves that to the subject."""
    if rule.covers is None:
        return {}
    names = search(rule, "covers", facts)
    return {"touches": tuple(tuple(str(name).rpartition("/")[::2]) for name in names or ())}


def names_for(rule: Rule, facts: Mapping[str, Any], actual: Any, wanted: Any) -> dict[str, str]:
    """Return the texts of all placeholders that the rule's sentences use."""
    own = {
        "actual": actual,
        "expected": wanted,
        "unit": rule.unit,
        "warn": rule.warn,
        "fail": rule.fail,
        "title": rule.title or rule.id,
        "subject": facts.get("subject"),
    }
    used = [name for field in TEXT_FIELDS for name in placeholders(getattr(rule, field))]
    return {name: value_text(own[name] if name in OWN_NAMES else lookup(facts, name)) for name in used}


def finding_of(rule: Rule, subject: Subject, status: str, **values: Any) -> Finding:
    """Return a finding of a rule on a subject."""
    fields = {
        "id": rule.id,
        "layer": rule.layer,
        "scope": subject.scope,
        "subject": subject.name,
        "status": status,
        "nodes": subject.nodes,
        "cable": subject.cable,
        "rail": subject.rail,
        "unit": rule.unit,
        "touches": subject.touches,
    }
    return Finding(**{**fields, **values})
