# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Errors of the plan: each names the variable, the host or cable, and the way out; junk raises nothing else."""

from __future__ import annotations

import datetime
import json
import pathlib
import re
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, closest, shown
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Settings
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan import make_plan
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.variables import CONNECTION_VARIABLES, VARIABLES, unknown
from ansible_collections.dgxspark.fabric.tests.unit.fuzzing import examples

RING4 = [("s1:0", "s2:1"), ("s2:0", "s3:1"), ("s3:0", "s4:1"), ("s4:0", "s1:1")]


def hosts(count: int, per_host: dict[str, dict[str, Any]] | None = None, **common: Any) -> dict[str, dict[str, Any]]:
    return {f"s{number}": {**common, **(per_host or {}).get(f"s{number}", {})} for number in range(1, count + 1)}


def cables(*ends: tuple[Any, Any], **more: Any) -> list[dict[str, Any]]:
    return [{"a": one, "b": other, **more} for one, other in ends]


def explicit(networks: Any, addresses: Any = None, ends: tuple[str, str] = ("s1:1", "s2:1")) -> dict[str, Any]:
    entry = {"a": ends[0], "b": ends[1], "networks": networks}
    return {"fabric_topology": "custom", "fabric_cables": [entry if addresses is None else {**entry, "addresses": addresses}]}


