# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's topologies, cable names and errors."""

from __future__ import annotations

import pytest

from sparklab import wiring
from sparklab.errors import LabError


def names(made: wiring.Wiring) -> list[str]:
    return [cable.name for cable in made.cables]


def test_pair_joins_both_ports_one() -> None:
    assert names(wiring.make_wiring("pair", None)) == ["spark1:1-spark2:1"]


def test_mesh_joins_port_zero_to_port_one_of_the_next() -> None:
    made = wiring.make_wiring("mesh", 3)
    assert names(made) == ["spark1:0-spark2:1", "spark1:1-spark3:0", "spark2:0-spark3:1"]
    assert all(cable.b and cable.a.port != cable.b.port for cable in made.cables)


def test_ring_in_another_order() -> None:
    made = wiring.make_wiring("ring", 4, (1, 2, 4, 3))
    assert names(made) == ["spark1:0-spark2:1", "spark1:1-spark3:0", "spark2:0-spark4:1", "spark3:1-spark4:0"]
    assert made.order == (1, 2, 4, 3)


@pytest.mark.parametrize("count", range(3, wiring.MAX_NODES + 1))
def test_every_ring_uses_every_port_once(count: int) -> None:
    made = wiring.make_wiring("ring", count)
    assert len(made.cables) == count
    assert set(made.cabled()) == {wiring.End(node, port) for node in made.numbers for port in (0, 1)}


def test_switch_uses_port_one_of_every_node() -> None:
    assert names(wiring.make_wiring("switch", 3)) == ["spark1:1-switch", "spark2:1-switch", "spark3:1-switch"]


def test_cables_of_ones_own_are_named_from_the_lower_node() -> None:
    made = wiring.make_wiring(None, None, (), ("spark3:1-spark1:0", "spark2:1-switch"))
    assert names(made) == ["spark1:0-spark3:1", "spark2:1-switch"]
    assert (made.topology, made.nodes) == ("custom", 3)


@pytest.mark.parametrize("text", ["2", "spark1:1-spark3:0", "spark3:0-spark1:1"])
def test_a_cable_is_found_by_number_and_by_either_end(text: str) -> None:
    assert wiring.make_wiring("mesh", 3).find(text).name == "spark1:1-spark3:0"


def test_a_wrong_cable_lists_the_cables() -> None:
    with pytest.raises(LabError, match="spark1:0-spark2:1.*spark2:0-spark3:1"):
        wiring.make_wiring("mesh", 3).find("spark1:0-spark3:1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("mesh", 4), "mesh has 3 nodes, not 4"),
        (("pair", 3), "pair has 2 nodes, not 3"),
        (("ring", 9), "3 to 8"),
        (("switch", 1), "2 to 8"),
        (("star", 3), "choose one of"),
        (("pair", 2, (2, 1)), "has none"),
        (("ring", 4, (1, 2, 2, 3)), "each node from 1 to 4 once"),
        ((None, None, (), ("spark1:0-spark1:1",)), "to itself"),
        ((None, None, (), ("spark1:2-spark2:1",)), "'spark1:2' is no end"),
        ((None, None, (), ("spark1:0",)), "write spark1:0-spark2:1"),
        ((None, None, (), ("spark1:0-spark2:0", "spark2:0-spark3:1")), "port spark2:0 is in two cables"),
        ((None, 2, (), ("spark1:0-spark3:0",)), "need 3 to 8 nodes"),
    ],
)
def test_errors_say_what_is_wrong(arguments: tuple, words: str) -> None:
    with pytest.raises(LabError, match=words):
        wiring.make_wiring(*arguments)
