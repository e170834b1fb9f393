# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Topologies and addresses: the seed's files, the properties of every shape, and fabrics that keep their own addresses."""

from __future__ import annotations

import copy
import ipaddress
import json
import pathlib
import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan import make_plan
from ansible_collections.dgxspark.fabric.tests.unit.fuzzing import examples

SEED = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "seed"
TRIANGLE = [
    {
        "a": "spark1:0",
        "b": "spark2:1",
        "networks": {"a": "192.168.0.0/24", "b": "192.168.1.0/24"},
        "addresses": {"spark1": {"a": "192.168.0.1", "b": "192.168.1.1"}, "spark2": {"a": "192.168.0.2", "b": "192.168.1.2"}},
    },
    {
        "a": "spark1:1",
        "b": "spark3:0",
        "networks": ["192.168.2.0/24", "192.168.3.0/24"],
        "addresses": {"spark1:1": ["192.168.2.1", "192.168.3.1"], "spark3:0": ["192.168.2.2", "192.168.3.2"]},
    },
    {
        "a": "spark2:0",
        "b": "spark3:1",
        "networks": {"a": "192.168.4.0/24", "b": "192.168.5.0/24"},
        "addresses": {"spark2": ["192.168.4.1/24", "192.168.5.1/24"], "spark3": ["192.168.4.2", "192.168.5.2"]},
    },
]


def hosts(count: int, per_host: dict[str, dict[str, Any]] | None = None, **common: Any) -> dict[str, dict[str, Any]]:
    names = [f"spark{number}" for number in range(1, count + 1)]
    return {name: {"ansible_host": f"10.77.0.{place + 10}", **common, **(per_host or {}).get(name, {})} for place, name in enumerate(names)}


def note_ids(plan: dict[str, Any]) -> list[str]:
    return [note["id"] for note in plan["notes"]]


def check_invariants(plan: dict[str, Any]) -> None:
    """No two interfaces of a node share a network, segments have exactly the ends of their cables, nothing overlaps."""
    json.dumps(plan)
    ends = {cable["name"]: {(end["node"], end["port"]) for end in (cable["a"], cable["b"]) if end is not None} for cable in plan["cables"]}
    networks = []
    for segment in plan["segments"].values():
        expected = {end for name in segment["cables"] for end in ends[name]}
        assert len(segment["members"]) == len(expected)
        for member in segment["members"]:
            interface = plan["nodes"][member["node"]]["interfaces"][member["interface"]]
            assert (member["node"], interface["port"]) in expected
            assert interface["rail"] == segment["rail"] and interface["segment"] == segment["name"]
            assert interface["address"] == member["address"]
            if member["address"] is not None:
                assert ipaddress.ip_address(member["address"]) in ipaddress.ip_network(segment["network"])
        addresses = [member["address"] for member in segment["members"] if member["address"]]
        assert len(set(addresses)) == len(addresses)
        if segment["network"]:
            networks.append(ipaddress.ip_network(segment["network"]))
    for place, network in enumerate(networks):
        assert not any(network.overlaps(other) for other in networks[place + 1 :])
    for node in plan["nodes"].values():
        own = [
            ipaddress.ip_interface(f"{item['address']}/{item['prefix']}").network for item in node["interfaces"].values() if item["address"]
        ]
        assert len(set(own)) == len(own)
        assert {item["port"] for item in node["interfaces"].values()} == set(node["ports"])
        for item in node["interfaces"].values():
            peers = {(peer["node"], peer["address"]) for peer in item["peers"]}
            members = {(member["node"], member["address"]) for member in plan["segments"][item["segment"]]["members"] if member["address"]}
            assert peers == (members - {(node["name"], item["address"])} if item["address"] else set())


def test_seed_pair() -> None:
    plan = make_plan({name: {"fabric_topology": "pair"} for name in ("spark", "spark2")})
    for name in ("spark", "spark2"):
        check_against_seed(plan["nodes"][name]["netplan"], f"pair-{name}")


def test_seed_mesh() -> None:
    plan = make_plan(hosts(3, fabric_topology="mesh"))
    assert [cable["name"] for cable in plan["cables"]] == ["spark1:0-spark2:1", "spark1:1-spark3:0", "spark2:0-spark3:1"]
    for name in plan["nodes"]:
        check_against_seed(plan["nodes"][name]["netplan"], f"mesh-{name}")


def check_against_seed(document: dict[str, Any], name: str) -> None:
    seed = yaml.safe_load((SEED / f"{name}.yaml").read_text())["network"]
    assert list(document["ethernets"]) == list(seed["ethernets"])
    stripped = copy.deepcopy(document)
    for interface in stripped["ethernets"].values():
        assert interface.pop("optional") is True
    assert stripped == seed


