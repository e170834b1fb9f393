# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The summary that a person reads in a terminal: what is wrong first, then one line a cable and rail. Plain text, no colour."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils import scenario_table
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.bottleneck import bottleneck_rows
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import BROKEN, STATUSES
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.measured_rows import Sweep, rungs, sweeps
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_charts import size_text
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import counted, number_text

WIDTH = 110

#: More healthy rails than this are told in one line; the files of the report have them all.
HEALTHY_RAILS_SHOWN = 16

#: More findings or drifted settings than this are counted only.
DETAILS_SHOWN = 12

COLUMNS = ("cable", "rail", "forward", "back", "both", "expected", "verdict")
UNMEASURED_COLUMNS = ("cable", "rail", "verdict")
FIGURES = ("forward", "back", "both", "expected")

VERDICT_WORDS = {"fail": "FAIL", "unknown": "FAIL", "warn": "warn", "pass": "pass", "skip": "skipped"}


def summary_lines(report: Mapping[str, Any]) -> list[str]:
    """Return the summary of a report, line by line."""
    lines = [heading(report)]
    lines += trouble_lines([one for one in report["findings"] if one["status"] in BROKEN])
    lines += trouble_lines([one for one in report["findings"] if one["status"] == "warn"])
    lines += drift_lines(report)
    lines += rail_lines(report)
    lines += sweep_lines(report)
    lines += bottleneck_lines(report)
    for entry in report.get("comparison") or []:
        lines += wrapped(f"Compared {entry['message']}.", "", "  ")
    if report.get("scenarios"):
        lines += scenario_lines(report["scenarios"])
    if report["not_tested"]:
        lines += wrapped(f"Not tested (outside --limit): {', '.join(report['not_tested'])}")
    if report["mode"] == "check":
        lines.append("Load tests: skipped in check mode.")
    lines += closing_lines(report["verdict"])
    return lines


def heading(report: Mapping[str, Any]) -> str:
    """Return the first line: which cluster, how large, which run."""
    plan = report["plan"]
    parts = [f"Fabric {plan['cluster']}: {plan['topology']} of {len(plan['nodes'])} nodes, {counted(len(report['cables']), 'cable')}"]
    if report.get("run_id"):
        parts.append(f"run {report['run_id']}")
    return ", ".join(parts)


def trouble_lines(findings: list[Mapping[str, Any]]) -> list[str]:
    """Tell findings with cause and fix."""
    lines = []
    for finding in findings[:DETAILS_SHOWN]:
        word = VERDICT_WORDS[finding["status"]]
        lines.append(f"{word} {finding['id']} on {finding['subject']}")
        lines += wrapped(finding["message"], "  ")
        if finding["cause"]:
            lines += wrapped(f"cause: {finding['cause']}", "  ", "         ")
        if finding["fix"]:
            lines += wrapped(f"fix:   {finding['fix']}", "  ", "         ")
    if len(findings) > DETAILS_SHOWN:
        lines.append(f"{len(findings) - DETAILS_SHOWN} more like these: see the report.")
    return lines


def drift_lines(report: Mapping[str, Any]) -> list[str]:
    """List what differs from the plan."""
    drift = report["drift"]
    if not drift:
        return ["Drift: none."] if report["mode"] == "check" else []
    lines = [f"Drift ({len(drift)}):"]
    for entry in drift[:DETAILS_SHOWN]:
        host = str(entry.get("host"))
        text = entry.get("message") or f"{entry.get('key')}: is {entry.get('live')}, wanted {entry.get('wanted')}"
        lines += wrapped(text if text.startswith(f"{host}:") else f"{host} {entry.get('subject')}: {text}", "  ", "    ")
    if len(drift) > DETAILS_SHOWN:
        lines.append(f"  {len(drift) - DETAILS_SHOWN} more: see the report.")
    return lines


def rail_lines(report: Mapping[str, Any]) -> list[str]:
    """Return the table of cables and rails."""
    rows = [row_of(cable, rail, row) for cable in report["cables"] for rail, row in cable["rails"].items()]
    healthy = [row for row in rows if row["status"] == "pass"]
    shown = rows if len(healthy) <= HEALTHY_RAILS_SHOWN else [row for row in rows if row["status"] != "pass"]
    lines = []
    if shown:
        head = {"cable": "cable", "rail": "rail", "forward": "forward", "back": "back", "both": "both ways", "expected": "expected", "verdict": "verdict"}
        measured = report["mode"] != "check"
        lines += table([head, *shown], COLUMNS if measured else UNMEASURED_COLUMNS)
        if measured:
            lines.append("Gb/s; forward is from the node named first, back is towards it, both ways is the sum.")
    if len(shown) < len(rows):
        lines += wrapped(healthy_text(healthy, bool(shown)))
    return lines


