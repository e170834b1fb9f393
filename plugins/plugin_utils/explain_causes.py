# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The findings that ``explain`` can give: sentences, cause and fix as data, and the collector that fills them in."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import LAYERS, STATUSES, Finding, in_order
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import fill, value_text

CAUSES_DIRECTORY = pathlib.Path(__file__).resolve().parent / "shipped_causes"
CAUSE_FILES = ("link.yml", "address.yml", "rdma.yml", "launch.yml", "nccl.yml")


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """One kind of finding. ``healthy`` is the sentence of a pass, ``missing`` that of an unknown; else ``message`` serves."""

    id: str
    layer: str
    status: str
    title: str
    message: str
    cause: str = ""
    fix: str = ""
    healthy: str = ""
    missing: str = ""


@functools.cache
def load_causes() -> Mapping[str, Cause]:
    """Return all causes by id, in the order of the files."""
    found: dict[str, Cause] = {}
    for name in CAUSE_FILES:
        for entry in yaml.safe_load((CAUSES_DIRECTORY / name).read_text(encoding="utf-8")):
            cause = Cause(**entry)
            if cause.id in found or cause.layer not in LAYERS or cause.status not in STATUSES:
                raise FabricError(f"shipped_causes/{name}: {cause.id} is there twice, or its layer or status is not known.")
            found[cause.id] = cause
    return found


class Explanation:
    """Collects findings; equal ones are told once."""

    def __init__(self) -> None:
        self._causes = load_causes()
        self._found: dict[tuple[str, str, str, str], Finding] = {}

    def add(
        self,
        cause_id: str,
        subject: str,
        *,
        status: str | None = None,
        scope: str = "cluster",
        nodes: Iterable[str] = (),
        rail: str | None = None,
        cable: str | None = None,
        actual: Any = None,
        expected: Any = None,
        unit: str = "",
        evidence: Mapping[str, Any] | None = None,
        **names: Any,
    ) -> None:
        """Add a finding.

        :param cause_id: an id of ``shipped_causes``
        :param subject: what it is about: a host, a file, an interface
        :param status: what to say instead of the cause's own status
        :param names: values of the placeholders in the sentences; subject, actual and expected are there already
        """
        cause = self._causes[cause_id]
        status = status or cause.status
        texts = {"subject": subject, "actual": value_text(actual), "expected": value_text(expected), "unit": unit}
        texts.update({name: value_text(value) for name, value in names.items()})
        sentence = cause.message
        if status == "pass" and cause.healthy:
            sentence = cause.healthy
        elif status == "unknown" and cause.missing:
            sentence = cause.missing
        healthy = status in ("pass", "skip") and cause.status not in ("pass", "skip")
        finding = Finding(
            id=cause.id,
            layer=cause.layer,
            scope=scope,
            subject=subject,
            status=status,
            nodes=tuple(node for node in nodes if node),
            cable=cable,
            rail=rail,
            actual=actual,
            expected=expected,
            unit=unit,
            message=fill(sentence, texts),
            cause="" if healthy else fill(cause.cause, texts),
            fix="" if healthy else fill(cause.fix, texts),
            evidence=dict(evidence or {}),
        )
        self._found.setdefault((finding.id, finding.subject, finding.status, finding.message), finding)

    def has(self, cause_id: str, *statuses: str) -> bool:
        """Tell whether a finding of this id (and one of these statuses) is there."""
        return any(finding.id == cause_id and (not statuses or finding.status in statuses) for finding in self._found.values())

    @property
    def findings(self) -> list[Finding]:
        """Return the findings by layer, in the order of the list of causes."""
        return in_order(self._found.values(), self._causes, ())