NETS = ["10.1.0.0/24", "10.1.1.0/24"]
CASES: list[tuple[dict[str, dict[str, Any]], str]] = [
    # number of nodes and topology
    ({}, "no host is in the group spark; a fabric needs at least 2 nodes"),
    (hosts(1, fabric_topology="switch"), "the group spark has 1 node, s1; a fabric needs at least 2"),
    (hosts(3, fabric_topology="pair"), "fabric_topology is pair, which has exactly 2 nodes, but the group spark has 3 (s1, ...)"),
    (hosts(2, fabric_topology="mesh"), "fabric_topology is mesh, which has exactly 3 nodes, but the group spark has 2"),
    (hosts(4, fabric_topology="mesh"), "fabric_topology is mesh, which has exactly 3 nodes, but the group spark has 4"),
    (hosts(2, fabric_topology="ring"), "fabric_topology is ring, which has at least 3 nodes, but the group spark has 2"),
    (hosts(65, fabric_topology="ring"), "takes at most 64"),
    (hosts(201, fabric_topology="switch"), "takes at most 200"),
    (hosts(2), "fabric_topology is not set (host s1); expected one of pair, mesh, ring, switch, custom"),
    (hosts(2, fabric_topology="star"), "fabric_topology of s1 is 'star'; expected one of pair, mesh, ring, switch, custom"),
    (hosts(2, {"s2": {"fabric_mtu": 1500}}, fabric_topology="pair"), "fabric_mtu is 9000 on s1 but 1500 on s2"),
    (hosts(2, {"s2": {"fabric_topology": "pair"}}), "fabric_topology is not set on s1 but 'pair' on s2"),
    # hosts
    ({"a/b": {"fabric_topology": "pair"}, "s2": {}}, "the inventory names a host 'a/b'"),
    ({"switch": {"fabric_topology": "pair"}, "s2": {}}, "the inventory names a host 'switch'"),
    (hosts(2, {"s2": {"fabric_node_number": 1}}, fabric_topology="pair"), "fabric_node_number is 1 on both s1 and s2"),
    (hosts(2, {"s2": {"fabric_node_number": 0}}, fabric_topology="pair"), "fabric_node_number of s2 is 0; expected a whole number from 1"),
    (
        hosts(2, {"s2": {"fabric_node_number": 245}}, fabric_topology="pair"),
        "fabric_node_number 245 of s2 plus fabric_host_offset 10 gives the host part 255, too large",
    ),
    (
        hosts(2, fabric_topology="pair", fabric_management_interface="enp1s0f0np0"),
        "fabric_management_interface of s1 is enp1s0f0np0, which belongs to the fabric",
    ),
    (hosts(2, fabric_topology="pair", fabric_management_address="10.0.0.1"), "fabric_management_address is 10.0.0.1 on both s1 and s2"),
    # ports
    (
        hosts(2, {"s2": {"fabric_ports": [2]}}, fabric_topology="pair"),
        "fabric_ports of s2 is [2]; expected a non-empty list, each entry a whole number from 0 to 1",
    ),
    (hosts(2, {"s2": {"fabric_ports": [1, 1]}}, fabric_topology="pair"), "fabric_ports of s2 is [1, 1]; a port is named twice"),
    (hosts(2, {"s2": {"fabric_ports": [0, 1]}}, fabric_topology="pair"), "fabric_ports is [1] on s1 but [0, 1] on s2"),
    (hosts(3, {"s2": {"fabric_ports": [1]}}, fabric_topology="mesh"), "fabric_ports of s2 is [1]; a mesh uses both ports"),
    # order of a ring
    (hosts(4, fabric_topology="ring", fabric_ring_order=["s1", "s2", "s3", "s5"]), "fabric_ring_order names the unknown host s5"),
    (hosts(4, fabric_topology="ring", fabric_ring_order=["s1", "s2", "s3", "s1"]), "fabric_ring_order names s1 2 times"),
    (hosts(4, fabric_topology="ring", fabric_ring_order=["s1", "s2", "s3"]), "fabric_ring_order lacks s4"),
    # cables
    (hosts(2, fabric_topology="custom"), "fabric_topology is custom, but fabric_cables is empty"),
    (hosts(2, fabric_topology="custom", fabric_cables="s1:0"), "fabric_cables is 's1:0'; expected a list of cables"),
    (hosts(2, fabric_topology="custom", fabric_cables=["s1:0-s2:0"]), "fabric_cables entry 1 is 's1:0-s2:0'; expected a mapping"),
    (hosts(2, fabric_topology="custom", fabric_cables=[{"a": "s1:0", "c": "s2:0"}]), "fabric_cables entry 1 has the key 'c'"),
    (hosts(2, fabric_topology="custom", fabric_cables=[{"a": "s1:0"}]), "fabric_cables entry 1, end b is missing"),
    (hosts(2, fabric_topology="custom", fabric_cables=cables(("s1:0", 60))), "fabric_cables entry 1, end b is 60, not text"),
    (hosts(2, fabric_topology="custom", fabric_cables=cables(("s1:0", ["s2:0"]))), "fabric_cables entry 1, end b is ['s2:0'], not text"),
    (
        hosts(2, fabric_topology="custom", fabric_cables=cables(("s1:0", "s2:2"))),
        "fabric_cables entry 1, end b names port '2' of s2; expected port 0",
    ),
    (hosts(2, fabric_topology="custom", fabric_cables=cables(("s1:0", "s9:0"))), "end b names the unknown host 's9'"),
    (hosts(2, fabric_topology="custom", fabric_cables=cables(("s1:0", "swich"))), "end b is 'swich'; did you mean switch?"),
    (hosts(2, fabric_topology="custom", fabric_cables=cables(("s1:0", "s1:1"))), "fabric_cables entry 1 joins s1:0 to s1:1, the same node"),
    (hosts(2, fabric_topology="custom", fabric_cables=cables(("switch", "switch"))), "joins the switch to itself"),
    (
        hosts(3, fabric_topology="custom", fabric_cables=cables(("s1:0", "s2:0"), ("s3:0", "s2:0"))),
        "fabric_cables uses port 0 of s2 twice, in s1:0-s2:0 and in s2:0-s3:0",
    ),
    (hosts(3, fabric_topology="custom", fabric_cables=cables(("s1:0", "s2:0"))), "s3 has no cable in fabric_cables"),
    (
        hosts(3, fabric_topology="mesh", fabric_cables=cables(("s1:0", "s2:0"), ("s2:1", "s3:1"))),
        "the cables of fabric_cables make a graph",
    ),
    (
        hosts(4, fabric_topology="switch", fabric_cables=cables(*RING4)),
        "fabric_topology is switch, but the cables of fabric_cables make a ring",
    ),
    (
        hosts(3, fabric_topology="custom", fabric_cables=cables(("s1:0", "s2:0"), ("s2:1", "s3:0"), ("s3:1", "s1:1"))),
        "the cable s1:0-s2:0 of the mesh joins equal port numbers",
    ),
    (
        hosts(2, {"s1": {"fabric_ports": [1]}}, fabric_topology="pair", fabric_cables=cables(("s1:0", "s2:0"))),
        "fabric_cables plugs s1:0-s2:0 into port 0 of s1, but fabric_ports of s1 is [1]",
    ),
    # networks
    (
        hosts(2, fabric_topology="pair", fabric_subnet_base="8.8.8.0/24"),
        "fabric_subnet_base is 8.8.8.0/24 (all hosts), which is not private",
    ),
    (
        hosts(2, fabric_topology="pair", fabric_subnet_pool="100.64.0.0/16"),
        "fabric_subnet_pool is 100.64.0.0/16 (all hosts), which is not private",
    ),
    (
        hosts(2, fabric_topology="pair", fabric_subnet_base="fd00::/24"),
        "fabric_subnet_base is 'fd00::/24' (all hosts); expected an IPv4 /24 network",
    ),
    (
        hosts(2, fabric_topology="pair", fabric_subnet_base="10.1.2.3/24"),
        "fabric_subnet_base is '10.1.2.3/24' (all hosts); expected an IPv4 /24 network with no host bits",
    ),
    (
        hosts(2, fabric_topology="pair", fabric_subnet_base="10.1.0.0/16"),
        "fabric_subnet_base is 10.1.0.0/16 (all hosts); expected an IPv4 /24",
    ),
    (hosts(2, fabric_topology="pair", fabric_subnet_step=1), "fabric_subnet_step of s1 is 1; expected a whole number from 2"),
    (
        hosts(9, fabric_topology="ring"),
        "s8:0-s9:1 is cable 9, for which fabric_subnet_base 192.168.177.0/24 and fabric_subnet_step 10 leave no network",
    ),
    (
        hosts(2, fabric_topology="pair", ansible_host="192.168.178.5", ansible_connection="local"),
        "ansible_host of s1 is 192.168.178.5, which lies in 192.168.178.0/24, the network of s1:1-s2:1/b",
    ),
    (
        hosts(2, {"s2": {"fabric_management_address": "192.168.177.5"}}, fabric_topology="pair"),
        "fabric_management_address of s2 is 192.168.177.5, which lies in",
    ),
    # networks given for cables
    (hosts(2, **explicit(["8.8.8.0/24", None])), "networks of s1:1-s2:1 in fabric_cables give 8.8.8.0/24 on rail a, which is not private"),
    (hosts(2, **explicit([None, None])), "networks of fabric_cables entry 1 (s1:1-s2:1) gives no network on either rail"),
    (hosts(2, **explicit("10.1.0.0/24")), "networks of fabric_cables entry 1 (s1:1-s2:1) is '10.1.0.0/24'; expected {a: ..., b: ...}"),
    (hosts(2, **explicit(["10.1.0.5/24", None])), "expected an IPv4 network with no host bits set"),
    (hosts(2, **explicit(["10.1.0.0/24", "10.1.0.0/24"])), "s1:1-s2:1/a (10.1.0.0/24) and s1:1-s2:1/b (10.1.0.0/24) overlap"),
    (hosts(2, **explicit(["10.1.0.0/16", "10.1.9.0/24"])), "twins of one port, which share a wire, need two networks as well"),
    (
        hosts(2, **explicit(NETS, {"s1": [7, None]})),
        "addresses of fabric_cables entry 1 (s1:1-s2:1), s1:1 rail a is 7; expected an IPv4 address in quotes",
    ),
    (hosts(2, **explicit(NETS, {"s1": ["10.1.0.1", "10.1.1.1"]})), "gives no address for s2:1"),
    (
        hosts(2, **explicit(NETS, {"s1": ["10.1.0.1", "10.1.1.1"], "s2": ["10.1.0.1", "10.1.1.2"]})),
        "gives 10.1.0.1 to both s1:1 and s2:1 rail a",
    ),
    (
        hosts(2, **explicit(NETS, {"s1": ["10.1.0.1", "10.1.1.1"], "s2": ["10.9.0.1", "10.1.1.2"]})),
        "s2:1 rail a is '10.9.0.1', which is not in 10.1.0.0/24",
    ),
    (hosts(2, **explicit(NETS, {"s1": ["10.1.0.255", "10.1.1.1"], "s2": ["10.1.0.1", "10.1.1.2"]})), "the network or broadcast address"),
    (
        hosts(2, **explicit([NETS[0], None], {"s1": ["10.1.0.1", "10.1.1.1"], "s2": ["10.1.0.2", None]})),
        "but networks gives no network on that rail",
    ),
    (hosts(2, **explicit(NETS, {"s3": ["10.1.0.1", "10.1.1.1"]})), "names 's3'"),
    (
        hosts(2, fabric_topology="custom", fabric_cables=[{"a": "s1:0", "b": "s2:0", "addresses": {"s1": NETS}}]),
        "has addresses but no networks",
    ),
    (
        hosts(
            4,
            fabric_topology="ring",
            fabric_cables=[{**cable, "networks": [f"10.1.{place}.0/24", None]} for place, cable in enumerate(cables(*RING4))],
        ),
        "on a ring NCCL finds its way by addresses, so both rails need one",
    ),
    (
        hosts(2, fabric_topology="switch", fabric_cables=cables(("s1:0", "switch"), ("s1:1", "switch"), ("s2:0", "switch"), networks=NETS)),
        "fabric_cables puts both s1:0 and s1:1 rail a",
    ),
    # values
    (hosts(2, fabric_topology="pair", fabric_mtu=1279), "fabric_mtu of s1 is 1279; expected a whole number from 1280 to 9216"),
    (hosts(2, fabric_topology="pair", fabric_mtu=9217), "fabric_mtu of s1 is 9217; expected a whole number from 1280 to 9216"),
    (hosts(2, fabric_topology="pair", fabric_mtu=None), "fabric_mtu of s1 is nothing (null); expected a whole number"),
    (hosts(2, fabric_topology="pair", fabric_mtu=True), "fabric_mtu of s1 is True; expected a whole number"),
    (hosts(2, fabric_topology="pair", fabric_cluster_name=["x"]), "fabric_cluster_name of s1 is ['x']; expected a name"),
    (hosts(2, fabric_topology=["pair"]), "fabric_topology of s1 is ['pair']; expected one of"),
    (hosts(2, fabric_topology="pair", fabric_subnet_base=192), "fabric_subnet_base of s1 is 192; expected a network"),
    (hosts(2, fabric_topology="pair", ansible_host=7), "ansible_host of s1 is 7; expected an IP address or a host name"),
    (
        hosts(3, fabric_topology="mesh", fabric_nccl_bootstrap="fabric"),
        "fabric_nccl_bootstrap is fabric (host s1), but on a mesh no fabric network reaches every node",
    ),
    (hosts(2, **explicit([None, NETS[1]]), fabric_nccl_bootstrap="fabric"), "rail a of s1 has no address"),
    (hosts(2, fabric_topology="pair", fabric_test_port_base=65534), "fabric_test_port_base is 65534 (all hosts), but a round has 4 tests"),
    (
        hosts(2, fabric_topology="pair", fabric_control_port=18601),
        "fabric_control_port is 18601 (all hosts), which lies among the test ports",
    ),
    (hosts(2, fabric_topology="pair", fabric_nccl_environment={"ncclx": 1}), "fabric_nccl_environment of s1 is"),
    (hosts(2, fabric_topology="pair", fabric_rail_gbps={"many": 1}), "fabric_rail_gbps of s1 is"),
    (hosts(2, fabric_topology="pair", fabric_rules={"id": 1}), "fabric_rules of s1 is"),
    (hosts(2, fabric_topology="pair", fabric_rules=[{"warn": 1}]), "fabric_rules[0]: field id"),
    (hosts(2, fabric_topology="pair", fabric_rules=[{"id": "rdma.rail_bandwidth", "warn": "x"}]), "rule rdma.rail_bandwidth: field warn: expected a number"),
    (hosts(2, fabric_topology="pair", fabric_rules=[{"id": "rdma.rail_bandwith", "warn": 8}]), "did you mean rdma.rail_bandwidth?"),
    (hosts(2, fabric_topology="pair", fabric_rules=[{"id": "link.speed", "query": "(" * 5000}]), "is not a JMESPath query"),
    # names that files of the plan have
    *(
        ({name: {"fabric_topology": "pair"}, "s2": {"fabric_topology": "pair"}}, f"names a host '{name}'")
        for name in ("plan.json", "cables.md", "switch.md", "switch.html", "hostfile", "Switch")
    ),
    # one machine twice
    (hosts(2, fabric_topology="pair", ansible_host="10.0.0.5"), "ansible_host is 10.0.0.5 on both s1 and s2"),
    (hosts(2, {"s1": {"ansible_port": 22}}, fabric_topology="pair", ansible_host="Box.lan"), "ansible_host is box.lan on both s1 and s2"),
    (hosts(2, {"s2": {"ansible_host": "s1"}}, fabric_topology="pair"), "ansible_host is s1 on both s1 and s2"),
    (hosts(2, {"s1": {"ansible_connection": "local"}}, fabric_topology="pair", ansible_host="10.0.0.5"), "ansible_host is 10.0.0.5 on both s1 and s2"),
    (hosts(2, fabric_topology="pair", ansible_port=0), "ansible_port of s1 is 0; expected a whole number from 1 to 65535"),
]


