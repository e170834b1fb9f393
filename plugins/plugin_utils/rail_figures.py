# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a rail reads on a page: its figures, its verdict as a word and a sign, and its bars against the ceiling."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import BROKEN
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import number_text

#: Colour is never the only sign.
SIGNS = {"pass": "✓", "warn": "!", "fail": "✕", "unknown": "?", "skip": "–"}
WORDS = {"pass": "pass", "warn": "warning", "fail": "fail", "unknown": "unknown, counts as fail", "skip": "not judged"}

#: Bars are drawn on a scale that ends a little above the expected rate where the ceiling is out of sight (slow emulated fabrics).
CEILING_IN_SIGHT = 3.0
HEADROOM = 1.25

BAR_WIDTH = 112.0
WAYS = ("forward", "back", "both")


def rail_rows(report: Mapping[str, Any], names: Iterable[str] | None = None) -> list[dict[str, Any]]:
    """Return the cables with their rails as the bandwidth table shows them."""
    wanted = None if names is None else set(names)
    ceilings = report["plan"]["expected"].get("ceiling_gbps") or {}
    return [
        {
            "name": cable["name"],
            "status": cable["status"],
            "rails": [rail_row(cable, rail, row, ceilings) for rail, row in cable["rails"].items()],
        }
        for cable in report["cables"]
        if wanted is None or cable["name"] in wanted
    ]


def rail_row(cable: Mapping[str, Any], rail: str, row: Mapping[str, Any], ceilings: Mapping[str, float]) -> dict[str, Any]:
    """Return one rail: its verdict, and for each way the lowest figure with its bar."""
    first = cable["name"].partition(":")[0]
    groups: dict[str, list[Mapping[str, Any]]] = {way: [] for way in WAYS}
    for one in row["measurements"]:
        way = "both" if one["stage"] == "bidirectional" else "forward" if one["client"] == first else "back"
        groups[way].append(one)
    percents = [one["percent"] for one in row["measurements"] if one["percent"] is not None]
    return {
        "rail": rail,
        "status": row["status"],
        "layer": row["layer"],
        "message": row["message"],
        "ways": {way: way_cell(groups[way], way, ceilings) for way in WAYS},
        "percent": min(percents) if percents else None,
    }


def way_cell(measurements: list[Mapping[str, Any]], way: str, ceilings: Mapping[str, float]) -> dict[str, Any] | None:
    """Return the lowest figure of one way; None where nothing was to be measured."""
    if not measurements:
        return None
    known = [one for one in measurements if one["gbps"] is not None]
    shown = min(known, key=lambda one: one["gbps"]) if known else measurements[0]
    ceiling = ceiling_of(way, shown["expected_gbps"], ceilings)
    return {
        "gbps": shown["gbps"],
        "text": "–" if shown["gbps"] is None else number_text(shown["gbps"]),
        "status": shown["status"],
        "expected": number_text(shown["expected_gbps"]),
        "count": len(measurements),
        "bar": bar_lengths(shown["gbps"], shown["expected_gbps"], ceiling),
        "title": way_title(shown, ceiling, len(measurements)),
    }


def ceiling_of(way: str, expected: float, ceilings: Mapping[str, float]) -> float | None:
    """Return the rate that no measurement of this kind can exceed, Gb/s: with its twin, a rail has at most half of the cable."""
    if way == "both":
        return ceilings.get("rail_bidirectional")
    rail, cable = ceilings.get("rail"), ceilings.get("cable")
    if rail is None or cable is None:
        return rail
    share = min(rail, cable / 2)
    return share if expected <= share + 0.1 else rail


def bar_lengths(value: float | None, expected: float, ceiling: float | None) -> dict[str, float | None]:
    """Return a bar's lengths: what was measured, where the expected rate and the ceiling stand (None: out of sight)."""
    in_sight = ceiling is not None and 0 < expected and ceiling <= CEILING_IN_SIGHT * expected
    end = max(ceiling if in_sight and ceiling is not None else expected * HEADROOM, value or 0.0, 1e-9)
    scale = (BAR_WIDTH - 2) / end
    return {
        "value": None if value is None else round(value * scale, 1),
        "expected": round(expected * scale, 1),
        "ceiling": round(ceiling * scale, 1) if in_sight and ceiling is not None else None,
    }


def way_title(shown: Mapping[str, Any], ceiling: float | None, count: int) -> str:
    """Describe a bar in words."""
    sign = "both ways between" if shown["stage"] == "bidirectional" else "from"
    joint = "and" if shown["stage"] == "bidirectional" else "to"
    figure = "no figure" if shown["gbps"] is None else f"{number_text(shown['gbps'])} Gb/s"
    parts = [f"{sign} {shown['client']} {joint} {shown['server']}: {figure} of {number_text(shown['expected_gbps'])} expected"]
    if shown["percent"] is not None:
        parts.append(f"{shown['percent']:.0f} %")
    if ceiling is not None:
        parts.append(f"ceiling {number_text(ceiling)}")
    if count > 1:
        parts.append(f"lowest of {count} tests")
    return f"{', '.join(parts)}; {WORDS[shown['status']]}"


def figure_text(row: Mapping[str, Any]) -> str:
    """Return what the picture writes beside a rail: its lowest one-way figure, or the layer that is broken."""
    figures = [cell["gbps"] for way in ("forward", "back") if (cell := row["ways"][way]) and cell["gbps"] is not None]
    if figures and (row["status"] not in BROKEN or row["layer"] in (None, "rdma")):
        return number_text(min(figures))
    return str(row["layer"] or "")
