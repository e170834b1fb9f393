# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The rules by which a fabric is judged: data that ships with the collection and that the inventory changes by ``id``.

A rule asks one question (a JMESPath query) about every subject of its scope and says which answers are good. Everything that
needs code happens before: ``subjects.py`` lays out facts in which each question is a look-up.
"""

from __future__ import annotations

import dataclasses
import math
import pathlib
import platform
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, closest, shown
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import LAYERS, SCOPES
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_facts import names_of
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import OWN_NAMES, placeholders

try:
    import jmespath
    from jmespath import exceptions as jmespath_exceptions

    JMESPATH_IMPORT_ERROR: ImportError | None = None
except ImportError as exc:
    JMESPATH_IMPORT_ERROR = exc

#: Not named as this module is: the collection loader would take the folder for it.
RULES_DIRECTORY = pathlib.Path(__file__).resolve().parent / "shipped_rules"

#: In the order of the layers; within a file the order is the order of the report.
RULE_FILES = ("node.yml", "pcie.yml", "link.yml", "address.yml", "path.yml", "rdma.yml", "tcp.yml", "nccl.yml", "inference.yml")

ORDERING_OPS = (">=", "<=")
OPS = {
    ">=": "the value must reach the limits: below `fail` it fails, below `warn` it warns",
    "<=": "the value must stay within the limits: above `fail` it fails, above `warn` it warns",
    "==": "the value must equal `expected`",
    "!=": "the value must differ from `expected`",
    "in": "the value must be an entry of the list `expected`",
    "is_true": "the value must be true",
    "is_false": "the value must be false",
    "is_empty": "the value must be an empty list or text",
    "matches": "a signature: speaks only when the query holds, is silent otherwise",
}
COMPARING_OPS = ("==", "!=", "in")
SEVERITIES = ("fail", "warn", "unknown")
MISSING = ("skip", "warn", "unknown", "fail")

QUERY_FIELDS = ("query", "when", "actual", "expected", "evidence", "covers")
TEXT_FIELDS = ("message", "cause", "fix", "missing")
REQUIRED_FIELDS = ("id", "layer", "scope", "query", "op", "message")


class RuleError(FabricError):
    """A rule cannot be used; the text names the rule, the field and the way out."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One check. See ``docs/checks.md`` for what each field means to a user."""

    id: str
    layer: str
    scope: str
    query: str
    op: str
    message: str
    title: str = ""
    warn: float | None = None
    fail: float | None = None
    limits_unit: str = ""
    expected: str | None = None
    actual: str | None = None
    evidence: str | None = None
    when: str | None = None
    severity: str = "fail"
    when_missing: str = "unknown"
    unit: str = ""
    missing: str = "{title}: no value for {subject}."
    cause: str = ""
    fix: str = ""
    outranks: tuple[str, ...] = ()
    blame: str | None = None
    covers: str | None = None
    gate: bool = False
    enabled: bool = True


RULE_FIELDS = tuple(field.name for field in dataclasses.fields(Rule))


def shipped_rules() -> list[dict[str, Any]]:
    """Read the rules that come with the collection, as plain mappings in report order."""
    entries: list[dict[str, Any]] = []
    for name in RULE_FILES:
        path = RULES_DIRECTORY / name
        try:
            entries.extend(yaml.safe_load(path.read_text(encoding="utf-8")))
        except (OSError, yaml.YAMLError) as exc:
            raise RuleError(f"The rules of the collection cannot be read from {path}: {exc}. Install the collection again.") from exc
    return entries


def load_rules(user_rules: Iterable[Any] = ()) -> dict[str, Rule]:
    """Return all enabled rules by id: the shipped ones, changed and extended by the entries of ``fabric_rules``.

    :raises RuleError: for an entry that cannot be used
    """
    require_jmespath()
    entries = {entry["id"]: entry for entry in shipped_rules()}
    for place, entry in enumerate(user_rules):
        rule_id = entry_id(entry, place)
        if rule_id not in entries and not all(entry.get(name) for name in REQUIRED_FIELDS):
            lacking = [name for name in REQUIRED_FIELDS if not entry.get(name)]
            hint = closest(rule_id, entries)
            raise RuleError(f"rule {rule_id}: field {lacking[0]} is missing{hint}. A rule that does not exist yet needs {', '.join(REQUIRED_FIELDS)}.")
        entries[rule_id] = {**entries.get(rule_id, {}), **{str(key): value for key, value in entry.items()}}
    rules = {rule_id: parse_rule(entry) for rule_id, entry in entries.items()}
    for rule in rules.values():
        for other in rule.outranks:
            if other not in rules:
                raise RuleError(f"rule {rule.id}: field outranks: there is no rule {shown(other)}{closest(other, rules)}.")
    return {rule_id: rule for rule_id, rule in rules.items() if rule.enabled}


def entry_id(entry: Any, place: int) -> str:
    """Return the id of an entry of ``fabric_rules``."""
    if not isinstance(entry, Mapping):
        raise RuleError(f"fabric_rules[{place}]: expected a mapping such as {{id: rdma.rail_bandwidth, warn: 85}}, got {shown(entry)}.")
    rule_id = entry.get("id")
    if not isinstance(rule_id, str) or not rule_id:
        raise RuleError(f"fabric_rules[{place}]: field id: expected the dotted name of a rule, got {shown(rule_id)}; docs/checks.md lists the names.")
    return str(rule_id)


