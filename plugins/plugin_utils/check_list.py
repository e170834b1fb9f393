# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The list of checks as a document for people, made from the rules themselves."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import LAYERS
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_facts import COMMON_FACTS, SCOPE_FACTS
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rules import COMPARING_OPS, OPS, ORDERING_OPS, Rule, load_rules

FIELD_MEANINGS = {
    "id": "stable dotted name",
    "layer": f"one of {', '.join(LAYERS)}; a broken layer hides what stands above it on the same cable and rail",
    "scope": f"what is asked, one of {', '.join(SCOPE_FACTS)}",
    "query": "JMESPath over the subject's facts",
    "op": "what makes the answer good, see below",
    "warn, fail": "limits for `>=` and `<=`, numbers",
    "limits_unit": "what the limits count, for people",
    "expected": "JMESPath for the wanted value (`==`, `!=`, `in`), or for what the report shows as expected",
    "actual": "JMESPath for what the report shows as found, when it is not the query's answer",
    "evidence": "JMESPath for a mapping that the report keeps as evidence",
    "when": "JMESPath; the rule only applies where it holds",
    "severity": "status of a bad answer for operators without limits: `fail` (default), `warn` or `unknown`",
    "when_missing": "status when the query has no answer: `unknown` (default, counts as fail), `fail`, `warn` or `skip`",
    "unit": "unit of actual and expected",
    "title": "what is checked, in words",
    "message, cause, fix": "sentences; `{name}` is replaced by the fact of that name, also `{actual}`, `{expected}`, `{unit}`, `{warn}`, `{fail}`, "
    "`{title}`, `{subject}`",
    "missing": "sentence for a query without an answer",
    "outranks": "ids of rules whose findings this one explains: they become `skip`",
    "blame": "fact that names the node at fault; findings of one node are told as one",
    "covers": "JMESPath for the rails that a finding speaks for, as a list of `cable/rail`; by default those that the subject is part of",
    "gate": "the rule that says why its layer is not judged on a subject",
    "enabled": "`false` switches a rule off",
}

INTRODUCTION = """# Checks

Made from the rules by `docs/make_checks.py`; do not edit.

Every check asks one question about every subject of its scope (each node, interface, rail, cable, …). Its finding is `pass`, `warn`, `fail`,
`skip` or `unknown`; **`unknown` counts as a failure**, since no number is never a green light. For each cable and rail the lowest
broken layer is the verdict and what stands above it is `skip`, so that one fault makes one failure. What several
places see of the same fault is told once: one finding a cable, or one a node where the node is to blame.

Change a check, or add one, by `fabric_rules` in the inventory:

```yaml
fabric_rules:
  - id: rdma.rail_bandwidth     # an id of the list below: only the fields given here change
    warn: 85
    fail: 70
  - id: address.arp             # a warning that is not wanted here
    enabled: false
  - id: site.firmware           # a new id: a check of your own
    layer: link
    scope: interface
    title: Firmware of the network chip
    query: live.firmware
    op: "=="
    expected: "'28.45.4028'"
    severity: warn
    message: "{where} has firmware {actual}, wanted {expected}."
    cause: The node was not updated with the others.
    fix: "Run fwupdmgr update on {node}."
```
"""


def checks_document() -> str:
    """Return the document."""
    rules = list(load_rules().values())
    lines = [INTRODUCTION]
    lines += ["| check | layer | scope | what is checked | limits |", "|---|---|---|---|---|"]
    lines += [f"| [`{rule.id}`](#{anchor(rule.id)}) | {rule.layer} | {rule.scope} | {rule.title} | {cell(limits_text(rule))} |" for rule in rules]
    for layer in LAYERS:
        mine = [rule for rule in rules if rule.layer == layer]
        if mine:
            lines += ["", f"## Layer {layer}"]
            for rule in mine:
                lines += ["", *rule_section(rule)]
    lines += ["", "## Fields of a rule", "", *two_columns("field", "meaning", FIELD_MEANINGS.items())]
    lines += ["", "## Operators", "", *two_columns("op", "meaning", OPS.items())]
    lines += ["", "## Facts that a rule can ask for", "", "Of every scope:", "", *two_columns("fact", "meaning", COMMON_FACTS.items())]
    for scope, facts in SCOPE_FACTS.items():
        lines += ["", f"Of a {scope}:", "", *two_columns("fact", "meaning", facts.items())]
    return "\n".join(lines) + "\n"


def rule_section(rule: Rule) -> list[str]:
    """Return the section of one check."""
    lines = [f"### {rule.id}", "", f"{rule.title}.", "", f"- says: {rule.message}"]
    if rule.cause:
        lines.append(f"- cause: {rule.cause}")
    if rule.fix:
        lines.append(f"- fix: {rule.fix}")
    lines.append(f"- limits: {limits_text(rule)}")
    if rule.op != "matches":
        lines.append(f"- without a value: {rule.when_missing}")
    if rule.when and rule.when != "`false`":
        lines.append(f"- applies when: `` {rule.when} ``")
    if rule.outranks:
        lines.append(f"- explains: {', '.join(f'`{other}`' for other in rule.outranks)}")
    return lines


def limits_text(rule: Rule) -> str:
    """Return in words which answers are good."""
    if rule.op in ORDERING_OPS:
        word = "below" if rule.op == ">=" else "above"
        parts = [f"{status} {word} {limit:g}" for status, limit in (("warn", rule.warn), ("fail", rule.fail)) if limit is not None]
        if rule.warn == rule.fail:
            parts = parts[1:]
        return f"{', '.join(parts)} {rule.limits_unit or rule.unit}".strip()
    if rule.op in COMPARING_OPS:
        return f"{rule.severity} unless `{rule.query}` {rule.op} `{rule.expected}`"
    if rule.op == "matches":
        return f"{rule.severity} when the signature matches"
    return rule.severity


def two_columns(left: str, right: str, entries: Iterable[tuple[str, str]]) -> list[str]:
    """Return a table of two columns."""
    return [f"| {left} | {right} |", "|---|---|", *(f"| `{name}` | {cell(meaning)} |" for name, meaning in entries)]


def cell(text: str) -> str:
    """Return a text that does not break its table."""
    return text.replace("|", "\\|")


def anchor(rule_id: str) -> str:
    """Return the anchor that Markdown renderers give a heading."""
    return rule_id.replace(".", "")