@pytest.mark.parametrize(("variables", "message"), CASES, ids=[message[:60] for _variables, message in CASES])
def test_messages(variables: dict[str, dict[str, Any]], message: str) -> None:
    with pytest.raises(FabricError) as caught:
        make_plan(variables)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "own",
    [
        {"s1": {"ansible_port": 2201}, "s2": {"ansible_port": "2202"}},
        {"s1": {"ansible_connection": "local"}, "s2": {"ansible_connection": "local"}},
        {"s1": {"ansible_connection": "local", "ansible_host": "127.0.0.1"}, "s2": {"ansible_host": "127.0.0.1"}},
    ],
    ids=["forwarded", "local", "loopback"],
)
def test_one_address_that_is_not_one_machine(own: dict[str, dict[str, Any]]) -> None:
    plan = make_plan(hosts(2, own, **{"fabric_topology": "pair", "ansible_host": "10.0.0.5"}))
    assert [note["subject"] for note in plan["notes"] if note["id"] == "plan.management_shared"] == ["s1, s2"]


def test_the_group_is_called_by_its_name() -> None:
    with pytest.raises(FabricError, match="the group gpus has 1 node, s1"):
        make_plan(hosts(1, fabric_topology="switch"), "gpus")


def test_nodes_that_no_test_measures_are_noted() -> None:
    apart = [{"a": f"s{number}:1", "b": "switch", "networks": [f"10.1.{2 * number}.0/24", f"10.1.{2 * number + 1}.0/24"]} for number in (1, 2)]
    for entries, lonely in ((apart, "s1, s2"), ([*apart, {**apart[0], "a": "s3:1"}], "s2")):
        plan = make_plan(hosts(len(entries), fabric_topology="custom", fabric_cables=entries))
        assert [note["subject"] for note in plan["notes"] if note["id"] == "plan.not_tested"] == [lonely]
    assert not [note for note in make_plan(hosts(3, fabric_topology="switch"))["notes"] if note["id"] == "plan.not_tested"]