@pytest.mark.parametrize(("topology", "counts"), [("ring", (3, 4, 5, 8, 64)), ("switch", (2, 3, 8, 64)), ("pair", (2,)), ("mesh", (3,))])
def test_invariants_of_every_shape(topology: str, counts: tuple[int, ...]) -> None:
    for count in counts:
        plan = make_plan(hosts(count, fabric_topology=topology, fabric_subnet_pool="10.20.0.0/16"))
        check_invariants(plan)
        assert plan["shape"] == ("mesh" if topology == "ring" and count == 3 else topology)
        assert len(plan["segments"]) == (2 if topology in ("pair", "switch") else 2 * count)
        assert len(plan["cables"]) == {"pair": 1}.get(topology, count)


def test_ring_order_is_the_seed_rings() -> None:
    plan = make_plan(hosts(4, fabric_topology="ring", fabric_ring_order=["spark1", "spark2", "spark4", "spark3"]))
    assert plan["rank_order"] == ["spark1", "spark2", "spark4", "spark3"]
    assert {cable["name"] for cable in plan["cables"]} == {
        "spark1:0-spark2:1",
        "spark2:0-spark4:1",
        "spark3:1-spark4:0",
        "spark1:1-spark3:0",
    }
    turned = make_plan(hosts(4, fabric_topology="ring", fabric_ring_order=["spark4", "spark3", "spark1", "spark2"]))
    assert turned["cables"] == plan["cables"] and turned["rank_order"] == plan["rank_order"]


def test_node_numbers_order_the_cables_and_make_the_addresses() -> None:
    plan = make_plan(hosts(3, {"spark1": {"fabric_node_number": 30}, "spark2": {"fabric_node_number": 7}}, fabric_topology="mesh"))
    assert plan["cables"][0]["a"]["node"] == "spark3" and plan["cables"][0]["b"]["node"] == "spark2"
    assert plan["segments"][plan["cables"][0]["segments"]["a"]]["network"] == "192.168.177.0/24"
    assert plan["nodes"]["spark1"]["interfaces"]["enp1s0f0np0"]["address"].endswith(".40")
    assert plan["rank_order"] == ["spark3", "spark2", "spark1"]


def test_pair_with_different_ports() -> None:
    plan = make_plan(hosts(2, {"spark1": {"fabric_ports": [0]}}, fabric_topology="pair"))
    assert plan["cables"][0]["name"] == "spark1:0-spark2:1"
    assert list(plan["nodes"]["spark1"]["netplan"]["ethernets"]) == ["enp1s0f0np0", "enP2p1s0f0np0"]
    assert plan["nodes"]["spark2"]["nccl_environment"][0]["value"] == "rocep1s0f1,roceP2p1s0f1"
    assert plan["nccl"]["least_version"] is None


def test_pair_with_two_cables() -> None:
    plan = make_plan(hosts(2, fabric_topology="pair", fabric_ports=[0, 1]))
    check_invariants(plan)
    assert [cable["name"] for cable in plan["cables"]] == ["spark1:0-spark2:0", "spark1:1-spark2:1"]
    assert "plan.two_cables" in note_ids(plan)
    crossed = make_plan(hosts(2, {"spark2": {"fabric_ports": [1, 0]}}, fabric_topology="pair", fabric_ports=[0, 1]))
    assert [cable["name"] for cable in crossed["cables"]] == ["spark1:0-spark2:1", "spark1:1-spark2:0"]
    assert crossed["nccl"]["least_version"] == "2.30.7" and "plan.crossed_ports" in note_ids(crossed)


def test_switch_groups_by_the_place_of_the_port() -> None:
    plan = make_plan(hosts(3, {"spark2": {"fabric_ports": [0]}, "spark3": {"fabric_ports": [0, 1]}}, fabric_topology="switch"))
    check_invariants(plan)
    members = {(member["node"], member["interface"]) for member in plan["segments"]["switch1/a"]["members"]}
    assert members == {("spark1", "enp1s0f1np1"), ("spark2", "enp1s0f0np0"), ("spark3", "enp1s0f0np0")}
    assert plan["segments"]["switch2/a"]["network"] == "192.168.187.0/24"
    assert {"plan.two_switch_ports", "plan.lonely_port"} <= set(note_ids(plan))


