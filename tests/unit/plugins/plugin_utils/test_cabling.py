# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cabling as it was found: its shape, what contradicts the plan and which plug to move, the map, and the inventory of it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cabling_compare import compare, contradictions
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cabling_map import found_shape, map_lines
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cabling_seen import SeenCabling, seen_cabling
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.discovered_inventory import Discovered
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.judge import judge
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan import make_plan
from ansible_collections.dgxspark.fabric.tests.unit.fuzzing import examples
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy, wired

MESH = [("spark1:0", "spark2:1"), ("spark1:1", "spark3:0"), ("spark2:0", "spark3:1")]
RING = [("spark1:0", "spark2:1"), ("spark1:1", "spark4:0"), ("spark2:0", "spark3:1"), ("spark3:0", "spark4:1")]
PAIR = [("spark1:1", "spark2:1")]


def names(count: int) -> list[str]:
    return [f"spark{number}" for number in range(1, count + 1)]


def seen(count: int, wires: Any, **faults: Any) -> SeenCabling:
    return seen_cabling(wired.neighbours(names(count), wires, **faults))


def wrongs(topology: str, count: int, wires: Any, **faults: Any) -> list[str]:
    return contradictions(compare(healthy.plan_of(topology, count), seen(count, wires, **faults)))


@pytest.mark.parametrize(("count", "wires", "shape", "cables"), [
    (2, PAIR, "pair", 1),
    (2, [("spark1:0", "spark2:0"), ("spark1:1", "spark2:1")], "pair", 2),
    (2, [("switch", "spark1:1", "spark2:1")], "switch", 2),
    (3, MESH, "mesh", 3),
    (4, RING, "ring", 4),
    (4, [("switch", *(f"spark{number}:1" for number in range(1, 5)))], "switch", 4),
    (4, [("spark1:1", "spark2:1", "spark3:1", "spark4:1")], "switch", 4),  # one that forwards LLDP
    (4, RING[:3], "graph", 3),
    (4, [("switch", "spark1:1", "spark2:1", "spark3:1"), ("spark3:0", "spark4:0")], "mix", 4),
    (3, [], "none", 0),
    (3, [("spark1:0", "spark1:1")], "none", 0),
])
def test_shapes(count: int, wires: Any, shape: str, cables: int) -> None:
    found = seen(count, wires)
    assert found_shape(found) == shape and len(found.cables()) == cables


@pytest.mark.parametrize(("topology", "count"), [("pair", 2), ("mesh", 3), ("ring", 4), ("ring", 7), ("switch", 2), ("switch", 5)])
def test_a_cabling_as_planned(topology: str, count: int) -> None:
    plan = healthy.plan_of(topology, count)
    found = seen(count, wired.planned_wires(plan))
    verdicts = compare(plan, found)
    assert contradictions(verdicts) == [] and not any(verdict.silent for verdict in verdicts)
    assert map_lines(found, verdicts)[-1] == "Every cable is where the plan has it."


