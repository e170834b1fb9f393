# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a check says about one subject, and the order in which findings are told."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

#: Lowest first: a broken layer makes everything above it meaningless.
LAYERS = ("node", "pcie", "link", "address", "path", "rdma", "tcp", "nccl", "inference")

SCOPES = ("node", "interface", "cable", "rail", "segment", "cluster")

#: Worst first. ``unknown`` counts as a failure: no number is never a green light.
STATUSES = ("fail", "unknown", "warn", "pass", "skip")

BROKEN = frozenset({"fail", "unknown"})

#: What a person should look at.
TROUBLES = frozenset({*BROKEN, "warn"})

#: One rail of one cable: (cable name, rail letter).
RailKey = tuple[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check on one subject.

    ``touches`` are the rails that the subject is part of; it decides what the finding hides and what hides it, and is
    not part of the report. ``names`` holds the texts of the placeholders that the rule's sentences use, so that several
    findings can be told as one.
    """

    id: str
    layer: str
    scope: str
    subject: str
    status: str
    nodes: tuple[str, ...] = ()
    cable: str | None = None
    rail: str | None = None
    actual: Any = None
    expected: Any = None
    unit: str = ""
    message: str = ""
    cause: str = ""
    fix: str = ""
    evidence: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    touches: tuple[RailKey, ...] = ()
    blame: str | None = None
    names: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def broken(self) -> bool:
        """Tell whether this finding makes the run fail."""
        return self.status in BROKEN

    def hidden(self, reason: str) -> Finding:
        """Return this finding as a ``skip`` that says why it is not judged."""
        return dataclasses.replace(self, status="skip", message=reason, cause="", fix="")

    def document(self) -> dict[str, Any]:
        """Return the finding as it stands in the report."""
        return {
            "id": self.id,
            "layer": self.layer,
            "scope": self.scope,
            "subject": self.subject,
            "nodes": list(self.nodes),
            "cable": self.cable,
            "rail": self.rail,
            "status": self.status,
            "actual": self.actual,
            "expected": self.expected,
            "unit": self.unit,
            "message": self.message,
            "cause": self.cause,
            "fix": self.fix,
            "evidence": dict(self.evidence),
        }


def worst(statuses: Iterable[str]) -> str:
    """Return the worst of some statuses; ``skip`` when there is none."""
    return min(statuses, key=STATUSES.index, default="skip")


def counts_of(findings: Iterable[Finding]) -> dict[str, int]:
    """Return how many findings have each status."""
    statuses = [finding.status for finding in findings]
    return {status: statuses.count(status) for status in sorted(STATUSES)}


def in_order(findings: Iterable[Finding], rule_ids: Iterable[str], cables: Iterable[str]) -> list[Finding]:
    """Sort findings by layer, rule, cable of the plan and subject, so that equal input gives equal reports byte for byte."""
    rule_place = {rule_id: place for place, rule_id in enumerate(rule_ids)}
    cable_place = {cable: place for place, cable in enumerate(cables)}

    def key(finding: Finding) -> tuple[Any, ...]:
        return (
            LAYERS.index(finding.layer),
            rule_place.get(finding.id, len(rule_place)),
            cable_place.get(finding.cable or "", -1),
            finding.rail or "",
            finding.nodes,
            finding.subject,
            STATUSES.index(finding.status),
        )

    return sorted(findings, key=key)