def test_defaults_end_at_eight_cables_and_name_the_pool() -> None:
    assert make_plan(hosts(8, fabric_topology="ring"))["cables"][7]["segments"]
    with pytest.raises(FabricError, match=r"is cable 9.*fabric_subnet_pool"):
        make_plan(hosts(9, fabric_topology="ring"))
    plan = make_plan(hosts(9, fabric_topology="ring", fabric_subnet_pool="10.20.0.0/19"))
    assert [segment["network"] for segment in plan["segments"].values()][:3] == ["10.20.0.0/24", "10.20.1.0/24", "10.20.2.0/24"]
    with pytest.raises(FabricError, match=r"fabric_subnet_pool 10.20.0.0/20 holds those of 8 cables"):
        make_plan(hosts(9, fabric_topology="ring", fabric_subnet_pool="10.20.0.0/20"))


@pytest.mark.parametrize("topology", ["custom", "mesh"])
def test_nvidias_triangle_is_planned_as_it_is(topology: str) -> None:
    plan = make_plan(hosts(3, fabric_topology=topology, fabric_cables=TRIANGLE))
    check_invariants(plan)
    assert plan["shape"] == "mesh"
    assert plan["nodes"]["spark2"]["interfaces"]["enP2p1s0f0np0"]["address"] == "192.168.5.1"
    assert plan["nodes"]["spark3"]["interfaces"]["enp1s0f0np0"]["address"] == "192.168.2.2"
    assert not any(node["netplan"]["ethernets"] for node in plan["nodes"].values())
    assert not any(cable["managed"] for cable in plan["cables"])
    assert len(plan["tests"]) == 18 and plan["rounds"] == 5
    assert "plan.home_network" in note_ids(plan)


def test_networks_without_addresses_take_the_node_numbers() -> None:
    cables = [{"a": "spark1:1", "b": "spark2:1", "networks": ["10.1.0.0/24", "10.1.1.0/24"]}]
    plan = make_plan(hosts(2, fabric_topology="pair", fabric_cables=cables))
    assert plan["nodes"]["spark2"]["interfaces"]["enP2p1s0f1np1"]["address"] == "10.1.1.12"


@pytest.mark.parametrize("bare", [{"a": "10.1.0.0/24"}, {"a": "10.1.0.0/24", "b": None}, ["10.1.0.0/24", None]])
def test_rail_without_address_on_a_pair(bare: Any) -> None:
    plan = make_plan(hosts(2, fabric_topology="pair", fabric_cables=[{"a": "spark1:1", "b": "spark2:1", "networks": bare}]))
    check_invariants(plan)
    interface = plan["nodes"]["spark1"]["interfaces"]["enP2p1s0f1np1"]
    assert interface["address"] is None and interface["prefix"] is None and interface["peers"] == []
    assert {test["rail"] for test in plan["tests"]} == {"a"} and plan["rounds"] == 2
    assert note_ids(plan).count("plan.rail_without_address") == 2
    # alone on its cable, the rail is expected to give its full rate
    assert {test["expected_gbps"] for test in plan["tests"] if not test["bidirectional"]} == {109.0}


def test_explicit_switch_ports_are_grouped_by_their_networks() -> None:
    cables = [
        {"a": "spark1:0", "b": "switch", "networks": ["10.1.0.0/24", "10.1.1.0/24"]},
        {"a": "switch", "b": "spark1:1", "networks": ["10.2.0.0/24", "10.2.1.0/24"]},
        {"a": "spark2:0", "b": "switch", "networks": ["10.2.0.0/24", "10.2.1.0/24"]},
        {"a": "spark2:1", "b": "switch", "networks": ["10.1.0.0/24", "10.1.1.0/24"]},
    ]
    plan = make_plan(hosts(2, fabric_topology="custom", fabric_cables=cables))
    check_invariants(plan)
    assert plan["shape"] == "switch"
    assert plan["segments"]["switch1/a"]["cables"] == ["spark1:0-switch", "spark2:1-switch"]
    assert plan["nccl"]["least_version"] == "2.30.7"


@pytest.mark.parametrize(
    ("ends", "count", "shape", "ranks"),
    [
        ([("spark1:0", "spark2:0")], 2, "pair", "12"),
        ([("spark1:0", "spark2:1"), ("spark2:0", "spark3:1"), ("spark3:0", "spark1:1")], 3, "mesh", "123"),
        ([("spark1:0", "spark2:0"), ("spark2:1", "spark4:1"), ("spark4:0", "spark3:0"), ("spark3:1", "spark1:1")], 4, "ring", "1243"),
        ([("spark3:0", "spark1:1"), ("spark1:0", "spark2:0")], 3, "graph", "213"),
        ([("spark1:0", "spark3:0"), ("spark2:0", "spark4:0")], 4, "graph", "1324"),
        ([("spark1:0", "switch"), ("spark2:0", "switch"), ("spark3:1", "spark2:1")], 3, "graph", "231"),
    ],
)
def test_custom_resolves_to_a_shape_and_walks_the_cables(ends: list[tuple[str, str]], count: int, shape: str, ranks: str) -> None:
    plan = make_plan(hosts(count, fabric_topology="custom", fabric_cables=[{"a": one, "b": other} for one, other in ends]))
    check_invariants(plan)
    assert plan["shape"] == shape
    assert plan["rank_order"] == [f"spark{digit}" for digit in ranks]
    assert [entry["node"] for entry in plan["hostfile"]] == plan["rank_order"]