# topology, nodes, wires as they are, words of the one contradiction, words of the instruction
WRONG: list[tuple[str, int, list[Any], str, str]] = [
    ("mesh", 3, [("spark1:0", "spark2:0"), ("spark1:1", "spark3:0"), ("spark2:1", "spark3:1")],
     "spark2 port 0 and spark2 port 1 are swapped", "Exchange the two plugs at spark2."),
    ("ring", 4, [("spark1:1", "spark2:1"), ("spark1:0", "spark4:0"), RING[2], RING[3]],
     "spark1 port 0 and spark1 port 1 are swapped", "Exchange the two plugs at spark1."),
    ("ring", 4, [("spark1:0", "spark3:1"), ("spark2:0", "spark2:1"), RING[1], RING[3]],
     "cable 1 (spark1:0-spark2:1) goes from spark1 port 0 to spark3 port 1, expected spark2 port 1",
     "Exchange the two plugs at spark2 port 1 and spark3 port 1."),
    ("ring", 5, [("spark1:0", "spark4:1"), ("spark1:1", "spark5:0"), ("spark2:0", "spark3:1"), ("spark3:0", "spark2:1"), ("spark4:0", "spark5:1")],
     "spark2 port 1 and spark4 port 1 are swapped", "Exchange the two plugs at spark2 port 1 and spark4 port 1."),
    ("ring", 4, [RING[0], RING[1], ("spark2:0", "spark4:1")],
     "cable 3 (spark2:0-spark3:1) goes from spark2 port 0 to spark4 port 1, expected spark3 port 1", "Move the plug at spark4 port 1 to spark3 port 1."),
    ("pair", 2, [("spark1:1", "spark2:0")],
     "cable 1 (spark1:1-spark2:1) is in port 0 of spark2, expected port 1 (it comes from spark1 port 1)", "Move the plug at spark2 from port 0 to port 1."),
    ("mesh", 3, [("spark1:0", "spark1:1"), MESH[2]],
     "cable 1 (spark1:0-spark2:1): spark1 port 0 is joined to spark1 port 1, a port of the same node", "Move the plug at spark1 port 1 to spark2 port 1."),
    ("mesh", 3, [("switch", *(f"spark{node}:{port}" for node in (1, 2, 3) for port in (0, 1)))],
     "spark1 port 0 is on a switch, together with spark1 port 1, spark2 port 0", "Join spark1 port 0 and spark2 port 1 by one cable"),
    ("switch", 4, [("switch", "spark1:1", "spark2:1", "spark3:1"), ("spark4:1", "spark3:0")],
     "cable 4 (spark4:1-switch): spark4 port 1 is joined by a cable to spark3 port 0", "Take the cable at spark4 port 1 to the switch"),
    ("switch", 4, [("switch", "spark1:1", "spark2:1"), ("switch", "spark3:1", "spark4:1")],
     "spark1 port 1 does not hear spark3 port 1, spark4 port 1", "one bridge and one VLAN"),
]


@pytest.mark.parametrize(("topology", "count", "wires", "words", "fix"), WRONG)
def test_wrong_cabling_is_told_in_plugs(topology: str, count: int, wires: Any, words: str, fix: str) -> None:
    found = wrongs(topology, count, wires)
    assert words in found[0] and fix in found[0], found


def test_one_cable_is_moved_once() -> None:
    found = wrongs("ring", 4, [RING[0], RING[1], ("spark2:0", "spark4:1")])
    assert found[1:] == ["cable 4 (spark3:0-spark4:1) was not found: at spark4 port 1 is the plug of cable 3 (spark2:0-spark3:1). "
                         "Put cable 3 (spark2:0-spark3:1) right first, then join spark3 port 0 and spark4 port 1."]


def test_three_plugs_in_a_circle_are_moved_one_after_the_other() -> None:
    plan = healthy.plan_of("mesh", 3, fabric_ring_order=["spark1", "spark3", "spark2"])
    found = contradictions(compare(plan, seen(3, MESH)))
    assert found[1] == ("cable 2 (spark1:0-spark3:1) goes from spark3 port 1 to spark2 port 0, expected spark1 port 0. "
                        "Take out the cable at spark1 port 0, which goes to spark2 port 1, then move the plug at spark2 port 0 to spark1 port 0.")
    assert len(found) == 3 and not any("was not found" in text for text in found)


PLUGS = [f"{node}:{port}" for node in names(5) for port in (0, 1)]


