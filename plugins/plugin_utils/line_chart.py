# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A chart of lines over a logarithmic axis: where axes, lines and marks stand. Geometry alone; the template draws it.

As with the picture of the cluster there are two drawings, for a wide page and for a telephone. Lines differ by colour, dashes and the shape of their marks.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cluster_picture import NARROW, WIDE, rounded

#: So many lines can be told apart.
MOST_SERIES = 6

#: The chart's height, and the space for its axes: left, right, top, bottom.
HEIGHT = {WIDE: 300.0, NARROW: 240.0}
MARGINS = (40.0, 18.0, 26.0, 40.0)
MOST_LABELS = {WIDE: 9, NARROW: 5}

#: A line for what could be reached is drawn when it is at most this many times the highest figure; else it would flatten the curves.
REFERENCE_IN_SIGHT = 1.6


@dataclasses.dataclass(frozen=True, slots=True)
class Series:
    """One line: its name and its points (x above 0, y)."""

    name: str
    points: tuple[tuple[float, float], ...]


def drawings(
    series: Sequence[Series], x_text: Callable[[float], str], x_title: str, y_title: str, reference: tuple[float, str] | None = None, every_x: bool = False
) -> list[dict[str, Any]]:
    """Return the drawings of a chart, the wide one first.

    :param x_text: writes a value of the x axis
    :param reference: a value of the y axis to be marked, and its name
    :param every_x: label every x that has a point, instead of powers of two
    :raises ValueError: when there is no point to draw, since an empty chart says nothing
    """
    shown = series[:MOST_SERIES]
    places = sorted({x for one in shown for x, _y in one.points})
    if not places:
        raise ValueError("a chart needs a point")
    highest = max(y for one in shown for _x, y in one.points)
    marked = reference if reference is not None and reference[0] <= REFERENCE_IN_SIGHT * highest else None
    steps = even_steps(max(highest, marked[0] if marked else 0.0))
    return [drawing(shown, places, steps, marked, width, x_text, (x_title, y_title), every_x) for width in (WIDE, NARROW)]


def drawing(
    series: Sequence[Series],
    places: list[float],
    steps: list[float],
    marked: tuple[float, str] | None,
    width: float,
    x_text: Callable[[float], str],
    titles: tuple[str, str],
    every_x: bool,
) -> dict[str, Any]:
    """Return one drawing, its numbers rounded for the page."""
    left, right, top, bottom = MARGINS
    height = HEIGHT[width]
    first, last = math.log2(places[0]), math.log2(places[-1])
    inner = 14.0  # points stand clear of the axis

    def x_of(value: float) -> float:
        share = (math.log2(value) - first) / (last - first) if last > first else 0.5
        return left + inner + share * (width - left - right - 2 * inner)

    def y_of(value: float) -> float:
        return height - bottom - value / steps[-1] * (height - top - bottom)

    labels = places if every_x else powers(places[0], places[-1], MOST_LABELS[width])
    lines = [
        {
            "name": one.name,
            "number": number,
            "path": " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in one.points),
            "marks": [{"x": x_of(x), "y": y_of(y), "title": f"{one.name}: {y:.3g} at {x_text(x)}"} for x, y in one.points],
        }
        for number, one in enumerate(series, 1)
    ]
    return rounded({
        "width": width,
        "height": height,
        "narrow": width == NARROW,
        "left": left,
        "right": width - right,
        "bottom": height - bottom,
        "x_title": titles[0],
        "y_title": titles[1],
        "x_labels": [{"x": x_of(value), "text": x_text(value)} for value in labels],
        "y_labels": [{"y": y_of(value), "text": f"{value:g}"} for value in steps],
        "reference": {"y": y_of(marked[0]), "text": marked[1]} if marked else None,
        "lines": lines,
    })


def even_steps(highest: float) -> list[float]:
    """Return three to six even values from 0 to above the highest, each 1, 2 or 5 times a power of ten apart; 0 and 1 where all is 0."""
    if highest <= 0:
        return [0.0, 1.0]
    rough = max(highest, 1e-9) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    return [round(step * number, 10) for number in range(math.ceil(highest * 1.02 / step) + 1)]


def powers(first: float, last: float, most: int) -> list[float]:
    """Return powers of two within a range, evenly apart, at most so many."""
    low, high = math.ceil(math.log2(first) - 1e-9), math.floor(math.log2(last) + 1e-9)
    if high < low:
        return [first]
    apart = max(math.ceil((high - low + 1) / most), 1)
    return [2.0**number for number in range(low, high + 1, apart)]