def test_notes_on_cabling() -> None:
    equal = [("spark1:0", "spark2:0"), ("spark2:1", "spark3:1"), ("spark3:0", "spark4:0"), ("spark4:1", "spark1:1")]
    plan = make_plan(hosts(4, fabric_topology="ring", fabric_cables=[{"a": one, "b": other} for one, other in equal]))
    assert {"plan.ring_equal_ports", "plan.ring_trees"} <= set(note_ids(plan))
    line = make_plan(
        hosts(3, fabric_topology="custom", fabric_cables=[{"a": "spark1:0", "b": "spark2:1"}, {"a": "spark2:0", "b": "spark3:1"}])
    )
    assert "plan.line" in note_ids(line)
    apart = make_plan(
        hosts(4, fabric_topology="custom", fabric_cables=[{"a": "spark1:0", "b": "spark2:1"}, {"a": "spark3:0", "b": "spark4:1"}])
    )
    assert "plan.not_connected" in note_ids(apart)


def test_unknown_variables_are_a_note_with_a_suggestion() -> None:
    plan = make_plan(hosts(2, fabric_topology="pair", fabric_topolgy="mesh", fabric_plan={"old": 1}, other="x"))
    messages = [note["message"] for note in plan["notes"] if note["id"] == "plan.unknown_variable"]
    assert len(messages) == 1 and "fabric_topolgy" in messages[0] and "did you mean fabric_topology?" in messages[0]


def test_renderer_and_optional_stand_at_each_interface() -> None:
    plan = make_plan(hosts(2, fabric_topology="pair", fabric_netplan_renderer="NetworkManager", fabric_netplan_optional=False))
    document = plan["nodes"]["spark1"]["netplan"]
    assert set(document) == {"version", "ethernets"}
    for interface in document["ethernets"].values():
        assert interface["renderer"] == "NetworkManager" and "optional" not in interface


def test_text_that_spells_a_value_is_taken() -> None:
    plan = make_plan(hosts(2, fabric_topology="pair", fabric_mtu="1500", fabric_force_busy="yes", fabric_link_gbps="100"))
    assert (plan["mtu"], plan["force_busy"], plan["link_gbps"]) == (1500, True, 100.0)


def test_two_hundred_nodes_on_a_switch_within_two_seconds() -> None:
    variables = {f"n{number}": {"fabric_topology": "switch"} for number in range(1, 201)}
    start = time.process_time()
    plan = make_plan(variables)
    assert time.process_time() - start < 2
    assert plan["rounds"] == 6 and len(plan["tests"]) == 2 * 400 + 400


@examples(50, share=0.02)
@given(st.integers(2, 64), st.integers(0, 100), st.sampled_from(["ring", "switch"]), st.randoms(use_true_random=False))
def test_invariants_hold_for_any_numbers_and_orders(count: int, offset: int, topology: str, random: Any) -> None:
    if topology == "ring" and count < 3:
        count = 3
    numbers = random.sample(range(1, 150), count)
    order = [f"spark{number}" for number in range(1, count + 1)]
    random.shuffle(order)
    per_host = {
        f"spark{place + 1}": {"fabric_node_number": number, "fabric_ports": random.choice([[0], [1], [0, 1], [1, 0]])}
        for place, number in enumerate(numbers)
    }
    if topology == "ring":
        per_host = {name: {"fabric_node_number": values["fabric_node_number"]} for name, values in per_host.items()}
    common = {"fabric_ring_order": order} if topology == "ring" else {}
    plan = make_plan(
        hosts(count, per_host, fabric_topology=topology, fabric_host_offset=offset, fabric_subnet_pool="10.128.0.0/9", **common)
    )
    check_invariants(plan)
    if topology == "ring" and count > 3:
        place = plan["rank_order"].index(order[0])
        assert plan["rank_order"][place:] + plan["rank_order"][:place] == order
    assert plan == make_plan(
        hosts(count, per_host, fabric_topology=topology, fabric_host_offset=offset, fabric_subnet_pool="10.128.0.0/9", **common)
    )
