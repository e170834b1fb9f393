# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The switch and cabling sheet: what the plan fills in, on every topology."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan import make_plan
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.switch_sheet import switch_documents, switch_sheet

MIXED = [{"a": "spark1:0", "b": "spark2:1"}, {"a": "spark2:0", "b": "switch"}, {"a": "spark3:0", "b": "switch"}]
PLANS: dict[str, tuple[int, dict[str, Any]]] = {
    "pair": (2, {"fabric_topology": "pair"}),
    "mesh": (3, {"fabric_topology": "mesh"}),
    "ring": (4, {"fabric_topology": "ring"}),
    "switch": (6, {"fabric_topology": "switch"}),
    "two ports": (4, {"fabric_topology": "switch", "fabric_ports": [0, 1]}),
    "mixed": (3, {"fabric_topology": "custom", "fabric_cables": MIXED}),
}
LINKS = {"pair": 2, "mesh": 3, "ring": 4, "switch": 6, "two ports": 8, "mixed": 2}


def plan_of(count: int, **common: Any) -> dict[str, Any]:
    return make_plan({f"spark{number}": {"ansible_host": f"10.77.0.{number}", **common} for number in range(1, count + 1)})


def rows_of(plan: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {row["item"]: row for section in switch_sheet(plan)["sections"] for row in section["rows"]}


def costs_of(plan: dict[str, Any]) -> dict[str, str]:
    return {cost["item"]: cost["quantity"] for cost in switch_sheet(plan)["costs"]}


class Page(HTMLParser):
    """What a page opens and loads."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link"):
            self.open.append(tag)
        self.loads += [str(value) for name, value in attrs if name in ("src", "href") and value != "data:,"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", list(PLANS))
def test_every_topology_fills_in_ports_and_asks_the_rest(name: str) -> None:
    count, common = PLANS[name]
    plan = plan_of(count, **common)
    rows = rows_of(plan)
    assert rows["ports for the nodes"]["known"] == str(LINKS[name])
    assert rows["least ports in all"]["known"].startswith(f"{LINKS[name] + 1} and")
    assert rows["MTU"]["known"].startswith("9000 on the nodes (RoCE 4096); frames of 9022 bytes")
    assert all(row["known"] or row["ask"] for row in rows.values())
    for asked in ("storage", "PFC", "ECN", "queues", "buffers", "support", "breakout", "single port at 200G", "speed of a port"):
        assert rows[asked]["ask"].endswith("?")
    documents = switch_documents(plan)
    assert set(documents) == {"switch.md", "switch.html"}
    for row in rows.values():
        assert f"| {row['item']} | {row['known']} | {row['ask']} | |" in documents["switch.md"]


@pytest.mark.parametrize("name", list(PLANS))
def test_documents_are_whole(name: str) -> None:
    count, common = PLANS[name]
    documents = switch_documents(plan_of(count, **common))
    page = Page()
    page.feed(documents["switch.html"])
    assert page.open == [] and page.loads == [] and "<script" not in documents["switch.html"]
    assert not re.search(r"\{[{%]|None|Undefined", documents["switch.md"] + documents["switch.html"])
    for table in re.findall(r"(?:^\|.*\n)+", documents["switch.md"], re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1


def test_cables_and_spares() -> None:
    assert costs_of(plan_of(6, fabric_topology="switch"))["cables of 200 Gb/s"] == "6"
    assert costs_of(plan_of(6, fabric_topology="switch"))["spare cables"] == "1"
    assert costs_of(plan_of(11, fabric_topology="switch"))["spare cables"] == "2"
    mixed = switch_sheet(plan_of(3, fabric_topology="custom", fabric_cables=MIXED))
    assert [cable["to"] for cable in mixed["cables"]].count("the switch") == 2 and len(mixed["cables"]) == 3
    assert "2 cables to the switch and 1 cable from node to node" in mixed["summary"]
    ring = switch_sheet(plan_of(4, fabric_topology="ring"))
    assert "no switch" in ring["summary"] and [cable["to"] for cable in ring["cables"]] == ["the switch"] * 4


def test_redundancy_breakout_buffers_and_rework() -> None:
    rows = rows_of(plan_of(6, fabric_topology="switch"))
    assert rows["redundancy: a second cable a node, to a second switch"]["known"].startswith("6 more, 12 in all; it adds no bandwidth")
    assert rows["breakout"]["known"] == "3 ports of 400G as 2 x 200G; or 2 ports of 800G as 4 x 200G"
    assert rows["switching capacity"]["known"].startswith("2400 Gb/s")
    assert rows["buffers"]["known"].startswith("at worst 5 senders")
    assert rows["networks"]["known"].startswith("2 networks")
    both = rows_of(plan_of(4, fabric_topology="switch", fabric_ports=[0, 1]))
    assert both["redundancy: a second cable a node, to a second switch"]["known"].startswith("every node has it already")
    assert rows_of(plan_of(4, fabric_topology="ring"))["rework of this cluster"]["known"].startswith("4 cables out, 4 in")


@pytest.mark.parametrize(("speed", "reach", "breakout"),
                         [(200, "3 m", "3 ports of 400G as 2 x 200G"), (100, "5 m", "2 ports of 400G as 4 x 100G"), (50, None, "")])
def test_reach_follows_the_speed_and_is_asked_where_unknown(speed: int, reach: str | None, breakout: str) -> None:
    plan = plan_of(6, fabric_topology="switch", fabric_link_gbps=speed)
    sheet = switch_sheet(plan)
    assert [row["reach"] for row in sheet["reach"] if row["kind"].startswith("DAC")] == ([reach] if reach else [])
    assert rows_of(plan)["breakout"]["known"].partition(";")[0] == breakout and rows_of(plan)["breakout"]["ask"]
    assert ("No reach is known here at 50 Gb/s" in switch_documents(plan)["switch.md"]) is (reach is None)
