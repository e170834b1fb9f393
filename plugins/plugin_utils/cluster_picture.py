# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The picture of a cluster: where nodes, ports, cables and rails stand. Geometry alone; the template draws it.

Two drawings are made, one for a wide page and one for a telephone (360 units). Text stands upright in both. A pair is a line, a
mesh a triangle, a ring a racetrack, a switch a spine with its nodes in rows, and any other graph a circle.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rail_figures import SIGNS, WORDS, figure_text

WIDE, NARROW = 720.0, 360.0
NODE_HEIGHT = 34.0
RAIL_GAP = 3.2
PARALLEL_GAP = 52.0
CLOSE_GAP = 22.0
CHARACTER = 6.5
LINE_HEIGHT = 15.0
NAME_LENGTH = {WIDE: 16, NARROW: 11}
SWITCH = "switch"

Point = tuple[float, float]

#: Left, top, right, bottom.
Area = tuple[float, float, float, float]


@dataclasses.dataclass(frozen=True)
class Box:
    """A node (or the switch): centre, size and name."""

    name: str
    x: float
    y: float
    width: float
    height: float = NODE_HEIGHT

    def edge(self, towards: Point, start: Point) -> Point:
        """Return where a line from a point within the box leaves it."""
        dx, dy = towards[0] - start[0], towards[1] - start[1]
        reach = [1.0]
        for delta, middle, half in ((dx, self.x - start[0], self.width / 2), (dy, self.y - start[1], self.height / 2)):
            if abs(delta) > 1e-6:
                reach.append((middle + half if delta > 0 else middle - half) / delta)
        share = max(min(reach), 0.0)
        return start[0] + dx * share, start[1] + dy * share


@dataclasses.dataclass(frozen=True)
class Wire:
    """A cable between two boxes, with the rails as the bandwidth table has them."""

    name: str
    first: str
    first_port: Any
    second: str
    second_port: Any
    status: str
    rails: tuple[Mapping[str, Any], ...]

    def turned(self) -> Wire:
        """Return the same cable seen from its other end."""
        return dataclasses.replace(self, first=self.second, first_port=self.second_port, second=self.first, second_port=self.first_port)

    def title(self) -> str:
        """Describe the cable in words."""
        told = []
        for row in self.rails:
            figure = figure_text(row)
            told.append(f"rail {row['rail']} {WORDS[row['status']]}{f', {figure}' if figure else ''}")
        return f"{self.name}: {'; '.join(told)}"


def pictures(plan: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], statuses: Mapping[str, str], links: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the drawings of a cluster, the wide one first.

    :param rows: the cables, as ``rail_rows`` returns them
    :param statuses: worst status of each node
    :param links: the page of each node
    """
    wires = wires_of(plan, rows)
    drawings = []
    for width in (WIDE, NARROW):
        if plan.get("shape") == "switch":
            boxes, lines = spine(plan, wires, width)
        else:
            boxes, lines = free(plan, wires, width)
        drawings.append(drawing(boxes, lines, width, statuses, links))
    return drawings


def node_pictures(
    plan: Mapping[str, Any], node: str, rows: Iterable[Mapping[str, Any]], statuses: Mapping[str, str], links: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the drawings of one node with its cables and what they lead to."""
    mine = [wire if wire.first == node else wire.turned() for wire in wires_of(plan, rows)]
    drawings = []
    for width in (WIDE, NARROW):
        pitch = 56.0
        box = box_width([node, *(wire.second for wire in mine)], width)
        span = 480.0 if width == WIDE else width
        top = 12.0 + NODE_HEIGHT / 2
        left = Box(node, 8 + box / 2, top + pitch * (len(mine) - 1) / 2, box, NODE_HEIGHT + pitch * max(len(mine) - 1, 0))
        boxes, lines = [left], []
        for place, wire in enumerate(mine):
            peer = Box(wire.second, span - 8 - box / 2, top + pitch * place, box)
            boxes.append(peer)
            lines.append(line(wire, left, peer, (left.x, peer.y), (peer.x, peer.y), "stack" if width == NARROW else "line"))
        drawings.append(drawing(boxes, lines, span, statuses, links))
    return drawings


