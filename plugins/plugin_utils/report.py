# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report: a judged run with the data of the run itself, and the files it becomes.

A further format is a module ``format_x.py`` with a function ``files(report)`` and a place in ``FORMATS``.
"""

from __future__ import annotations

import datetime
import pathlib
import re
import secrets
from collections.abc import Mapping
from typing import Any

import yaml

from ansible_collections.dgxspark.fabric.plugins.plugin_utils import (
    format_html,
    format_json,
    format_junit,
    format_markdown,
    format_prometheus,
    format_scenarios,
)
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, shown
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.judge import INPUTS, OPTIONAL_INPUTS, judge
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.measured_layers import bottleneck_of
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.redaction import mask_secrets, redact
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_time import moment, time_text

SCHEMA_VERSION = 2
COLLECTION = pathlib.Path(__file__).resolve().parents[2]

#: When a run began, and four digits by chance for two runs within one second.
RUN_ID = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{4}")

FORMATS = (format_json, format_markdown, format_scenarios, format_junit, format_prometheus, format_html)

#: What a report may hold beside the judged run: added after judging, and kept when it is judged again.
EXTRAS = ("comparison", "scenario", "scenarios")


def make_report(
    results: Mapping[str, Any], started: str | None = None, run_id: str | None = None, finished: str | None = None, asked: bool = False
) -> dict[str, Any]:
    """Judge a run and return its report.

    :param started: when the run began, ISO 8601 in UTC; the time of judging when not known
    :param run_id: taken over from a stored report; made up otherwise
    :param asked: whether to say what limits inference where nothing but RDMA was measured, too
    :raises FabricError: when the run cannot be judged
    """
    judged = judge(results)
    end = run_time(finished) if finished else datetime.datetime.now(tz=datetime.timezone.utc)
    begin = run_time(started) if started else end
    report = {
        "schema_version": SCHEMA_VERSION,
        "collection_version": collection_version(),
        "run_id": run_id or new_run_id(begin),
        "cluster": judged["plan"]["cluster"],
        "mode": judged["mode"],
        "started": time_text(begin),
        "finished": time_text(end),
        **{name: value for name, value in judged.items() if name != "mode"},
    }
    return with_bottleneck(mask_secrets(report), asked)


def with_bottleneck(report: dict[str, Any], asked: bool = False) -> dict[str, Any]:
    """Return a judged run with what limits inference, where enough was measured for saying more than its findings do, or somebody asked."""
    found = bottleneck_of(report, asked or "bottleneck" in report)
    return report if found is None else {**report, "bottleneck": found}


def redacted(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return a report without MAC addresses, GUIDs and serial numbers; it says so itself."""
    return {**redact(report), "redacted": True}


def judge_again(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Judge a stored report once more, by the rules of today and those of its plan.

    :raises FabricError: when the document is no report, or of a later schema
    """
    check_version(stored)
    results = {name: stored[name] for name in (*INPUTS, *OPTIONAL_INPUTS) if name in stored}
    report = make_report(results, started=stored.get("started"), run_id=stored.get("run_id"), finished=stored.get("finished"), asked="bottleneck" in stored)
    report.update({name: stored[name] for name in EXTRAS if name in stored})
    for entry in report.get("comparison") or []:
        for change in (*entry["regressions"], *entry["improvements"]):
            change.setdefault("noise_repeats", 0)  # version 1 did not look at repeats
    return redacted(report) if stored.get("redacted") else report


def check_version(stored: Mapping[str, Any]) -> None:
    """Refuse what is no report, or one of a later schema.

    :raises FabricError: for such a document
    """
    version = stored.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FabricError("the file is no report of this collection: it has no schema_version; give the report.json of a run.")
    if version > SCHEMA_VERSION:
        raise FabricError(f"the report has schema version {version}, this collection knows versions up to {SCHEMA_VERSION}: use the collection that wrote it.")


def report_files(report: Mapping[str, Any]) -> dict[str, str]:
    """Return all files of a report, name to content."""
    content: dict[str, str] = {}
    for writer in FORMATS:
        content.update(writer.files(report))
    return content


def run_time(text: str) -> datetime.datetime:
    """Return when a run began or ended."""
    try:
        return moment(text)
    except ValueError as exc:
        raise FabricError(f"report: started is {shown(text)}, expected a time such as 2026-11-30T22:15:00Z.") from exc


def new_run_id(begin: datetime.datetime) -> str:
    """Return the name of a run; names sort by time."""
    return f"{begin.astimezone(datetime.timezone.utc):%Y%m%dT%H%M%SZ}-{secrets.token_hex(2)}"


def collection_version() -> str:
    """Return the version of this collection, from a checkout's galaxy.yml or an installed collection's MANIFEST.json."""
    for name, path in (("galaxy.yml", ("version",)), ("MANIFEST.json", ("collection_info", "version"))):
        try:
            document: Any = yaml.safe_load((COLLECTION / name).read_text(encoding="utf-8"))
        except (OSError, yaml.YAMLError):
            continue
        for key in path:
            document = document.get(key) if isinstance(document, dict) else None
        if document:
            return str(document)
    return "unknown"
