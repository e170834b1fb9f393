# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The charts of a report, as its pages show them: NCCL by message size, TCP by number of streams. What was not measured has no chart."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.line_chart import MOST_SERIES, Series, drawings
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.measured_rows import Rung, Sweep, rungs, sweeps
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import counted, number_text

#: With more edges than this, their table is folded away below the chart.
EDGES_SHOWN = 12

BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def size_curves(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a chart for each collective: bus bandwidth by message size, one line a run, with the figures as a table."""
    by_collective: dict[str, list[Sweep]] = {}
    for sweep in sweeps(report):
        by_collective.setdefault(sweep.collective, []).append(sweep)
    ceiling = (report["plan"]["expected"].get("ceiling_gbps") or {}).get("cable")
    reference = (ceiling / 8, f"one cable carries {number_text(ceiling / 8)}") if ceiling else None
    charts = []
    for collective, runs in by_collective.items():
        series = [Series(name, tuple((size, busbw) for size, busbw, _time in run.rows)) for name, run in zip(own_names(runs), runs)]
        best = max(busbw for run in runs for _size, busbw, _time in run.rows)
        charts.append({
            "name": collective,
            "title": f"{collective}: bus bandwidth in GB/s by message size, best {number_text(best)} GB/s",
            "drawings": drawings(series, size_text, "message size", "GB/s", reference),
            "series": [one.name for one in series[:MOST_SERIES]],
            "hidden": max(len(series) - MOST_SERIES, 0),
            "tables": [
                {
                    "caption": f"{name}{f', nccl-tests {run.version}' if run.version else ''}",
                    "heads": ["Size", "Bus bandwidth, GB/s", "Time, µs"],
                    "rows": [[size_text(size), number_text(busbw), number_text(time)] for size, busbw, time in run.rows],
                }
                for name, run in zip(own_names(runs), runs)
            ],
        })
    return charts


def stream_ladder(report: Mapping[str, Any], host: str | None = None) -> dict[str, Any] | None:
    """Return the chart of TCP by number of streams and the figures of every edge; None where none was measured.

    :param host: only edges of this node
    """
    found = [rung for rung in rungs(report) if host in (None, rung.client, rung.server)]
    if not found:
        return None
    edges: dict[tuple[str, str, str], dict[int, Rung]] = {}
    for rung in found:
        edges.setdefault((rung.client, rung.server, rung.rail), {})[rung.streams] = rung
    counts = sorted({rung.streams for rung in found})
    lines = [
        Series(edge_text(*edge), tuple((streams, row[streams].gbps) for streams in counts if streams in row))
        for edge, row in sorted(edges.items(), key=lambda item: item[0][2])
    ]
    single = [rung for rung in found if rung.rail != "both"]
    series = lines if len(lines) <= MOST_SERIES else summed_up(single, counts)
    expected = {rung.expected_gbps for rung in single}
    only = next(iter(expected)) if len(expected) == 1 else None
    rows = [
        [edge_text(*edge), *(number_text(row[streams].gbps) if streams in row else "–" for streams in counts), share_text(row), retransmits_text(row)]
        for edge, row in edges.items()
    ]
    best = max(found, key=lambda rung: rung.gbps)
    return {
        "title": f"TCP rate in Gb/s by number of streams on {len(edges)} edges, best {number_text(best.gbps)} Gb/s with {best.streams} streams",
        "drawings": drawings(series, streams_text, "parallel TCP streams", "Gb/s", (only, f"expected {number_text(only)}") if only else None, every_x=True),
        "series": [one.name for one in series],
        "table": {
            "caption": f"Received by the server, {len(edges)} edges.",
            "heads": ["From, to, rail", *(f"{streams_text(streams)}, Gb/s" for streams in counts), "% of expected", "Sent again"],
            "rows": rows,
            "folded": len(rows) > EDGES_SHOWN,
        },
    }


def summed_up(found: Iterable[Rung], counts: Sequence[int]) -> list[Series]:
    """Return the lowest, the middle and the highest edge for each number of streams."""
    by_count = {streams: rates for streams in counts if (rates := [rung.gbps for rung in found if rung.streams == streams])}
    kinds = (("highest edge", max), ("median edge", statistics.median), ("lowest edge", min))
    return [Series(name, tuple((streams, float(of(values))) for streams, values in by_count.items())) for name, of in kinds]


def edge_text(client: str, server: str, rail: str) -> str:
    """Name an edge with its direction."""
    return f"{client} → {server}, {'both rails' if rail == 'both' else f'rail {rail}'}"


def share_text(row: Mapping[int, Rung]) -> str:
    """Return the best rung of an edge in percent of what is expected."""
    shares = [100.0 * rung.gbps / rung.expected_gbps for rung in row.values() if rung.expected_gbps]
    return f"{max(shares):.0f} %" if shares else "–"


def retransmits_text(row: Mapping[int, Rung]) -> str:
    """Return the segments that an edge had to send again, all rungs together."""
    known = [rung.retransmits for rung in row.values() if rung.retransmits is not None]
    return str(sum(known)) if known else "–"


def own_names(runs: Sequence[Sweep]) -> list[str]:
    """Return a name for each run; runs of the same nodes are numbered."""
    names = [run.name for run in runs]
    return [f"{name}, run {names[:place].count(name) + 1}" if names.count(name) > 1 else name for place, name in enumerate(names)]


def size_text(size: float) -> str:
    """Return a size in bytes with a binary unit: 64 KiB, 1.5 MiB."""
    power = 0
    while size >= 1024 and power < len(BINARY) - 1:
        size, power = size / 1024, power + 1
    return f"{size:.3g} {BINARY[power]}"


def streams_text(count: float) -> str:
    """Return a number of streams."""
    return counted(int(count), "stream")
