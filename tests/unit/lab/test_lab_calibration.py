# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Calibration measures as many tests at once as a plan's rounds have."""

from __future__ import annotations

import pytest

from sparklab import calibration, wiring


@pytest.mark.parametrize(
    ("topology", "nodes", "counts"),
    [("pair", 2, [1, 2, 4, 1]), ("mesh", 3, [1, 2, 6, 2]), ("ring", 4, [1, 2, 8, 2, 4]), ("ring", 5, [1, 2, 10, 2, 4]), ("switch", 3, [1, 2, 6, 1]),
     ("switch", 4, [1, 2, 8, 2])],
)
def test_counts(topology: str, nodes: int, counts: list[int]) -> None:
    assert [len(group) for group in calibration.stages(wiring.make_wiring(topology, nodes))] == counts


@pytest.mark.parametrize(("topology", "nodes"), [("mesh", 3), ("ring", 4), ("ring", 7), ("switch", 5)])
def test_rounds_are_free_of_conflicts(topology: str, nodes: int) -> None:
    made = wiring.make_wiring(topology, nodes)
    groups = calibration.stages(made)
    directed, both = groups[2], groups[-1]
    assert all(test.bidirectional for test in both) and not any(test.bidirectional for test in directed)
    for side in ("client", "server"):
        uses = [(getattr(test, side).node, test.rail) for test in directed]
        assert len(set(uses)) == len(uses)
    ends = [end for test in both for end in (test.client, test.server)]
    rails = [(end.node, test.rail) for test in both for end in (test.client, test.server)]
    assert len(set(ends)) == len(ends) and len(set(rails)) == len(rails)


def test_both_ends_of_a_test_share_a_network_and_rails_do_not() -> None:
    made = wiring.make_wiring("ring", 4)
    cable = made.cables[2]
    assert cable.b
    networks = {
        (rail, calibration.fabric_address(end, rail, made).rsplit(".", 1)[0]) for rail in ("a", "b") for end in (cable.a, cable.b)
    }
    assert len(networks) == 2


def test_a_graph_without_a_path_is_not_measured() -> None:
    assert calibration.stages(wiring.make_wiring(None, 2, (), ("spark1:1-switch",))) == []


def test_rows_of_perftest() -> None:
    text = (
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        " 65536      378           0.000000            0.063728            0.000122\n"
        " 65536      690              0.00               0.12   \t\t     0.000228\n"
    )
    assert calibration.parse_rates(text) == [0.063728, 0.12]


def test_tests_without_a_result_have_the_last_word() -> None:
    row = " 65536      378           0.000000            0.063728            0.000122\n"
    output = f"== 18700\n header\n{row}== 18701\nFailed to modify QP 17 to RTR\n== 18702\n{row.replace('0.063728', '0.000000')}"
    assert calibration.silent_tests(output).split(" | ")[0] == "18701\nFailed to modify QP 17 to RTR"
    assert len(calibration.silent_tests(output).split(" | ")) == 2
    assert calibration.silent_tests(row) == "nothing"