@st.composite
def cablings(draw: Any) -> list[tuple[str, ...]]:
    """Draw any cabling of five nodes: some plugs on a switch, some joined two by two, the rest free."""
    plugs = draw(st.permutations(PLUGS))
    on_switch = draw(st.integers(0, 5))
    pairs = draw(st.integers(0, (len(plugs) - on_switch) // 2))
    rest = plugs[on_switch:]
    wires = [("switch", *plugs[:on_switch])] if on_switch > 1 else []
    return wires + [(rest[2 * place], rest[2 * place + 1]) for place in range(pairs)]


@examples(60, share=0.02)
@given(cablings())
def test_any_cabling_gives_an_inventory_whose_plan_it_is(wires: list[tuple[str, ...]]) -> None:
    found = seen(5, wires)
    try:
        made = Discovered(found, facts_of(5), hosts(5))
    except FabricError:
        assert found_shape(found) == "none"
        return
    if any("not yet ready" in note for note in made.notes):
        return
    spark = yaml.safe_load(made.text)["spark"]
    plan = make_plan({host: {**spark["vars"], **(variables or {})} for host, variables in spark["hosts"].items()})
    assert contradictions(compare(plan, found)) == []


@examples(60, share=0.02)
@given(cablings(), st.sampled_from([("ring", 5), ("switch", 5), ("mesh", 3), ("pair", 2)]), st.sets(st.sampled_from(PLUGS), max_size=3))
def test_any_cabling_is_compared_with_any_plan(wires: list[tuple[str, ...]], planned: tuple[str, int], dead: set[str]) -> None:
    plan = healthy.plan_of(*planned)
    found = seen(5, wires, deaf={f"{plug}/b" for plug in dead}, down={f"{plug}/a" for plug in dead})
    verdicts = compare(plan, found)
    assert [verdict.name for verdict in verdicts] == [cable["name"] for cable in plan["cables"]]
    assert all(bool(verdict.wrong) == bool(verdict.fix) for verdict in verdicts)
    assert map_lines(found, verdicts)


def test_an_exchange_is_told_once_and_harms_no_other_cable() -> None:
    plan = healthy.plan_of("ring", 4)
    verdicts = compare(plan, seen(4, [("spark1:0", "spark2:0"), ("spark2:1", "spark3:1"), RING[1], RING[3]]))
    assert [bool(verdict.wrong) for verdict in verdicts] == [True, False, True, False]
    assert len(contradictions(verdicts)) == 1


def test_a_stranger_at_the_other_end() -> None:
    facts = wired.neighbours(names(2), [])
    for rail in ("enp1s0f1np1", "enP2p1s0f1np1"):
        facts["spark1"]["interfaces"][rail].update(
            carrier=True, strangers=[{"node": "alien", "cluster": "attic", "interface": rail, "mac": "02:00:00:00:ff:01"}])
    text = contradictions(compare(healthy.plan_of("pair", 2), seen_cabling(facts)))
    assert text == ["cable 1 (spark1:1-spark2:1): spark1 port 1 is joined to alien of cluster attic; expected spark2 port 1. "
                    "Take the far end of the cable at spark1 port 1 to spark2 port 1."]


def test_a_broken_off_run_of_the_same_cluster_is_no_stranger() -> None:
    facts = wired.neighbours(names(2), PAIR)
    facts["spark1"]["interfaces"]["enp1s0f0np0"]["strangers"] = [{"node": "spark2", "cluster": "spark", "interface": "x", "mac": "x"}]
    assert seen_cabling(facts).ports[min(seen_cabling(facts).ports)].strangers == ()


def test_a_switch_between_two_nodes_instead_of_a_cable_is_no_contradiction() -> None:
    assert wrongs("pair", 2, [("switch", "spark1:1", "spark2:1")]) == []
    assert wrongs("switch", 2, PAIR) == []


def test_nodes_that_were_not_probed_accuse_nobody() -> None:
    facts = wired.neighbours(names(3), MESH)
    alone = {"spark1": facts["spark1"]}
    verdicts = compare(healthy.plan_of("mesh", 3), seen_cabling(alone))
    assert contradictions(verdicts) == [] and not any(verdict.silent for verdict in verdicts)
    assert [verdict.probed for verdict in verdicts] == [True, True, False]


@pytest.mark.parametrize(("faults", "silent"), [
    ({"deaf": ["spark1:0/b"]}, {"b": ("spark1 enP2p1s0f0np0",)}),
    ({"deaf": ["spark1:0/a", "spark1:0/b"]}, {rail: (f"spark1 {wired.interface(0, rail)}", f"spark2 {wired.interface(1, rail)}") for rail in ("a", "b")}),
    ({"down": ["spark1:0/b"]}, {}),
    ({"down": ["spark1:0/a", "spark1:0/b", "spark2:1/a", "spark2:1/b"]}, {}),
    ({"off": ["spark2:1/a", "spark2:1/b"], "down": ["spark1:0/a", "spark1:0/b"]}, {}),
])
def test_rails_that_hear_nobody(faults: Any, silent: Any) -> None:
    assert compare(healthy.plan_of("mesh", 3), seen(3, MESH, **faults))[0].silent == silent


def test_map_of_a_faulty_mesh() -> None:
    plan = healthy.plan_of("mesh", 3)
    found = seen(3, MESH, deaf=["spark1:0/b"], off=["spark3:1/a", "spark3:1/b"], down=["spark2:0/a", "spark2:0/b"])
    assert map_lines(found, compare(plan, found), {"spark9": "cannot be reached"}) == [
        "Cabling found: a cabling of its own kind; 3 nodes, 2 cables.",
        "  spark1 port 0 (rail b hears nobody) -- spark2 port 1",
        "  spark1 port 1 -- spark3 port 0",
        "  spark2 port 0: no link",
        "  spark3 port 1: admin down, not probed",
        "  spark9 was not probed: cannot be reached",
        "Rail b of cable 1 (spark1:0-spark2:1) hears nobody at spark1 enP2p1s0f0np0: cable or port, not configuration.",
        "Cable 3 (spark2:0-spark3:1): spark3 port 1: admin down, not probed.",
    ]


def test_lldp_is_a_second_witness() -> None:
    facts = wired.neighbours(names(2), PAIR)
    facts["spark1"]["lldp"] = [
        {"interface": "enp1s0f1np1", "system": "spark2", "port": "enp1s0f0np0", "mac": wired.mac("spark2", 0, "a", names(2)), "bridge": False},
        {"interface": "enP2p1s0f1np1", "system": "crs812", "port": "qsfp3", "mac": None, "bridge": True}]
    notes = [line for line in map_lines(seen_cabling(facts)) if "note" in line]
    assert notes == ["  note: lldpd at spark1 port 1 names spark2 port 0, the probe does not hear it (lldpd remembers for up to two minutes)",
                     "  note: lldpd at spark1 port 1 sees the switch crs812 qsfp3"]


# --- the inventory of a cabling ---

def hosts(count: int) -> dict[str, dict[str, Any]]:
    return {node: {"ansible_host": f"10.77.0.{place}", "ansible_user": "nvidia", "ansible_password": "secret"} for place, node in enumerate(names(count), 11)}


def facts_of(count: int, addresses: dict[str, str] | None = None, **live: Any) -> dict[str, Any]:
    """Return fabric_node facts in which interfaces ("spark1:1/a") have addresses."""
    nodes: dict[str, Any] = {}
    for node in names(count):
        interfaces = {}
        for port in wired.PORTS:
            for rail in wired.RAILS:
                address = (addresses or {}).get(f"{node}:{port}/{rail}")
                interfaces[wired.interface(port, rail)] = {"addresses": [address] if address else [], "mtu": 9000, "speed_mbps": 200000, **live}
        nodes[node] = {"interfaces": interfaces, "management": {"interface": "enP7s7", "address": "10.77.0.1", "source": "ssh"}}
    return nodes


def discovered(count: int, wires: Any, addresses: dict[str, str] | None = None, **live: Any) -> tuple[Discovered, dict[str, Any]]:
    """Return the discovery, and the plan of the inventory that it wrote."""
    found = Discovered(seen(count, wires), facts_of(count, addresses, **live), hosts(count))
    spark = yaml.safe_load(found.text)["spark"]
    return found, make_plan({host: {**spark["vars"], **(variables or {})} for host, variables in spark["hosts"].items()})


@pytest.mark.parametrize(("count", "wires", "topology", "extra"), [
    (2, PAIR, "pair", {}),
    (2, [("spark1:0", "spark2:1")], "pair", {}),
    (3, MESH, "mesh", {}),
    (3, [("spark1:0", "spark3:1"), ("spark3:0", "spark2:1"), ("spark2:0", "spark1:1")], "mesh", {"fabric_ring_order": ["spark1", "spark3", "spark2"]}),
    (4, RING, "ring", {}),
    (4, [("spark1:0", "spark2:1"), ("spark2:0", "spark4:1"), ("spark4:0", "spark3:1"), ("spark3:0", "spark1:1")], "ring",
     {"fabric_ring_order": ["spark1", "spark2", "spark4", "spark3"]}),
    (4, [("spark1:0", "spark2:0"), ("spark2:1", "spark3:0"), ("spark3:1", "spark4:0"), ("spark4:1", "spark1:1")], "custom", {}),
    (3, [("switch", "spark1:1", "spark2:1", "spark3:0")], "switch", {}),
    (4, [("switch", "spark1:1", "spark2:1", "spark3:1"), ("spark3:0", "spark4:0")], "custom", {}),
])
def test_a_written_inventory_plans_what_was_found(count: int, wires: Any, topology: str, extra: dict[str, Any]) -> None:
    found, plan = discovered(count, wires)
    assert plan["topology"] == topology and found.notes == []
    assert {verdict.wrong for verdict in compare(plan, seen(count, wires))} == {""}
    document = yaml.safe_load(found.text)["spark"]
    assert {name: document["vars"].get(name) for name in extra} == extra
    assert document["vars"]["fabric_management_interface"] == "enP7s7" and "secret" not in found.text


def test_what_hosts_share_and_who_they_are_is_kept() -> None:
    inventory = hosts(2)
    for place, variables in enumerate(inventory.values(), 1):
        variables.update(fabric_node_number=10 * place, fabric_cluster_name="attic")
    found = Discovered(seen(2, PAIR), facts_of(2), inventory)
    document = yaml.safe_load(found.text)["spark"]
    assert document["hosts"]["spark2"] == {"ansible_host": "10.77.0.12", "fabric_node_number": 20}
    assert document["vars"] == {"fabric_cluster_name": "attic", "fabric_management_interface": "enP7s7", "ansible_user": "nvidia", "fabric_topology": "pair"}


def test_live_addresses_are_kept_as_they_are() -> None:
    addresses = {"spark1:1/a": "192.168.100.10/24", "spark2:1/a": "192.168.100.11/24", "spark1:1/b": "192.168.101.10/24", "spark2:1/b": "192.168.101.11/24"}
    found, plan = discovered(2, PAIR, addresses, mtu=1500, speed_mbps=100000)
    assert found.notes == [] and not plan["cables"][0]["managed"]
    assert plan["nodes"]["spark2"]["interfaces"]["enP2p1s0f1np1"]["address"] == "192.168.101.11"
    assert (plan["mtu"], plan["link_gbps"]) == (1500, 100)


def test_addresses_of_our_own_plan_need_no_list() -> None:
    addresses = {"spark1:1/a": "192.168.177.11/24", "spark2:1/a": "192.168.177.12/24", "spark1:1/b": "192.168.178.11/24", "spark2:1/b": "192.168.178.12/24"}
    assert discovered(2, PAIR, addresses)[1]["topology"] == "pair"


def test_addresses_that_cannot_stay_are_noted() -> None:
    addresses = {"spark1:1/a": "192.168.0.1/24", "spark2:1/a": "192.168.0.3/24", "spark1:1/b": "192.168.0.2/24", "spark2:1/b": "192.168.0.4/24"}
    found, plan = discovered(2, PAIR, addresses)
    assert plan["cables"][0]["managed"] and "the live addresses are not taken over" in found.notes[0]


def test_a_mesh_of_equal_ports_is_written_with_the_reason_against_it() -> None:
    found = Discovered(seen(3, [("spark1:0", "spark2:0"), ("spark2:1", "spark3:1"), ("spark3:0", "spark1:1")]), facts_of(3), hosts(3))
    assert "not yet ready to use" in found.notes[0] and "joins equal port numbers" in found.notes[0] and "# Note: " in found.text


def test_a_node_without_a_cable_is_left_out() -> None:
    found, plan = discovered(3, PAIR)
    assert found.notes == ["spark3 is left out: none of its ports hears another node"] and list(plan["nodes"]) == ["spark1", "spark2"]


def test_nothing_found_is_no_inventory() -> None:
    with pytest.raises(FabricError, match="plug in the cables and run discover again"):
        Discovered(seen(2, []), facts_of(2), hosts(2))


# --- findings ---

def judged(topology: str, count: int, wires: Any, **faults: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    data = healthy.healthy_run(copy.deepcopy(healthy.plan_of(topology, count)))
    data["neighbours"] = wired.neighbours(names(count), wires, **faults)
    for node, fact in data["neighbours"].items():
        for name, one in fact["interfaces"].items():
            if name in data["nodes"][node]["interfaces"]:
                data["nodes"][node]["interfaces"][name]["carrier"] = one["carrier"]
    for node, entries in data["paths"].items():
        for entry in entries:
            senders = data["neighbours"][entry["peer_node"]]["interfaces"][entry["peer_interface"]]["heard"]
            if (node, entry["interface"]) not in {(one["node"], one["interface"]) for one in senders}:
                entry.update(received=0, small_received=0, neighbour_mac=None)
    report = judge(data)
    return report, [one for one in report["findings"] if one["status"] in ("fail", "unknown", "warn")]


@pytest.mark.parametrize(("topology", "count", "wires", "words", "fix"), WRONG[:9])
def test_wrong_cabling_fails_in_layer_link_and_hides_the_rest(topology: str, count: int, wires: Any, words: str, fix: str) -> None:
    report, found = judged(topology, count, wires)
    assert {(one["id"], one["layer"], one["scope"]) for one in found if one["id"] != "link.carrier"} == {("link.cabling", "link", "cable")}
    assert any(words[1:] in one["message"] and fix in one["fix"] for one in found)
    wrong = {one["cable"] for one in found}
    assert {cable["name"] for cable in report["cables"] if cable["status"] != "pass"} == wrong


def test_a_deaf_rail_is_named_and_its_twin_passes() -> None:
    report, found = judged("mesh", 3, MESH, deaf=["spark1:0/b"])
    assert [(one["id"], one["subject"]) for one in found] == [("link.hears", "spark1:0-spark2:1/b")]
    assert "enP2p1s0f0np0" in found[0]["message"] and report["cables"][0]["rails"]["a"]["status"] == "pass"


def test_a_black_hole_is_found_below_the_path() -> None:
    _report, found = judged("pair", 2, PAIR, deaf=["spark1:1/a", "spark1:1/b"])
    assert [(one["id"], one["subject"]) for one in found] == [("link.hears", "spark1:1-spark2:1")]


def test_a_switch_that_filters_the_probe_but_passes_pings_is_healthy() -> None:
    data = healthy.healthy_run(healthy.plan_of("pair", 2))
    data["neighbours"] = wired.neighbours(names(2), PAIR, deaf=["spark1:1/a", "spark1:1/b"])
    assert judge(data)["verdict"]["status"] == "pass"


def test_a_report_without_a_probe_is_judged_as_before() -> None:
    data = healthy.healthy_run(healthy.plan_of("mesh", 3))
    del data["neighbours"]
    report = judge(data)
    assert report["verdict"]["status"] == "pass" and report["neighbours"] == {}