def wires_of(plan: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> list[Wire]:
    """Join the cables of the plan with their figures."""
    shown = {row["name"]: row for row in rows}
    wires = []
    for cable in plan["cables"]:
        row = shown.get(cable["name"])
        if row is not None:
            far = cable["b"] or {"node": SWITCH, "port": ""}
            wires.append(Wire(cable["name"], cable["a"]["node"], cable["a"]["port"], far["node"], far["port"], row["status"], tuple(row["rails"])))
    return wires


def box_width(names: Iterable[str], width: float) -> float:
    """Return how wide boxes are for their names."""
    longest = max((min(len(name), NAME_LENGTH[width]) for name in names), default=4)
    return max(longest * 7.4 + 18, 64.0)


def spine(plan: Mapping[str, Any], wires: list[Wire], width: float) -> tuple[list[Box], list[dict[str, Any]]]:
    """Lay out a switch: its nodes in rows, left and right of it on a wide page."""
    pitch = 30.0 if len(wires) > 16 else 44.0
    sides = 2 if width == WIDE and len(wires) > 2 else 1
    by_node: dict[str, list[Wire]] = {}
    for wire in wires:
        by_node.setdefault(wire.first, []).append(wire)
    half = math.ceil(len(wires) / sides)
    columns: list[list[tuple[str, list[Wire]]]] = [[] for _side in range(sides)]
    filled = 0
    for node, mine in by_node.items():
        columns[min(filled // half, sides - 1) if half else 0].append((node, mine))
        filled += len(mine)
    box = box_width(by_node, width)
    height = pitch - 8
    rows = max((sum(len(mine) for _node, mine in column) for column in columns), default=1)
    hub = Box(SWITCH, width / 2 if sides == 2 else width - 26, 8 + rows * pitch / 2, 40, rows * pitch)
    boxes, lines = [hub], []
    for side, column in enumerate(columns):
        row = 0
        x = 8 + box / 2 if side == 0 else width - 8 - box / 2
        for node, mine in column:
            tall = height + pitch * (len(mine) - 1)
            at = Box(node, x, 8 + row * pitch + pitch / 2 + pitch * (len(mine) - 1) / 2, box, tall)
            boxes.append(at)
            for wire in mine:
                y = 8 + row * pitch + pitch / 2
                lines.append(line(wire, at, hub, (at.x, y), (hub.x, y), "line"))
                row += 1
    return boxes, lines


def free(plan: Mapping[str, Any], wires: list[Wire], width: float) -> tuple[list[Box], list[dict[str, Any]]]:
    """Lay out nodes that are joined by cables of their own."""
    names = [*plan["nodes"]]
    order = [name for name in plan.get("rank_order") or [] if name in plan["nodes"]]
    order += [name for name in names if name not in order]
    if any(wire.second == SWITCH for wire in wires):
        order.append(SWITCH)
    shape = plan.get("shape")
    box = box_width(order, width)
    between: dict[frozenset[str], int] = {}
    for wire in wires:
        between[frozenset((wire.first, wire.second))] = between.get(frozenset((wire.first, wire.second)), 0) + 1
    deepest = max(between.values(), default=1)
    if shape == "pair" or len(order) == 2:
        boxes = line_of(order, width, box, NODE_HEIGHT + PARALLEL_GAP * (deepest - 1))
    elif shape == "mesh" and len(order) == 3:
        boxes = triangle(order, width, box)
    elif shape == "ring":
        boxes = racetrack(order, width, box)
    else:
        boxes = circle(order, width, box)
    at = {one.name: one for one in boxes}
    seen: dict[frozenset[str], int] = {}
    crowded = shape not in ("pair", "mesh", "ring") and len(wires) > (18 if width == WIDE else 8)
    lines: list[dict[str, Any]] = []
    taken = [(one.x - one.width / 2, one.y - one.height / 2, one.x + one.width / 2, one.y + one.height / 2) for one in boxes]
    for wire in wires:
        key = frozenset((wire.first, wire.second))
        offset = (seen.get(key, 0) - (between[key] - 1) / 2) * (PARALLEL_GAP if len(order) == 2 else CLOSE_GAP)
        seen[key] = seen.get(key, 0) + 1
        first, second = at[wire.first], at[wire.second]
        upright = abs(first.x - second.x) < abs(first.y - second.y)
        shift = (0.0, offset) if not upright else (offset, 0.0)
        ends = [(one.x + shift[0], one.y + shift[1]) for one in (first, second)]
        kind = "line" if shape == "ring" and upright or width == WIDE and shape == "pair" else "stack"
        # Labels of cables beside each other stand apart along them.
        place = (seen[key] - 0.5) / between[key] * 0.8 + 0.1 if between[key] > 1 and len(order) > 2 else None
        lines.append(line(wire, first, second, ends[0], ends[1], kind, crowded and wire.status == "pass", taken, place))
    return boxes, lines


def line_of(order: list[str], width: float, box: float, height: float) -> list[Box]:
    """Put two nodes beside each other."""
    span = min(width, 560.0)
    return [Box(name, 8 + box / 2 if place == 0 else span - 8 - box / 2, 14 + height / 2, box, height) for place, name in enumerate(order)]


def triangle(order: list[str], width: float, box: float) -> list[Box]:
    """Put three nodes at the corners of a triangle."""
    span, tall = (520.0, 270.0) if width == WIDE else (width, 270.0)
    spots = ((span / 2, 26.0), (8 + box / 2, tall), (span - 8 - box / 2, tall))
    return [Box(name, x, y, box) for name, (x, y) in zip(order, spots)]


def racetrack(order: list[str], width: float, box: float) -> list[Box]:
    """Put a ring into two columns, down the left and up the right."""
    left, right = order[: math.ceil(len(order) / 2)], order[math.ceil(len(order) / 2) :]
    pitch = 100.0
    tall = pitch * (len(left) - 1)
    span = 560.0 if width == WIDE else width
    margin = 12 + max(box, 140.0) / 2
    boxes = [Box(name, margin, 26 + pitch * place, box) for place, name in enumerate(left)]
    step = tall / (len(right) - 1) if len(right) > 1 else 0.0
    boxes += [Box(name, span - margin, 26 + tall - (step * place if step else tall / 2), box) for place, name in enumerate(right)]
    return boxes


def circle(order: list[str], width: float, box: float) -> list[Box]:
    """Put nodes round a circle, the switch in its middle."""
    outer = [name for name in order if name != SWITCH]
    across = max(width, len(outer) * (box + 6) / math.pi + box + 16)
    tall = across * (0.72 if width == WIDE else 1.3)
    boxes = []
    for place, name in enumerate(outer):
        angle = 2 * math.pi * place / len(outer) - math.pi / 2
        boxes.append(Box(name, across / 2 + (across / 2 - box / 2 - 8) * math.cos(angle), tall / 2 + (tall / 2 - 26) * math.sin(angle), box))
    if SWITCH in order:
        boxes.append(Box(SWITCH, across / 2, tall / 2, box))
    return boxes


def line(
    wire: Wire, first: Box, second: Box, start: Point, end: Point, kind: str, hidden: bool = False, taken: list[Area] | None = None, place: float | None = None
) -> dict[str, Any]:
    """Return a cable's two rails, its ports and its label, between two points within its boxes."""
    one, two = first.edge(end, start), second.edge(start, end)
    length = math.dist(one, two) or 1.0
    across = (-(two[1] - one[1]) / length * RAIL_GAP, (two[0] - one[0]) / length * RAIL_GAP)
    if across[1] < -1e-6 or abs(across[1]) < 1e-6 and across[0] < 0:
        across = (-across[0], -across[1])  # rail a above, or left of, rail b
    rails = []
    for number, row in enumerate(wire.rails):
        side = 0.0 if len(wire.rails) == 1 else (-1.0 if number == 0 else 1.0)
        shift = (across[0] * side, across[1] * side)
        rails.append({"x1": one[0] + shift[0], "y1": one[1] + shift[1], "x2": two[0] + shift[0], "y2": two[1] + shift[1], "status": row["status"]})
    ports = [{"x": spot[0], "y": spot[1], "text": str(port)} for spot, port in ((one, wire.first_port), (two, wire.second_port)) if port != ""]
    told = None if hidden else label(wire, one, two, kind, taken, place)
    return {"name": wire.name, "status": wire.status, "title": wire.title(), "rails": rails, "ports": ports, "label": told}


def label(wire: Wire, one: Point, two: Point, kind: str, taken: list[Area] | None, place: float | None) -> dict[str, Any]:
    """Return the label of a cable, on the cable and clear of what stands there already."""
    texts = [{"text": " ".join(part for part in (row["rail"], figure_text(row), SIGNS[row["status"]]) if part), "status": row["status"]} for row in wire.rails]
    longest = max((len(text["text"]) for text in texts), default=1)
    columns = len(texts) if kind == "line" else 1
    width = columns * (longest * CHARACTER + 8) + 4
    height = LINE_HEIGHT * (1 if kind == "line" else len(texts)) + 5
    areas = []
    for share in ((0.5, 0.4, 0.6, 0.32, 0.68) if place is None else (place, 0.5)):
        x, y = one[0] + (two[0] - one[0]) * share, one[1] + (two[1] - one[1]) * share
        areas.append((x - width / 2, y - height / 2, x + width / 2, y + height / 2))
    area = min(areas, key=lambda candidate: sum(overlap(candidate, other) for other in taken or ()))
    if taken is not None:
        taken.append(area)
    left, top = area[0], area[1]
    for number, text in enumerate(texts):
        column, row = (number, 0) if kind == "line" else (0, number)
        text.update(x=left + 2 + (column + 0.5) * (width - 4) / columns, y=top + 2.5 + LINE_HEIGHT * (row + 0.74))
    return {"x": left, "y": top, "width": width, "height": height, "texts": texts}


def overlap(one: Area, two: Area) -> float:
    """Return the area that two rectangles share."""
    return max(0.0, min(one[2], two[2]) - max(one[0], two[0])) * max(0.0, min(one[3], two[3]) - max(one[1], two[1]))


def drawing(boxes: list[Box], lines: list[dict[str, Any]], width: float, statuses: Mapping[str, str], links: Mapping[str, str]) -> dict[str, Any]:
    """Return a drawing with numbers rounded for the page; its size follows from what stands in it."""
    limit = NAME_LENGTH[NARROW if width <= NARROW else WIDE]
    nodes = [
        {
            "name": box.name,
            "text": box.name if len(box.name) <= limit else f"{box.name[: limit - 1]}…",
            "x": box.x - box.width / 2,
            "y": box.y - box.height / 2,
            "cx": box.x,
            "cy": box.y,
            "width": box.width,
            "height": box.height,
            "status": statuses.get(box.name, "skip"),
            "sign": SIGNS[statuses[box.name]] if box.name in statuses else "",
            "link": links.get(box.name),
            "upright": box.height > 2.5 * box.width,
        }
        for box in boxes
    ]
    right = max([node["x"] + node["width"] for node in nodes] + [one["label"]["x"] + one["label"]["width"] for one in lines if one["label"]] + [1.0])
    bottom = max([node["y"] + node["height"] for node in nodes] + [one["label"]["y"] + one["label"]["height"] for one in lines if one["label"]] + [1.0])
    return rounded({"width": right + 8, "height": bottom + 10, "narrow": width <= NARROW, "nodes": nodes, "cables": lines})


def rounded(value: Any) -> Any:
    """Return data with its numbers rounded to a tenth."""
    if isinstance(value, float):
        return round(value, 1)
    if isinstance(value, dict):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [rounded(entry) for entry in value]
    return value