def test_facts_of_the_plays_are_no_unknown_variables() -> None:
    root = pathlib.Path(__file__).resolve().parents[4]
    files = [*root.glob("playbooks/*.yml"), *root.glob("roles/*/tasks/*.yml")]
    facts = {name for file in files for name in re.findall(r"^\s+(fabric_\w+):", file.read_text(encoding="utf-8"), re.MULTILINE)}
    assert {"fabric_started", "fabric_plan", "fabric_in_use"} <= facts
    assert [name for name in sorted(facts) if unknown(name)] == []


def test_settings_and_table_agree() -> None:
    group = {name.removeprefix("fabric_") for name, variable in VARIABLES.items() if variable.scope == "group"}
    assert {field.name for field in fields(Settings)} == group
    assert all(variable.description and variable.kind.expected for variable in VARIABLES.values())


def test_closest_and_shown() -> None:
    assert closest("fabric_topolgy", VARIABLES) == "; did you mean fabric_topology?"
    assert closest(7, VARIABLES) == "" and closest("zzz", VARIABLES) == ""
    assert len(shown("x" * 1000)) == 80
    assert "too large" in shown(10**5000)


JUNK = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(max_size=12),
        st.binary(max_size=6),
        st.just(10**4000),
        st.dates(),
        st.sampled_from(
            ["s1:0", "s2:1", "switch", "10.1.0.0/24", "10.1.0.1", "a", "pair", "mesh", "ring", "custom", datetime.datetime(2026, 1, 1)]
        ),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(st.text(max_size=4), st.integers(), st.none(), st.sampled_from(["a", "b", "networks", "addresses", "s1", "s2:1"])),
            inner,
            max_size=4,
        ),
        st.tuples(inner, inner),
    ),
    max_leaves=12,
)
NAMES = st.sampled_from([*VARIABLES, *CONNECTION_VARIABLES])


