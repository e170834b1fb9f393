# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fault matrix accepts the verdict that it wants, and no other."""

from __future__ import annotations

import typing as t

import pytest

from matrix_verdict import Fault, Report, Row, Wanted, differences, table, verdict_text

CABLE, OTHER = "spark1:0-spark2:1", "spark2:0-spark3:1"
FAULT = Fault(name="cable cut", topology="mesh", inject=print, layer="link", hit=(CABLE,), wanted=(Wanted("link.carrier", CABLE, ("plug in|click",)),))


def report(*findings: tuple[str, str, str], **statuses: str) -> Report:
    """Return a report with findings (id, subject, message) and the status of each cable's rails, ``bad`` and ``other``."""
    told = [{"id": rule, "layer": rule.partition(".")[0], "subject": subject, "status": "fail", "message": words, "cause": "", "fix": ""}
            for rule, subject, words in findings]
    found = {CABLE: statuses.get("bad", "fail"), OTHER: statuses.get("other", "pass")}
    cables = [{"name": name, "rails": {rail: {"status": status} for rail in "ab"}} for name, status in found.items()]
    return {"findings": told, "cables": cables, "verdict": {"status": "fail" if told else "pass"}}


CUT = ("link.carrier", CABLE, "push both plugs until they click")


@pytest.mark.parametrize(("status", "found", "says"), [
    (2, report(CUT), ""),
    (0, report(CUT), "exit status 0"),
    (2, report(), "missing: link.carrier"),
    (2, report(("link.carrier", OTHER, "click"), CUT), f"not expected: link.carrier on {OTHER}"),
    (2, report(("link.carrier", CABLE, "no carrier")), "lacks the words"),
    (2, report(CUT, other="unknown"), f"{OTHER}/a is unknown"),
    (2, report(CUT, other="skip"), f"{OTHER}/b is skip"),
    (2, report(("address.mtu", CABLE, "click")), "the first broken layer is address"),
])
def test_differences(status: int, found: Report, says: str) -> None:
    wrong = differences(FAULT, status, found)
    assert (wrong == []) if not says else any(says in words for words in wrong)


def test_a_run_without_a_fault_has_to_pass() -> None:
    clean = Fault(name="none", topology="mesh", inject=print)
    assert differences(clean, 0, report(bad="pass")) == []
    assert len(differences(clean, 2, report(CUT, bad="pass"))) == 3


def test_the_table_shows_what_was_got_where_it_differs() -> None:
    rows: t.Sequence[Row] = [
        Row("cable cut", "mesh", FAULT.expected, verdict_text(report(CUT)), 31.4, True), Row("none", "pair", "pass", "link: x on y", 20.0, False)]
    text = table(rows)
    assert f"link: link.carrier on {CABLE}" in text and "the same" in text and "WRONG" in text
    assert text.endswith("1 of 2 right, 51 s")
