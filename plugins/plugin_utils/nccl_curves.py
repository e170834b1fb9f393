# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the rows of nccl-tests' runs say beside their largest one: where bandwidth saturates, where latency leaves its floor, two nodes against all. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.measured_rows import sweep_row

MIB = 2**20
#: Sizes at which two nodes and all are compared.
LADDER = (1 * MIB, 8 * MIB, 64 * MIB, 256 * MIB)
#: Sizes of what one layer of a model exchanges, where fixed costs decide.
SMALL = (4096, 10240, 20480, 40960)
#: Bandwidth counts as saturated from this share of the curve's best on; latency as risen above this multiple of its floor.
SATURATED, RISEN = 0.9, 1.5


def rows_of(run: Mapping[str, Any]) -> list[tuple[int, float, float]]:
    """Return (size in bytes, bus bandwidth in GB/s, time in us) by size, of the rows that have figures."""
    return sorted(row for row in (sweep_row(row) for row in run.get("rows") or []) if row is not None)


def curve(run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the knees of a sweep, None when it has too few sizes.

    ``saturates_bytes``: least size from which on the bandwidth stays at the best; ``floor_us`` and ``floor_to_bytes``: the least time, and the largest size
    that still takes about as long.
    """
    rows = rows_of(run)
    if len(rows) < 4:
        return None
    best = max(bandwidth for _size, bandwidth, _time in rows)
    saturated = [size for place, (size, _bandwidth, _time) in enumerate(rows) if all(bandwidth >= SATURATED * best for _s, bandwidth, _t in rows[place:])]
    floor = min(time for _size, _bandwidth, time in rows)
    flat = [size for place, (size, _bandwidth, _time) in enumerate(rows) if all(time <= RISEN * floor for _s, _b, time in rows[: place + 1])]
    return {
        "collective": collective_of(run), "nodes": list(run.get("nodes") or []), "best_gbytes_per_s": best,
        "saturates_bytes": saturated[0] if saturated else None,
        "floor_us": floor, "floor_to_bytes": flat[-1] if flat else None,
    }


def collective_of(run: Mapping[str, Any]) -> str:
    """Return the name of the collective, without the program's ending."""
    return str(run.get("collective") or "nccl-tests").removesuffix("_perf")


def ladder(runs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return two nodes against all by size, for each collective that ran over both: figures are medians of the repeats."""
    figures: dict[tuple[str, str, int], list[float]] = {}
    for run in runs:
        side = "two" if len(run.get("nodes") or []) == 2 and run.get("group") != "all" else "all" if run.get("group") == "all" else None
        for size, bandwidth, _time in rows_of(run) if side and run.get("sweep") else []:
            figures.setdefault((collective_of(run), side, size), []).append(bandwidth)
    result = []
    for collective in dict.fromkeys(key[0] for key in figures):
        for size in LADDER:
            two, everybody = (figures.get((collective, side, size)) for side in ("two", "all"))
            if two and everybody and statistics.median(two) > 0:
                pair = (statistics.median(two), statistics.median(everybody))
                result.append({
                    "collective": collective, "size_bytes": size, "two_nodes_gbytes_per_s": pair[0], "all_nodes_gbytes_per_s": pair[1],
                    "ratio": round(pair[1] / pair[0], 3)})
    return result


def small_messages(runs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the time of small messages, over the most nodes that a run had: medians of the repeats."""
    times: dict[tuple[str, int, int], list[float]] = {}
    for run in runs:
        for size, _bandwidth, time in rows_of(run):
            if size in SMALL:
                times.setdefault((collective_of(run), len(run.get("nodes") or []), size), []).append(time)
    most = max((nodes for _collective, nodes, _size in times), default=0)
    return [
        {"collective": collective, "nodes": nodes, "size_bytes": size, "time_us": statistics.median(values)}
        for (collective, nodes, size), values in sorted(times.items()) if nodes == most
    ]