def only_fabric_errors(variables: Any) -> None:
    try:
        plan = make_plan(variables)
    except FabricError as error:
        assert str(error)
    else:
        json.dumps(plan)


@examples(150, share=0.02)
@given(st.sampled_from(["pair", "switch", "custom"]), st.dictionaries(NAMES, JUNK, max_size=4), st.dictionaries(NAMES, JUNK, max_size=3))
def test_junk_in_variables_raises_nothing_else(topology: str, common: dict[str, Any], own: dict[str, Any]) -> None:
    only_fabric_errors(hosts(2, {"s2": own}, **{"fabric_topology": topology, **common}))


@pytest.mark.parametrize("name", [*VARIABLES, *CONNECTION_VARIABLES])
@examples(15, share=0.001)
@given(value=JUNK)
def test_junk_in_one_variable_raises_nothing_else(name: str, value: Any) -> None:
    only_fabric_errors(hosts(2, **{"fabric_topology": "pair", name: value}))


CABLE = st.fixed_dictionaries(
    {
        "a": st.one_of(st.sampled_from(["s1:0", "s1:1", "s2:0", "switch"]), JUNK),
        "b": st.one_of(st.sampled_from(["s2:0", "s2:1", "s1:1", "switch"]), JUNK),
    },
    optional={
        "networks": st.one_of(
            st.just(NETS), st.dictionaries(st.sampled_from("abc"), st.one_of(st.sampled_from([*NETS, "10.1.0.0/31"]), JUNK)), JUNK
        ),
        "addresses": st.one_of(
            st.dictionaries(
                st.sampled_from(["s1", "s1:0", "s2", "s2:1"]), st.one_of(st.lists(st.sampled_from(["10.1.0.1", "10.1.1.1/24"])), JUNK)
            ),
            JUNK,
        ),
    },
)


@examples(150, share=0.02)
@given(st.lists(CABLE, max_size=3))
def test_junk_in_cables_raises_nothing_else(entries: list[Any]) -> None:
    only_fabric_errors(hosts(2, fabric_topology="custom", fabric_cables=entries))


@pytest.mark.parametrize("name", [*VARIABLES, *CONNECTION_VARIABLES])
@pytest.mark.parametrize(
    "value",
    [10**5000, [10**5000], [[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]], float("nan"), "\ud800", object()],
    ids=["huge", "huge-inside", "deep", "nan", "surrogate", "object"],
)
def test_values_that_are_hard_to_show(name: str, value: Any) -> None:
    only_fabric_errors(hosts(2, **{"fabric_topology": "pair", name: value}))


@examples(50, share=0.02)
@given(JUNK)
def test_junk_for_hosts_raises_nothing_else(value: Any) -> None:
    only_fabric_errors(value)
