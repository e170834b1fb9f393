# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table that decides about a faster network: scenarios side by side, filled from stored runs.

Rows and columns are those of the usual plan: A, 100G and two nodes; B, 100G and six; C, 200G RoCE and six. A cell without a
figure stays empty (None) and is shown as "not measured".
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, shown
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.measured_rows import cable_rates, sweeps
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_charts import size_text
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import number_text
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_inference import inference_cells, remark
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_name import name_of

NOT_MEASURED = "not measured"

COLUMNS = ("scenario", "network", "nodes", "rdma", "nccl", "inference", "p95")
HEADS = {"scenario": "scenario", "network": "network", "nodes": "nodes", "rdma": "RDMA", "nccl": "NCCL", "inference": "inference throughput", "p95": "P95"}

#: What the rows of the usual plan are about, for those that no run fills yet.
USUAL = {"A": {"network": "100G", "nodes": "2"}, "B": {"network": "100G", "nodes": "6"}, "C": {"network": "200G RoCE", "nodes": "6"}}

#: Cells that a person may fill in by hand, for what was measured elsewhere.
BY_HAND = ("network", "nodes", "nccl", "inference", "p95")


def scenario_reports(entries: Sequence[Mapping[str, Any]], load: Callable[[str], Mapping[str, Any]],
                     newest: Callable[[str], Mapping[str, Any] | None]) -> dict[str, Mapping[str, Any] | None]:
    """Return the report of each scenario by its name, in order; None where no run is stored.

    :param entries: ``[{name: A, run: path or run id}]``; without ``run`` the newest stored run of that name counts, without ``name`` the run's own
    :param load: returns the report of a run
    :param newest: returns the newest stored report of a scenario
    :raises FabricError: for an entry that cannot be used
    """
    found: dict[str, Mapping[str, Any] | None] = {}
    for place, entry in enumerate(entries, 1):
        unknown = sorted(set(entry) - {"name", "run", *BY_HAND})
        report = load(str(entry["run"])) if entry.get("run") and not unknown else None
        name = str(entry.get("name") or "").strip() or (name_of(report) if report else "")
        if not name or name in found or unknown:
            what = f"has the unknown field {unknown[0]}" if unknown else f"has the name {shown(name)}" if name else "has no name, and neither has its run"
            raise FabricError(f"report_scenarios: entry {place} {what}; expected name (once each), run, and any of {', '.join(BY_HAND)}.")
        found[name] = report if report is not None else newest(name)
    return found


def scenario_rows(entries: Sequence[Mapping[str, Any]], reports: Mapping[str, Mapping[str, Any] | None]) -> list[dict[str, Any]]:
    """Return the rows of the table.

    :param entries: as ``scenario_reports`` takes them; an entry may state the cells of ``BY_HAND`` itself
    :param reports: what ``scenario_reports`` returns for them
    :raises FabricError: where inference was measured under different conditions
    """
    by_hand = dict(zip(reports, entries, strict=True))
    rows: dict[str, dict[str, Any]] = {}
    stated: dict[str, int | None] = {}
    for name, report in reports.items():
        rows[name] = {"scenario": name, **dict.fromkeys(COLUMNS[1:]), "run_id": None, **USUAL.get(name, {})}
        if report:
            own = {key: value for key, value in told.items() if key != "name"} if isinstance(told := report.get("scenario"), Mapping) else {}
            rows[name].update(read(name, report), **own)
            stated[name] = whole(by_hand[name].get("nodes") or own.get("nodes"))
    compared = {name: report for name, report in reports.items() if report and not by_hand[name].get("inference")}
    for name, found in inference_cells(compared, stated).items():
        rows[name].update(dataclasses.asdict(found))
    for name, row in rows.items():
        row.update({key: str(by_hand[name][key]) for key in BY_HAND if by_hand[name].get(key) not in (None, "")})
    if rows and set(rows) <= set(USUAL):
        return [rows.get(name) or {"scenario": name, **dict.fromkeys(COLUMNS[1:]), "run_id": None, **usual} for name, usual in USUAL.items()]
    return list(rows.values())


def read(name: str, report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a scenario's run says in the table.

    :raises FabricError: for a document that is no report
    """
    try:
        return measured(report)
    except (KeyError, TypeError, AttributeError, ValueError) as exc:
        raise FabricError(f"report_scenarios: the run of {name} is no report of this collection ({type(exc).__name__}: {exc}); "
                          "give a run id, a report.json or the folder of a run.") from exc


def whole(nodes: Any) -> int | None:
    """Return a stated number of nodes, None where it is no number."""
    text = str(nodes or "").strip()
    return int(text) if text.isascii() and text.isdigit() and int(text) else None


def measured(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what one run says in the table."""
    plan = report["plan"]
    speed = f"{plan['link_gbps']:g}G"
    tested = [node for node in plan["nodes"] if node not in report["not_tested"]]
    return {"network": f"{speed} RoCE", "nodes": str(len(tested)), "rdma": rdma_cell(report), "nccl": nccl_cell(report), "run_id": report["run_id"]}


def rdma_cell(report: Mapping[str, Any]) -> str | None:
    """Return the rate of a cable with both rails, one way: the median, and the lowest beside it."""
    sums = cable_rates(report)
    if not sums:
        return None
    return f"{number_text(statistics.median(sums))} Gb/s a cable (lowest {number_text(min(sums))})"


def nccl_cell(report: Mapping[str, Any]) -> str | None:
    """Return what all ranks together reached: all_reduce where it was measured, at the largest message of the run with most ranks."""
    runs = sweeps(report)
    if not runs:
        return None
    best = max(runs, key=lambda run: (run.collective == "all_reduce", run.ranks, run.largest))
    return f"{best.collective} {number_text(best.largest[1])} GB/s at {size_text(best.largest[0])}, {best.ranks or 'unknown'} ranks"


def remarks(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what stands below the table: the conditions of inference, how each scenario was spread, what is left out, and the notes of each."""
    rows = list(rows)
    conditions = dict.fromkeys(str(row["conditions"]) for row in rows if row.get("conditions"))
    spread = [remark(str(row["scenario"]), *(row.get(key) for key in ("nodes", "inference_nodes", "parallel"))) for row in rows]
    left_out = [f"{row['scenario']}: left out: {row['left_out']}" for row in rows if row.get("left_out")]
    notes = [f"{row['scenario']}: {row['notes']}" for row in rows if row.get("notes")]
    return [*(f"Inference with {text}." for text in conditions), *filter(None, spread), *left_out, *notes]


def cells(row: Mapping[str, Any]) -> list[str]:
    """Return a row's cells as texts."""
    return [str(row[column]) if row.get(column) not in (None, "") else NOT_MEASURED for column in COLUMNS]