def parse_rule(entry: Mapping[str, Any]) -> Rule:
    """Check one complete rule and return it.

    :raises RuleError: naming the rule and the field
    """
    rule_id = str(entry["id"])
    for name in entry:
        if name not in RULE_FIELDS:
            raise RuleError(f"rule {rule_id}: unknown field {shown(name)}{closest(name, RULE_FIELDS)}. Known fields: {', '.join(RULE_FIELDS)}.")
    for name in REQUIRED_FIELDS:
        if entry.get(name) in (None, ""):
            raise RuleError(f"rule {rule_id}: field {name} is missing; a rule that does not exist yet needs {', '.join(REQUIRED_FIELDS)}.")
    values: dict[str, Any] = {}
    for name, value in entry.items():
        values[name] = field_value(rule_id, name, value)
    rule = Rule(**values)
    check_limits(rule)
    for name in QUERY_FIELDS:
        if getattr(rule, name) is not None:
            check_query(rule, name)
    for name in TEXT_FIELDS:
        check_placeholders(rule, name)
    return rule


def field_value(rule_id: str, name: str, value: Any) -> Any:
    """Return a field's value in its plain type, or raise a RuleError."""
    choices = {"layer": LAYERS, "scope": SCOPES, "op": tuple(OPS), "severity": SEVERITIES, "when_missing": MISSING}
    if name in choices:
        if value not in choices[name]:
            hint = closest(value, choices[name])
            raise RuleError(f"rule {rule_id}: field {name}: expected one of {', '.join(choices[name])}, got {shown(value)}{hint}.")
        return str(value)
    if name in ("warn", "fail"):
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise RuleError(f"rule {rule_id}: field {name}: expected a number, got {shown(value)}.")
        return float(value)
    if name == "outranks":
        if not isinstance(value, (list, tuple)) or not all(isinstance(other, str) for other in value):
            raise RuleError(f"rule {rule_id}: field outranks: expected a list of rule ids, got {shown(value)}.")
        return tuple(str(other) for other in value)
    if name in ("enabled", "gate"):
        if not isinstance(value, bool):
            raise RuleError(f"rule {rule_id}: field {name}: expected true or false, got {shown(value)}.")
        return bool(value)
    if value is None:
        return None
    if not isinstance(value, str):
        raise RuleError(f"rule {rule_id}: field {name}: expected a text, got {shown(value)}.")
    return str(value)


def check_limits(rule: Rule) -> None:
    """Refuse limits that contradict each other or that the operator would not look at."""
    if rule.op in ORDERING_OPS:
        if rule.warn is None and rule.fail is None:
            raise RuleError(f"rule {rule.id}: field fail: op {rule.op} needs a number in warn or fail.")
        if rule.warn is not None and rule.fail is not None:
            if (rule.op == ">=" and rule.fail > rule.warn) or (rule.op == "<=" and rule.fail < rule.warn):
                raise RuleError(
                    f"rule {rule.id}: field fail: with op {rule.op} the fail limit {rule.fail:g} lies beyond the warn limit {rule.warn:g}; "
                    "set both, fail being the worse."
                )
        return
    for name in ("warn", "fail"):
        if getattr(rule, name) is not None:
            raise RuleError(f"rule {rule.id}: field {name}: op {rule.op} has no limits; use severity, or one of {', '.join(ORDERING_OPS)}.")
    if rule.op in COMPARING_OPS and not rule.expected:
        raise RuleError(f"rule {rule.id}: field expected: op {rule.op} needs a query for the wanted value.")


def check_query(rule: Rule, name: str) -> None:
    """Refuse text that is not JMESPath."""
    try:
        jmespath.compile(getattr(rule, name))
    except (jmespath_exceptions.JMESPathError, RecursionError) as exc:
        problem = " ".join(str(exc).split())
        raise RuleError(f"rule {rule.id}: field {name}: {shown(getattr(rule, name))} is not a JMESPath query: {problem}") from exc


def check_placeholders(rule: Rule, name: str) -> None:
    """Refuse a placeholder that no subject of the rule's scope can fill."""
    known = {*names_of(rule.scope), *OWN_NAMES}
    for placeholder in placeholders(getattr(rule, name)):
        first = placeholder.split(".")[0]
        if first not in known:
            raise RuleError(
                f"rule {rule.id}: field {name}: a {rule.scope} has no fact {{{placeholder}}}{closest(first, known)}; known are {', '.join(sorted(known))}."
            )


def require_jmespath() -> None:
    """Say which package is missing where, instead of failing on a name."""
    if JMESPATH_IMPORT_ERROR is not None:
        raise RuleError(
            f"The Python package jmespath is missing on the controller {platform.node()} ({sys.executable}: {JMESPATH_IMPORT_ERROR}). "
            f"Install it there: {sys.executable} -m pip install jmespath, or the distribution's package python3-jmespath."
        ) from JMESPATH_IMPORT_ERROR


def search(rule: Rule, name: str, facts: Mapping[str, Any]) -> Any:
    """Ask one query of a rule about a subject.

    :raises RuleError: when the query compares or converts what cannot be compared or converted
    """
    query = getattr(rule, name)
    if query is None:
        return None
    try:
        return jmespath.search(query, facts)
    except jmespath_exceptions.JMESPathError as exc:
        problem = " ".join(str(exc).split())
        raise RuleError(f"rule {rule.id}: field {name}: {shown(query)} fails on {facts.get('subject')}: {problem}") from exc
