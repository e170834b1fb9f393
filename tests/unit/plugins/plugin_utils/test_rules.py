# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rules: the shipped ones hold together, the user's are merged by id, and a bad one says which rule and which field."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils import rules as rules_module
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.check_list import checks_document
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_rdma import Limits
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.evaluate import Subject, judge_subject
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import LAYERS
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_facts import names_of
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import fill, value_text
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rules import RuleError, load_rules, parse_rule, shipped_rules
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.subjects import Cluster
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy

ROOT = pathlib.Path(rules_module.__file__).resolve().parents[2]
COMPLETE = {
    "id": "site.firmware",
    "layer": "link",
    "scope": "interface",
    "query": "live.firmware",
    "op": "==",
    "expected": "'28'",
    "message": "{where}: {actual}",
}


def test_shipped_rules_are_complete() -> None:
    rules = load_rules()
    assert len(rules) == len(shipped_rules()), "an id is used twice"
    assert [LAYERS.index(rule.layer) for rule in rules.values()] == sorted(LAYERS.index(rule.layer) for rule in rules.values())
    for rule in rules.values():
        assert rule.title, rule.id
        assert rule.id.startswith(f"{rule.layer}."), rule.id
        assert rule.id == "node.tested" or (rule.cause and rule.fix), rule.id


def test_list_of_checks_is_current() -> None:
    path = ROOT / "docs/checks.md"
    if not path.is_file():
        pytest.skip("the documents are not part of this copy")
    assert path.read_text(encoding="utf-8") == checks_document(), "run: python docs/make_checks.py"


def test_documented_facts_are_the_facts_there_are() -> None:
    data = healthy.healthy_run(healthy.plan_of("mesh", 3))
    for subject in Cluster(data, Limits({"directed": 90, "bidirectional": 90})).subjects():
        assert set(subject.facts) | {"subject", "outcome"} == set(names_of(subject.scope)), subject.scope


def test_an_override_changes_only_what_it_names() -> None:
    rule = load_rules([{"id": "rdma.rail_bandwidth", "warn": 40, "fail": 40}])["rdma.rail_bandwidth"]
    shipped = load_rules()["rdma.rail_bandwidth"]
    assert (rule.warn, rule.fail) == (40.0, 40.0)
    assert (rule.query, rule.message, rule.outranks) == (shipped.query, shipped.message, shipped.outranks)


def test_a_rule_can_be_switched_off() -> None:
    assert "address.arp" not in load_rules([{"id": "address.arp", "enabled": False}])


def test_a_new_rule_is_judged() -> None:
    rules = load_rules([COMPLETE])
    facts = {"live": {"firmware": "27"}, "where": "spark1 x"}
    found = [one for one in judge_subject(rules.values(), Subject("interface", "spark1:x", facts)) if one.id == "site.firmware"]
    assert [(one.status, one.message, one.actual, one.expected) for one in found] == [("fail", "spark1 x: 27", "27", "28")]


BAD_RULES: list[tuple[Any, str]] = [
    ("text", r"fabric_rules\[0\]: expected a mapping"),
    ({"warn": 3}, r"fabric_rules\[0\]: field id"),
    ({"id": "rdma.rail_bandwith", "warn": 3}, r"rule rdma.rail_bandwith: field layer is missing; did you mean rdma.rail_bandwidth\?"),
    ({"id": "rdma.rail_bandwidth", "wran": 3}, r"rule rdma.rail_bandwidth: unknown field 'wran'; did you mean warn\?"),
    ({"id": "rdma.rail_bandwidth", "warn": "90"}, r"rule rdma.rail_bandwidth: field warn: expected a number, got '90'"),
    ({"id": "rdma.rail_bandwidth", "warn": True}, r"rule rdma.rail_bandwidth: field warn: expected a number"),
    ({"id": "rdma.rail_bandwidth", "fail": float("nan")}, r"rule rdma.rail_bandwidth: field fail: expected a number"),
    ({"id": "rdma.rail_bandwidth", "fail": 95}, r"rule rdma.rail_bandwidth: field fail: .* beyond the warn limit 90"),
    ({"id": "rdma.ceiling", "warn": 200}, r"rule rdma.ceiling: field fail: .* beyond"),
    ({"id": "rdma.rail_bandwidth", "query": "a[?"}, r"rule rdma.rail_bandwidth: field query: .* is not a JMESPath query"),
    ({"id": "rdma.rail_bandwidth", "message": "{nodez} is slow"}, r"rdma.rail_bandwidth: field message: a rail has no fact \{nodez\}; did you mean nodes\?"),
    ({"id": "rdma.rail_bandwidth", "op": "=>"}, r"rule rdma.rail_bandwidth: field op: expected one of"),
    ({"id": "rdma.rail_bandwidth", "when_missing": "pass"}, r"rule rdma.rail_bandwidth: field when_missing"),
    ({"id": "rdma.rail_bandwidth", "outranks": ["x.y"]}, r"rule rdma.rail_bandwidth: field outranks: there is no rule 'x.y'"),
    ({"id": "rdma.rail_bandwidth", "outranks": "x.y"}, r"rule rdma.rail_bandwidth: field outranks: expected a list"),
    ({"id": "rdma.rail_bandwidth", "enabled": "no"}, r"rule rdma.rail_bandwidth: field enabled"),
    ({"id": "rdma.rail_bandwidth", "cause": ["x"]}, r"rule rdma.rail_bandwidth: field cause: expected a text"),
    ({"id": "address.arp", "warn": 1}, r"rule address.arp: field warn: op is_true has no limits"),
    ({**COMPLETE, "expected": None}, r"rule site.firmware: field expected: op == needs a query"),
    ({**COMPLETE, "op": ">="}, r"rule site.firmware: field fail: op >= needs a number"),
]


