# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as ``junit.xml`` for build servers: one suite a layer, one case a check.

It keeps to what the schemas of Ant (windyroad JUnit.xsd) and of Jenkins (xunit-plugin junit-10.xsd) have in common.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import LAYERS
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.judge import weight
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_time import seconds_between

#: Characters that no XML document may hold (XML 1.0, section 2.2).
NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

ELEMENTS = {"fail": "failure", "unknown": "error"}


def files(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of this format, name to content."""
    scale = weight(report)
    cases: dict[str, list[dict[str, str]]] = {layer: [] for layer in LAYERS}
    for finding in report["findings"]:
        status = finding["status"]
        if scale.forgives(finding["id"], finding["layer"]) and status in ELEMENTS:
            status = "warn"
        elif status == "warn" and status in scale.statuses:
            status = "fail"
        cases[finding["layer"]].append({**case_of(finding), "status": status})
    suites = [(layer, cases[layer]) for layer in LAYERS if cases[layer]]
    if report["drift"]:
        suites.append(("drift", [drift_case(entry, scale.drift) for entry in report["drift"]]))
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for number, (name, members) in enumerate(suites):
        lines += suite_lines(report, number, name, members)
    return {"junit.xml": "\n".join([*lines, "</testsuites>"]) + "\n"}


def case_of(finding: Mapping[str, Any]) -> dict[str, str]:
    """Return what a test case says of a finding."""
    told = [finding["message"]]
    for word, key in (("cause", "cause"), ("fix", "fix")):
        if finding[key]:
            told.append(f"{word}: {finding[key]}")
    return {"id": finding["id"], "subject": finding["subject"], "message": finding["message"], "text": "\n".join(told)}


def drift_case(entry: Mapping[str, Any], counts: bool) -> dict[str, str]:
    """Return what a test case says of a setting that differs from the plan."""
    message = str(entry.get("message") or f"is {entry.get('live')}, wanted {entry.get('wanted')}")
    subject = f"{entry.get('host')} {entry.get('subject')}"
    return {"id": f"drift.{entry.get('key')}", "subject": subject, "message": message, "text": message, "status": "fail" if counts else "warn"}


def suite_lines(report: Mapping[str, Any], number: int, name: str, cases: list[dict[str, str]]) -> Iterable[str]:
    """Return one suite as XML, line by line."""
    counted = {status: sum(case["status"] == status for case in cases) for status in ("fail", "unknown", "skip")}
    attributes = {
        "name": name,
        "package": f"dgxspark.fabric.{report['cluster']}",
        "id": number,
        "timestamp": report["started"].rstrip("Z"),
        "hostname": report["cluster"],
        "tests": len(cases),
        "failures": counted["fail"],
        "errors": counted["unknown"],
        "skipped": counted["skip"],
        "time": seconds_between(report["started"], report["finished"]) if number == 0 else 0,
    }
    yield f" <testsuite {attribute_text(attributes)}>"
    yield "  <properties>"
    for key in ("run_id", "cluster", "mode", "collection_version"):
        yield f"   <property {attribute_text({'name': key, 'value': report[key]})}/>"
    yield "  </properties>"
    for case in cases:
        opening = f"  <testcase {attribute_text({'name': case['id'] + ' ' + case['subject'], 'classname': name + '.' + case['id'], 'time': 0})}"
        if case["status"] in ELEMENTS:
            element = ELEMENTS[case["status"]]
            yield f"{opening}>"
            yield f"   <{element} {attribute_text({'message': case['message'], 'type': case['id']})}>{xml_text(case['text'])}</{element}>"
            yield "  </testcase>"
        elif case["status"] == "skip":
            yield f"{opening}>"
            yield f"   <skipped {attribute_text({'message': case['message']})}/>"
            yield "  </testcase>"
        else:
            yield f"{opening}/>"
    warnings = "\n".join(f"warning: {case['id']} {case['subject']}: {case['text']}" for case in cases if case["status"] == "warn")
    yield f"  <system-out>{xml_text(warnings)}</system-out>"
    yield "  <system-err></system-err>"
    yield " </testsuite>"


def attribute_text(attributes: Mapping[str, Any]) -> str:
    """Return attributes as XML; each value on one line."""
    return " ".join(f"{name}={quoteattr(' '.join(NO_XML.sub('?', str(value)).split()))}" for name, value in attributes.items())


def xml_text(text: str) -> str:
    """Return a text as XML content."""
    return escape(NO_XML.sub("?", text))
