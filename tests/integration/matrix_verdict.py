# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fault of the matrix, the verdict that it has to get, and the comparison with a report. Pure."""

from __future__ import annotations

import collections
import dataclasses
import re
import typing as t

from conftest import Lab, broken

Report = dict[str, t.Any]
GOOD = ("pass", "warn")


@dataclasses.dataclass(frozen=True)
class Wanted:
    """One finding that has to be there: any of ``ids`` on ``subject``; each of ``words`` (patterns) is in message, cause or fix."""

    ids: str
    subject: str
    words: tuple[str, ...] = ()

    def fits(self, finding: Report) -> bool:
        """Tell whether a finding is this one, whatever its words."""
        return finding["id"] in self.ids.split("|") and finding["subject"] == self.subject

    def missing_words(self, finding: Report) -> list[str]:
        """Return the patterns that the finding's sentences lack."""
        text = " ".join(finding[part] for part in ("message", "cause", "fix"))
        return [word for word in self.words if not re.search(word, text)]

    def __str__(self) -> str:
        return f"{self.ids} on {self.subject}"


@dataclasses.dataclass(frozen=True)
class Fault:
    """A fault, injected into a provisioned and healthy lab.

    ``wanted`` are all findings that may make the run fail, of ``layer`` the first; without any the run has to pass. ``hit`` are the cables
    and rails (``cable/rail``) that they are about: all others have to be good, or as ``others`` says. ``inject`` breaks it; where ``moment``
    is given, in mid-run: once a line of the output matches that pattern. ``variables`` and ``options`` go to the playbook.
    """

    name: str
    topology: str
    inject: t.Callable[[Lab], object]
    layer: str = ""
    wanted: tuple[Wanted, ...] = ()
    hit: tuple[str, ...] = ()
    others: tuple[str, ...] = GOOD
    moment: str = ""
    variables: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)
    options: tuple[str, ...] = ()

    @property
    def identity(self) -> str:
        """The test's name."""
        return f"{self.topology}-{re.sub('[^a-z0-9]+', '_', self.name.lower()).strip('_')}"

    @property
    def expected(self) -> str:
        """The verdict in words."""
        if not self.wanted:
            return "pass"
        return f"{self.layer}: {told((wanted.ids, wanted.subject) for wanted in self.wanted)}"


def told(findings: t.Iterable[tuple[str, str]]) -> str:
    """Return ids and subjects in words, the subjects of one id together."""
    subjects: dict[str, list[str]] = collections.defaultdict(list)
    for rule, subject in findings:
        subjects[rule].append(subject)
    return "; ".join(f"{rule} on {', '.join(places)}" for rule, places in subjects.items())


def verdict_text(report: Report) -> str:
    """Return what a report says, in words."""
    found = broken(report)
    if not found:
        return str(report["verdict"]["status"])
    return f"{found[0]['layer']}: {told((one['id'], one['subject']) for one in found)}"


def rails(report: Report) -> dict[str, str]:
    """Return the status of every rail by ``cable/rail``."""
    return {f"{cable['name']}/{rail}": verdict["status"] for cable in report["cables"] for rail, verdict in cable["rails"].items()}


def differences(fault: Fault, status: int, report: Report) -> list[str]:
    """Say in what a run's status and report are not what the fault has to get; nothing when all is right."""
    found = broken(report)
    wrong = []
    if bool(status) != bool(fault.wanted):
        wrong.append(f"exit status {status}")
    for finding in found:
        fitting = [wanted for wanted in fault.wanted if wanted.fits(finding)]
        if not fitting:
            wrong.append(f"not expected: {finding['id']} on {finding['subject']}: {finding['message']}")
        for wanted in fitting:
            lacking = wanted.missing_words(finding)
            if lacking:
                wrong.append(f"{finding['id']} on {finding['subject']} lacks the words {lacking}: {finding['message']} | {finding['cause']} | {finding['fix']}")
    wrong += [f"missing: {wanted}" for wanted in fault.wanted if not any(wanted.fits(finding) for finding in found)]
    if found and found[0]["layer"] != fault.layer:
        wrong.append(f"the first broken layer is {found[0]['layer']}, expected {fault.layer}")
    for name, rail_status in rails(report).items():
        if rail_status not in fault.others and name not in fault.hit and name.partition("/")[0] not in fault.hit:
            wrong.append(f"{name} is {rail_status}, expected {' or '.join(fault.others)}")
    return wrong


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the table."""

    fault: str
    topology: str
    expected: str
    got: str
    seconds: float
    right: bool


def table(rows: t.Sequence[Row]) -> str:
    """Return the table as text that is Markdown, too."""
    lines = [("fault", "topology", "expected verdict", "got", "seconds", ""), ("-----", "--------", "--------", "---", "---:", "--")]
    lines += [(row.fault, row.topology, row.expected, row.got if row.got != row.expected else "the same", f"{row.seconds:.0f}", "ok" if row.right else "WRONG")
              for row in rows]
    widths = [max(len(line[place]) for line in lines) for place in range(6)]
    text = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines]
    right = sum(row.right for row in rows)
    return "\n".join([*text, "", f"{right} of {len(rows)} right, {sum(row.seconds for row in rows):.0f} s"])
