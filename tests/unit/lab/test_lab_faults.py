# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults follow from data, add up, and vanish when they are dropped."""

from __future__ import annotations

import pytest

from sparklab import faults, network, wiring
from sparklab.errors import LabError

MESH = wiring.make_wiring("mesh", 3)
SWITCH = wiring.make_wiring("switch", 3)


def test_without_faults_only_unused_ports_have_no_carrier() -> None:
    assert faults.wanted(MESH, []).unplugged == set()
    unplugged = faults.wanted(SWITCH, []).unplugged
    assert unplugged == {(node, card) for node in (1, 2, 3) for card in ("p0a", "p0b")}


def test_both_twins_of_both_ends_share_one_bridge() -> None:
    bridges = faults.wanted(MESH, []).bridges
    assert {tap for tap, bridge in bridges.items() if bridge == "c1"} == {"s1p0a", "s1p0b", "s2p1a", "s2p1b"}


def test_a_cut_takes_the_carrier_at_both_ends() -> None:
    fault = faults.make(MESH, "cut", cable="1")
    assert faults.wanted(MESH, [fault]).unplugged == {(1, "p0a"), (1, "p0b"), (2, "p1a"), (2, "p1b")}


def test_a_twin_goes_down_alone() -> None:
    fault = faults.make(MESH, "twin-down", node="spark3", interface="enP2p1s0f1np1")
    assert faults.wanted(MESH, [fault]).unplugged == {(3, "p1b")}


def test_a_swap_exchanges_the_plugs_at_the_common_node() -> None:
    fault = faults.make(MESH, "swap", cable="spark1:0-spark2:1", other="spark2:0-spark3:1")
    assert fault["ends"] == ["spark2:1", "spark2:0"]
    before, after = faults.wanted(MESH, []).bridges, faults.wanted(MESH, [fault]).bridges
    assert (after["s2p1a"], after["s2p0b"]) == (before["s2p0a"], before["s2p1b"])
    changed = {tap for tap in before if before[tap] != after[tap]}
    assert changed == {"s2p0a", "s2p0b", "s2p1a", "s2p1b"}


def test_a_swap_of_cables_without_a_common_node_exchanges_far_ends() -> None:
    ring = wiring.make_wiring("ring", 4)
    fault = faults.make(ring, "swap", cable="spark1:0-spark2:1", other="spark3:0-spark4:1")
    assert fault["ends"] == ["spark2:1", "spark4:1"]


def test_directions_filter_at_the_receiver() -> None:
    both = faults.make(MESH, "mtu", cable="1", size="1500")
    assert faults.wanted(MESH, [both]).rules == ["oifname { s1p0a, s1p0b, s2p1a, s2p1b } meta length > 1500 counter drop"]
    one = faults.make(MESH, "loss", cable="1", percent="0.5%", sender="spark1")
    assert faults.wanted(MESH, [one]).rules == ["oifname { s2p1a, s2p1b } numgen random mod 10000 < 50 counter drop"]


def test_the_switch_is_an_end_like_any_other() -> None:
    up = faults.make(SWITCH, "rate", cable="2", rate="10mbit", sender="spark2")
    assert faults.wanted(SWITCH, [up]).rates == {"w2": "10mbit"}
    down = faults.make(SWITCH, "rate", cable="2", rate="10mbit", sender="switch")
    assert faults.wanted(SWITCH, [down]).rates == {"s2p1a": "10mbit", "s2p1b": "10mbit"}


def test_shapers_that_are_no_more_wanted_are_removed() -> None:
    fault = faults.make(MESH, "rate", cable="1", rate="50mbit", sender="spark2")
    present = [{"kind": "tbf", "dev": "s3p0a"}, {"kind": "fq_codel", "dev": "m1"}]
    assert network.shaper_commands(faults.wanted(MESH, [fault]), present) == [
        "qdisc replace dev s1p0a root tbf rate 50mbit burst 1mb limit 16mb",
        "qdisc replace dev s1p0b root tbf rate 50mbit burst 1mb limit 16mb",
        "qdisc del dev s3p0a root",
    ]


def test_faults_add_up_and_can_be_dropped_in_any_order() -> None:
    several = [
        faults.make(MESH, "cut", cable="2"),
        faults.make(MESH, "kill", node="2"),
        faults.make(MESH, "swap", cable="1", other="2"),
        faults.make(MESH, "mtu", cable="3", size="2000"),
    ]
    wanted = faults.wanted(MESH, several)
    assert wanted.killed == {2} and wanted.rules and len(wanted.unplugged) == 4
    assert faults.wanted(MESH, several[:1]) == faults.wanted(MESH, [fault for fault in several if fault["kind"] == "cut"])
    assert all(faults.describe(fault) for fault in several)


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        ("cut", {"cable": "9"}, "its cables are 1: spark1:0-spark2:1"),
        ("kill", {"node": "spark9"}, "its nodes are spark1, spark2, spark3"),
        ("twin-down", {"node": "1", "interface": "eth0"}, "enP2p1s0f1np1"),
        ("mtu", {"cable": "1", "size": "big"}, "not an MTU"),
        ("rate", {"cable": "1", "rate": "50"}, "50mbit"),
        ("loss", {"cable": "1", "percent": "101"}, "0.01 to 100"),
        ("loss", {"cable": "1", "percent": "1", "sender": "spark3"}, "ends at spark1 and spark2"),
        ("swap", {"cable": "1", "other": "1"}, "two cables"),
    ],
)
def test_errors_say_what_there_is(kind: str, values: dict, words: str) -> None:
    with pytest.raises(LabError, match=words):
        faults.make(MESH, kind, **values)


def test_a_swap_on_the_switch_would_change_nothing() -> None:
    with pytest.raises(LabError, match="nothing would change"):
        faults.make(SWITCH, "swap", cable="1", other="2")


def test_the_devices_of_a_switch_are_made_before_they_are_used() -> None:
    lines = network.setup_commands(SWITCH)
    assert lines.index("link add w1 mtu 9216 type veth peer name x1 mtu 9216") < lines.index("link set x1 master switch up")
    assert sum(line.startswith("tuntap add") for line in lines) == 15
    assert "delete table bridge lldp" in network.lldp_rules(SWITCH)
