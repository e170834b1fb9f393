# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as ``summary.md``: for an issue or a chat, with every rail and every finding that is not a pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.bottleneck import bottleneck_rows
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.comparison import way_text
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import TROUBLES
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.measured_rows import sweeps
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_charts import size_text, stream_ladder
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import number_text
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_table import HEADS, remarks
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_table import cells as scenario_cells
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.summary import COLUMNS, VERDICT_WORDS, heading, row_of

#: So many changed figures and versions are listed; report.json has them all.
CHANGES_SHOWN = 24


def files(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of this format, name to content."""
    verdict = report["verdict"]
    lines = [f"# {heading(report)}", "", f"**{verdict['status'].upper()}**: {escaped(verdict['message'])}", ""]
    lines.append(f"Started {report['started']}, finished {report['finished']}, collection {report['collection_version']}, mode {report['mode']}.")
    troubles = [one for one in report["findings"] if one["status"] in TROUBLES]
    if troubles:
        cells = [[VERDICT_WORDS[one["status"]], f"`{one['id']}`", one["subject"], one["message"], one["cause"], one["fix"]] for one in troubles]
        lines += ["", "## Findings", "", *rows(("status", "check", "where", "what", "cause", "fix"), cells)]
    if report["drift"]:
        cells = [[entry.get(key) for key in ("host", "subject", "key", "wanted", "live")] for entry in report["drift"]]
        lines += ["", "## Drift", "", *rows(("host", "subject", "setting", "wanted", "found"), cells)]
    limits = bottleneck_rows(report)
    if limits:
        lines += ["", "## Bottleneck", "", *(f"* **{name}**: {escaped(text)}" for name, text in limits)]
    for entry in report.get("comparison") or []:
        lines += ["", f"## Compared {escaped(entry['message'].partition(': ')[0])}", "", f"{escaped(entry['message'].partition(': ')[2])}."]
        changed = [*entry["regressions"], *entry["improvements"]]
        if changed:
            head = ("cable", "rail", "way", "before Gb/s", "now Gb/s", "difference %", "noise %")
            lines += ["", *rows(head, [change_cells(one) for one in changed[:CHANGES_SHOWN]])]
        if len(changed) > CHANGES_SHOWN:
            lines += ["", f"{len(changed) - CHANGES_SHOWN} more: see report.json."]
        if entry["versions"]:
            cells = [[one["node"], one["what"], one["before"] or "none", one["now"] or "none"] for one in entry["versions"][:CHANGES_SHOWN]]
            lines += ["", *rows(("node", "version of", "before", "now"), cells)]
        for word, names in (("New", entry["new_cables"]), ("Gone", entry["gone_cables"])):
            if names:
                lines += ["", f"{word} cables: {escaped(', '.join(names))}"]
    if report.get("scenarios"):
        lines += ["", "## Scenarios", "", *rows(list(HEADS.values()), [scenario_cells(row) for row in report["scenarios"]])]
        lines += [line for text in remarks(report["scenarios"]) for line in ("", escaped(text))]
    lines += ["", "## Cables", ""]
    if report["mode"] == "check":
        lines += ["Load tests: skipped in check mode.", ""]
    table = [row_of(cable, rail, row) for cable in report["cables"] for rail, row in cable["rails"].items()]
    head = ("cable", "rail", "forward Gb/s", "back Gb/s", "both ways Gb/s", "expected Gb/s", "verdict")
    lines += rows(head, [[row[column] for column in COLUMNS] for row in table])
    ladder = stream_ladder(report)
    if ladder:
        lines += ["", "## TCP by number of streams", "", *rows(ladder["table"]["heads"], ladder["table"]["rows"])]
    runs = sweeps(report)
    if runs:
        cells = [[run.collective, run.name, size_text(run.largest[0]), number_text(run.largest[1])] for run in runs]
        lines += ["", "## NCCL at the largest message", "", *rows(("collective", "ranks", "size", "bus bandwidth GB/s"), cells)]
    if report["not_tested"]:
        lines += ["", f"Not tested (outside --limit): {', '.join(report['not_tested'])}"]
    lines += ["", f"How the expected rates come about: {escaped(str(report['plan']['expected'].get('formula', '')))}"]
    return {"summary.md": "\n".join(lines) + "\n"}


def change_cells(one: Mapping[str, Any]) -> list[str]:
    """Return a figure that changed as cells of a table."""
    now = "-" if one["now_gbps"] is None else number_text(one["now_gbps"])
    change = "-" if one["change_percent"] is None else f"{one['change_percent']:+.1f}"
    return [one["cable"], one["rail"], way_text(one), number_text(one["before_gbps"]), now, change, f"{one['noise_percent']:.0f}"]


def rows(head: Iterable[str], content: Iterable[Iterable[Any]]) -> list[str]:
    """Return a Markdown table."""
    names = list(head)
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    lines.extend(f"| {' | '.join(escaped(str(cell)) for cell in row)} |" for row in content)
    return lines


def escaped(text: str) -> str:
    """Return a text that leaves the table and the page as they are."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