@pytest.mark.parametrize(("entry", "words"), BAD_RULES)
def test_a_bad_rule_names_rule_and_field(entry: Any, words: str) -> None:
    with pytest.raises(RuleError, match=words):
        load_rules([entry])


def test_a_query_that_fails_on_a_subject_is_an_error_of_the_rule() -> None:
    rules = load_rules([{**COMPLETE, "query": "sum(where)"}])
    with pytest.raises(RuleError, match="rule site.firmware: field query: .* fails on spark1:x"):
        judge_subject(rules.values(), Subject("interface", "spark1:x", {"where": "text"}))


def test_a_missing_jmespath_says_what_to_install_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules_module, "JMESPATH_IMPORT_ERROR", ImportError("No module named 'jmespath'"))
    with pytest.raises(RuleError, match="package jmespath is missing on the controller .* -m pip install jmespath"):
        load_rules()


@pytest.mark.parametrize(("op", "value", "limits", "status"), [
    (">=", 95, {"warn": 90, "fail": 75}, "pass"),
    (">=", 90, {"warn": 90, "fail": 75}, "pass"),
    (">=", 89.9, {"warn": 90, "fail": 75}, "warn"),
    (">=", 74.9, {"warn": 90, "fail": 75}, "fail"),
    (">=", "x", {"warn": 90, "fail": 75}, "unknown"),
    (">=", True, {"fail": 75}, "unknown"),
    (">=", None, {"fail": 75}, "unknown"),
    ("<=", 106, {"warn": 100, "fail": 105}, "fail"),
    ("<=", 104, {"warn": 100, "fail": 105}, "warn"),
    ("<=", 100, {"fail": 105}, "pass"),
    ("!=", "28", {"expected": "'27'"}, "pass"),
    ("in", "28", {"expected": "['27', '28']"}, "pass"),
    ("in", "26", {"expected": "['27', '28']", "severity": "warn"}, "warn"),
    ("is_true", 1, {}, "fail"),
    ("is_false", False, {}, "pass"),
    ("is_empty", [], {}, "pass"),
    ("is_empty", ["x"], {"severity": "unknown"}, "unknown"),
    ("is_empty", None, {"when_missing": "skip"}, "skip"),
])
def test_operators(op: str, value: Any, limits: dict[str, Any], status: str) -> None:
    base = {name: entry for name, entry in COMPLETE.items() if name != "expected"}
    rule = parse_rule({**base, "query": "live.value", "op": op, **limits})
    found = judge_subject([rule], Subject("interface", "spark1:x", {"live": {"value": value}, "where": "x"}))
    assert [one.status for one in found] == [status]


def test_a_text_reads_facts_and_nothing_else() -> None:
    assert fill("{a.b} {c} {__class__} {a[0]} {0}", {"a.b": "x"}) == "x unknown unknown {a[0]} {0}"


@pytest.mark.parametrize(("value", "text"), [
    (None, "unknown"), (True, "yes"), (97.91, "97.9"), (0.0551, "0.0551"), (0.0, "0.00"), (1.234, "1.23"), (9000, "9000"), (["a", 1], "a, 1"), ([], "none"),
])
def test_values_in_sentences(value: Any, text: str) -> None:
    assert value_text(value) == text
