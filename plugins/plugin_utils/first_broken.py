# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One fault, one failure: what a deeper or better explained fault hides, and what is told together."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import LAYERS, STATUSES, TROUBLES, Finding, RailKey
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import fill
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rules import Rule


def hide_outranked(findings: Iterable[Finding], rules: Mapping[str, Rule]) -> list[Finding]:
    """Turn findings into ``skip`` that a broken finding of an outranking rule explains.

    It explains the same subject, everything on a rail or cable that it covers, and a rail or cable that it is part of; but not
    another interface of the same rail, whose fault would be its own.
    """
    findings = list(findings)
    stronger: dict[str, list[Finding]] = collections.defaultdict(list)
    for finding in findings:
        if finding.status in TROUBLES and finding.id in rules:
            for weaker in rules[finding.id].outranks:
                stronger[weaker].append(finding)
    by_place = {weaker: group_by_place(strong) for weaker, strong in stronger.items()}
    result = []
    for finding in findings:
        explanation = None
        if finding.status in TROUBLES and finding.id in stronger:
            explanation = explanation_of(finding, by_place[finding.id])
        result.append(finding if explanation is None else finding.hidden(f"explained by {explanation.id}: {explanation.message}"))
    return result


def explanation_of(finding: Finding, by_place: Mapping[Any, list[Finding]]) -> Finding | None:
    """Return the first stronger finding that covers a finding; a warning never explains a failure."""
    for place in (finding.subject, *finding.touches):
        for other in by_place.get(place, ()):
            apart = other.scope == finding.scope == "interface" and other.subject != finding.subject
            if not apart and STATUSES.index(other.status) <= STATUSES.index(finding.status):
                return other
    return None


def lowest_broken(findings: Iterable[Finding]) -> dict[RailKey, Finding]:
    """Return for every rail the broken finding of its lowest layer (the first told of that layer)."""
    lowest: dict[RailKey, Finding] = {}
    for finding in findings:
        if not finding.broken:
            continue
        for rail in finding.touches:
            if rail not in lowest or LAYERS.index(finding.layer) < LAYERS.index(lowest[rail].layer):
                lowest[rail] = finding
    return lowest


def hide_above(findings: Iterable[Finding]) -> list[Finding]:
    """Turn findings into ``skip`` that stand above a broken layer of any rail they are part of."""
    findings = list(findings)
    lowest = lowest_broken(findings)
    result = []
    for finding in findings:
        lower = [other for rail in finding.touches if (other := lowest.get(rail)) is not None and LAYERS.index(other.layer) < LAYERS.index(finding.layer)]
        # What is said of many cables together stays as long as one of them has nothing broken below.
        below = lower[0] if lower and (finding.scope != "cluster" or len(lower) == len(finding.touches)) else None
        if below is None:
            result.append(finding)
        else:
            result.append(finding.hidden(f"not judged: layer {below.layer} is broken below it ({below.id}: {below.message})"))
    return result


def tell_together(findings: Iterable[Finding], rules: Mapping[str, Rule]) -> list[Finding]:
    """Merge what is the same fault seen from several places: one rule on one cable, or put down to one node."""
    groups: dict[tuple[Any, ...], list[Finding]] = {}
    result: list[Finding | None] = []
    places: dict[tuple[Any, ...], int] = {}
    for finding in findings:
        if finding.status not in TROUBLES or finding.id not in rules or finding.scope not in ("interface", "rail"):
            result.append(finding)
            continue
        key = (finding.id, finding.status, "node", finding.blame) if finding.blame else (finding.id, finding.status, "cable", finding.cable)
        if key not in groups:
            places[key] = len(result)
            result.append(None)
        groups.setdefault(key, []).append(finding)
    for key, members in groups.items():
        result[places[key]] = merged(members, rules[members[0].id])
    return [finding for finding in result if finding is not None]


def merged(members: list[Finding], rule: Rule) -> Finding:
    """Return several findings of one rule as one, with the narrowest subject that covers them."""
    first = members[0]
    if len(members) == 1 and not first.blame:
        return first
    names = {name: joined(member.names.get(name, "") for member in members) for name in first.names}
    cables = unique(member.cable for member in members)
    rails = unique(member.rail for member in members)
    rail = rails[0] if len(rails) == 1 else None
    if first.scope == "rail" and len(cables) == 1 and rail is None and "where" in names:
        names["where"] = f"cable {cables[0]}, both rails"
    if first.blame:
        scope, subject, nodes = "node", first.blame, (first.blame,)
        if len(members) == 1 and first.scope == "interface":
            scope, subject = "interface", first.subject
    else:
        scope, subject = ("rail", f"{cables[0]}/{rail}") if rail else ("cable", str(cables[0]))
        nodes = tuple(dict.fromkeys(node for member in members for node in member.nodes))
    evidence = {member.subject: dict(member.evidence) for member in members if member.evidence} if len(members) > 1 else first.evidence
    return dataclasses.replace(
        first,
        scope=scope,
        subject=subject,
        nodes=nodes,
        cable=cables[0] if len(cables) == 1 else None,
        rail=rail,
        actual=told_value([member.actual for member in members]),
        expected=told_value([member.expected for member in members]),
        message=fill(rule.missing if "missing" in names else rule.message, names),
        cause=first.cause if "missing" in names else fill(rule.cause, names),
        fix=fill(rule.fix, names),
        evidence=evidence,
        touches=tuple(dict.fromkeys(rail_key for member in members for rail_key in member.touches)),
        names=names,
    )


def joined(texts: Iterable[str]) -> str:
    """Return different texts as one, each once."""
    parts = [text for text in dict.fromkeys(texts) if text]
    return "; ".join(parts) if any(", " in part for part in parts) and len(parts) > 1 else ", ".join(parts)


def told_value(values: list[Any]) -> Any:
    """Return one value where all agree, else the list of them (lists are made one)."""
    different: list[Any] = []
    if all(isinstance(value, list) for value in values):
        for value in values:
            different.extend(entry for entry in value if entry not in different)
        return different
    for value in values:
        if value not in different:
            different.append(value)
    return different[0] if len(different) == 1 else different


def unique(values: Iterable[str | None]) -> list[str | None]:
    """Return values once each, in order."""
    return list(dict.fromkeys(values))


def group_by_place(findings: Iterable[Finding]) -> dict[Any, list[Finding]]:
    """List findings under their subject and under each rail that they touch."""
    groups: dict[Any, list[Finding]] = collections.defaultdict(list)
    for finding in findings:
        for place in (finding.subject, *finding.touches):
            groups[place].append(finding)
    return groups