def sweep_lines(report: Mapping[str, Any]) -> list[str]:
    """Tell TCP at its largest number of streams and NCCL at its largest message, a line each."""
    lines = []
    found = [rung for rung in rungs(report) if rung.rail != "both"]
    if found:
        most = max(rung.streams for rung in found)
        figures = [rung.gbps for rung in found if rung.streams == most]
        span = " to ".join(dict.fromkeys(map(number_text, (min(figures), max(figures)))))
        lines += wrapped(f"TCP: {span} Gb/s with {counted(most, 'stream')}, {counted(len(figures), 'edge')} measured rail by rail.", "", "  ")
    lowest: dict[tuple[str, int], Sweep] = {}
    for sweep in sweeps(report):
        key = (sweep.collective, sweep.ranks)
        if key not in lowest or sweep.largest[1] < lowest[key].largest[1]:
            lowest[key] = sweep
    told = [f"{one.collective} {number_text(one.largest[1])} GB/s at {size_text(one.largest[0])}, {one.ranks} ranks" for one in lowest.values()]
    return lines + (wrapped(f"NCCL: {'; '.join(told)}.", "", "  ") if told else [])


def bottleneck_lines(report: Mapping[str, Any]) -> list[str]:
    """Tell what limits inference, what more nodes give, and whether faster links would help."""
    return [line for name, text in bottleneck_rows(report) for line in wrapped(f"{name}: {text}.", "", "  ")]


def scenario_lines(scenarios: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the table of scenarios."""
    below = [line for text in scenario_table.remarks(scenarios) for line in wrapped(text, "", "  ")]
    rows = [dict(zip(scenario_table.COLUMNS, scenario_table.cells(row))) for row in scenarios]
    return ["Scenarios:", *table([scenario_table.HEADS, *rows], scenario_table.COLUMNS), *below]


def row_of(cable: Mapping[str, Any], rail: str, row: Mapping[str, Any]) -> dict[str, str]:
    """Return one line of the table as texts."""
    first = cable["name"].partition(":")[0]
    directed = [one for one in row["measurements"] if one["stage"] == "directed"]
    both = [one for one in row["measurements"] if one["stage"] == "bidirectional"]
    forward = [one for one in directed if one["client"] == first]
    back = [one for one in directed if one["client"] != first]
    verdict = VERDICT_WORDS[row["status"]]
    if row["layer"]:
        verdict += f" in layer {row['layer']}"
    wanted = [expected_text(ones) for ones in (directed, both) if ones]
    return {
        "cable": cable["name"],
        "rail": rail,
        "forward": measured_text(forward),
        "back": measured_text(back),
        "both": measured_text(both),
        "expected": " / ".join(wanted) or "-",
        "verdict": verdict,
        "status": row["status"],
        "worst": str(min((one["percent"] for one in row["measurements"] if one["percent"] is not None), default="")),
    }


def measured_text(measurements: Iterable[Mapping[str, Any]]) -> str:
    """Return the lowest of some figures, or a dash when there is none."""
    figures = [one["gbps"] for one in measurements if one["gbps"] is not None]
    return number_text(min(figures)) if figures else "-"


def expected_text(measurements: Iterable[Mapping[str, Any]]) -> str:
    """Return the expected rate, or its range."""
    rates = sorted({float(one["expected_gbps"]) for one in measurements})
    return number_text(rates[0]) if len(rates) == 1 else f"{number_text(rates[0])}-{number_text(rates[-1])}"


def healthy_text(rows: list[Mapping[str, str]], others: bool) -> str:
    """Tell many healthy rails in one sentence."""
    measured = [row for row in rows if row["worst"]]
    text = f"{'The other' if others else 'All'} {counted(len(rows), 'rail')} pass"
    if measured:
        slowest = min(measured, key=lambda row: float(row["worst"]))
        text += f"; the slowest is {slowest['cable']} rail {slowest['rail']} with {float(slowest['worst']):.0f} % of what is expected"
    return f"{text}. The report lists them all."


def closing_lines(verdict: Mapping[str, Any]) -> list[str]:
    """Return verdict and counts."""
    counts = verdict["counts"]
    told = ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts.get(status))
    return [*wrapped(f"Verdict: {verdict['status'].upper()}: {verdict['message']}."), f"Checks: {told}"]


def table(rows: list[Mapping[str, str]], columns: tuple[str, ...]) -> list[str]:
    """Lay out rows in columns, figures to the right."""
    widths = {column: max(len(row[column]) for row in rows) for column in columns}
    lines = []
    for row in rows:
        cells = [row[column].rjust(widths[column]) if column in FIGURES else row[column].ljust(widths[column]) for column in columns]
        lines.append("  ".join(cells).rstrip())
    return lines


def wrapped(text: str, first: str = "", rest: str | None = None) -> list[str]:
    """Break a text into lines of a terminal's width."""
    later = first if rest is None else rest
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=later, break_long_words=False, break_on_hyphens=False) or [""]
