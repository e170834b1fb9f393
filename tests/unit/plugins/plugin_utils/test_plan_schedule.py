# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rounds: as few as possible, and nothing in a round shares what it must have for itself."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.edge_colouring import bipartite_colours, doubled_ring_colours, ring_colours
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan import make_plan
from ansible_collections.dgxspark.fabric.tests.unit.fuzzing import examples


def plan_of(count: int, per_host: dict[str, Any] | None = None, **common: Any) -> dict[str, Any]:
    names = [f"n{number}" for number in range(1, count + 1)]
    return make_plan({name: {"fabric_subnet_pool": "10.0.0.0/8", **common, **(per_host or {}).get(name, {})} for name in names})


def rounds_of(plan: dict[str, Any], stage: str, where: str = "tests") -> list[list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for test in plan[where]:
        if test["stage"] == stage:
            found.setdefault(test["round"], []).append(test)
    return [found[number] for number in sorted(found)]


def check_conflict_free(plan: dict[str, Any]) -> None:
    """Recompute from the plan alone what each test holds; nothing may be held twice in a round."""
    rounds: dict[int, list[dict[str, Any]]] = {}
    everything = plan["tests"] + plan["further_tests"]
    for test in everything:
        rounds.setdefault(test["round"], []).append(test)
    assert sorted(rounds) == list(range(plan["rounds"] + plan["further_rounds"]))
    assert {test["round"] for test in plan["tests"]} == set(range(plan["rounds"]))
    assert len({test["id"] for test in everything}) == len(everything)
    for tests in rounds.values():
        assert len({test["stage"] for test in tests}) == 1
        assert len({test["port"] for test in tests}) == len(tests)
        assert {test["concurrent"] for test in tests} == {len(tests)}
        held: Counter[Any] = Counter()
        partners: dict[Any, set[Any]] = {}
        for test in tests:
            if test["bidirectional"] or test["stage"].endswith("latency"):
                for end in ("client", "server"):
                    held[("rail", test[end], test["rail"])] += 1
                    held[("wire", test[end], test[f"{end}_interface"][-1])] += 1
            else:
                held[("sends", test["client"], test["rail"])] += 1
                held[("receives", test["server"], test["rail"])] += 1
                partners.setdefault(("to", test["client"]), set()).add(test["server_address"].rsplit(".", 1)[1] + test["server"])
                partners.setdefault(("from", test["server"]), set()).add(test["client"])
        assert not [what for what, count in held.items() if count > 1]
        if tests[0]["stage"] != "tcp":
            assert all(len(others) == 1 for others in partners.values())


def check_complete(plan: dict[str, Any]) -> None:
    """Every cable and rail runs in each direction once (twice or more on a switch), and once both ways at once."""
    directed = Counter(
        (cable, test["rail"], test["client"]) for test in plan["tests"] if not test["bidirectional"] for cable in test["cables"]
    )
    both = Counter((cable, test["rail"]) for test in plan["tests"] if test["bidirectional"] for cable in test["cables"])
    for cable in plan["cables"]:
        for rail in "ab":
            if not cable["switch"]:
                assert both[(cable["name"], rail)] == 1
                for end in ("a", "b"):
                    assert directed[(cable["name"], rail, cable[end]["node"])] == 1
            elif len(plan["segments"][cable["segments"][rail]]["members"]) > 1:
                assert both[(cable["name"], rail)] >= 1
                assert directed[(cable["name"], rail, cable["a"]["node"])] >= 1


def check_further(plan: dict[str, Any]) -> None:
    """Whatever is measured by write bandwidth is measured by the others too, in as many rounds; TCP on each rail alone besides."""
    def ends(tests: list[dict[str, Any]]) -> Counter[Any]:
        return Counter((test["client"], test["server"], test["client_interface"], test["server_interface"]) for test in tests)

    directed, both = [[test for test in plan["tests"] if test["stage"] == stage] for stage in ("directed", "bidirectional")]
    if plan["settings"]["fabric_switch_pairs"] == "all":
        assert len(plan["further_tests"]) == 8 * 2 * sum(len(node["interfaces"]) for node in plan["nodes"].values()) + 2 * len(both) or len(plan["nodes"]) < 3
        return
    for stage in ("read", "send"):
        assert ends([test for test in plan["further_tests"] if test["stage"] == stage]) == ends(directed)
        assert len(rounds_of(plan, stage, "further_tests")) == len(rounds_of(plan, "directed"))
    for stage in ("write_latency", "send_latency"):
        tests = [test for test in plan["further_tests"] if test["stage"] == stage]
        assert ends(tests) == ends(both) and {test["expected_gbps"] for test in tests} <= {None}
    for streams in (1, 4, 8):
        ladder = [test for test in plan["further_tests"] if test.get("streams") == streams]
        assert ends([test for test in ladder if test["with_twin"]]) == ends(directed) == ends([test for test in ladder if not test["with_twin"]])
    rounds = len(rounds_of(plan, "directed"))
    assert len(rounds_of(plan, "tcp", "further_tests")) == 3 * (rounds + (max(2, rounds) if rounds else 0))


def counts(plan: dict[str, Any]) -> tuple[int, int]:
    check_conflict_free(plan)
    check_complete(plan)
    check_further(plan)
    return len(rounds_of(plan, "directed")), len(rounds_of(plan, "bidirectional"))


def doubled_cycle(count: int) -> int:
    """Least rounds of a doubled cycle: 4 runs meet at each node, and a round holds at most floor(n/2) of 2n runs."""
    return 2 if count == 2 else max(4, math.ceil(2 * count / (count // 2)))


def test_pair() -> None:
    assert counts(plan_of(2, fabric_topology="pair")) == (1, 2)
    assert counts(plan_of(2, fabric_topology="pair", fabric_ports=[0, 1])) == (2, 2)


@pytest.mark.parametrize("count", range(3, 65))
def test_ring_is_minimal(count: int) -> None:
    """Directed: two cables a node to send on, so 2. Bidirectional: the chromatic index of a cycle, 2 or 3."""
    assert counts(plan_of(count, fabric_topology="ring")) == (2, 3 if count % 2 else 2)


@pytest.mark.parametrize("count", range(2, 65))
def test_switch_is_minimal(count: int) -> None:
    assert counts(plan_of(count, fabric_topology="switch")) == (1 if count == 2 else 2, doubled_cycle(count))


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 9, 33, 64])
def test_switch_all_pairs_is_minimal(count: int) -> None:
    plan = plan_of(count, fabric_topology="switch", fabric_switch_pairs="all")
    assert counts(plan) == (count - 1, doubled_cycle(count))
    pairs = {(test["client"], test["server"]) for test in plan["tests"] if not test["bidirectional"]}
    assert len(pairs) == count * (count - 1)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7, 16, 63, 64])
def test_two_ports_on_a_switch_are_minimal(count: int) -> None:
    """Directed: twice as much to send. Bidirectional: each wire still has its own four runs, and the rails swap places."""
    plan = plan_of(count, fabric_topology="switch", fabric_ports=[0, 1])
    assert counts(plan) == (2 * (1 if count == 2 else 2), doubled_cycle(count))


def test_mesh_is_the_contract() -> None:
    plan = plan_of(3, fabric_topology="mesh")
    assert counts(plan) == (2, 3) and plan["rounds"] == 5
    first = [(test["client"], test["server"], test["rail"]) for test in rounds_of(plan, "directed")[0]]
    assert sorted(first) == [
        ("n1", "n2", "a"),
        ("n1", "n2", "b"),
        ("n2", "n3", "a"),
        ("n2", "n3", "b"),
        ("n3", "n1", "a"),
        ("n3", "n1", "b"),
    ]
    assert {test["expected_gbps"] for test in rounds_of(plan, "directed")[0]} == {98.0}
    staggered = [[(test["cables"][0], test["rail"]) for test in tests] for tests in rounds_of(plan, "bidirectional")]
    assert all(len({cable for cable, _rail in tests}) == 2 and {rail for _cable, rail in tests} == {"a", "b"} for tests in staggered)


@st.composite
def custom_cables(draw: Any) -> tuple[int, list[dict[str, str]]]:
    """Draw any legal cabling: plugs joined at random, some to the switch, each node with a cable."""
    count = draw(st.integers(2, 24))
    random = draw(st.randoms(use_true_random=False))
    switch_share = draw(st.sampled_from([0, 0, 0.3, 0.7]))
    plugs = [(node, port) for node in range(1, count + 1) for port in (0, 1)]
    random.shuffle(plugs)
    cables: list[dict[str, str]] = []
    cabled: set[int] = set()
    while plugs:
        node, port = plugs.pop()
        partner = next((plug for plug in plugs if plug[0] != node), None)
        if random.random() < switch_share or partner is None:
            if switch_share or node not in cabled:
                cables.append({"a": f"n{node}:{port}", "b": "switch"})
                cabled.add(node)
        elif node not in cabled or partner[0] not in cabled or random.random() < 0.7:
            plugs.remove(partner)
            cables.append({"a": f"n{node}:{port}", "b": f"n{partner[0]}:{partner[1]}"})
            cabled |= {node, partner[0]}
    for node in range(1, count + 1):
        if node not in cabled:
            cables.append({"a": f"n{node}:0", "b": "switch"})
    return count, cables


def is_equal_port_triangle(count: int, cables: list[dict[str, str]]) -> bool:
    direct = [cable for cable in cables if cable["b"] != "switch"]
    return count == 3 and len(direct) == 3 == len(cables) and any(cable["a"][-1] == cable["b"][-1] for cable in direct)


@examples(120, share=0.02)
@given(custom_cables())
def test_custom_graphs_keep_their_bound(drawn: tuple[int, list[dict[str, str]]]) -> None:
    count, cables = drawn
    if is_equal_port_triangle(count, cables):
        return
    plan = plan_of(count, fabric_topology="custom", fabric_cables=cables)
    directed, both = counts(plan)
    sends = Counter(test["client"] for test in plan["tests"] if not test["bidirectional"] and test["rail"] == "a")
    assert directed == max(sends.values(), default=0)
    runs = [test for test in plan["tests"] if test["bidirectional"]]
    if any(cable["b"] == "switch" for cable in cables):
        degree = Counter(node for test in runs for node in (test["client"], test["server"]))
        parallel = Counter(frozenset((test["client"], test["server"])) for test in runs)
    else:
        degree = Counter(node.rpartition(":")[0] for cable in cables for node in cable.values())
        parallel = Counter(frozenset(node.rpartition(":")[0] for node in cable.values()) for cable in cables)
        assert directed <= max(degree.values())
    if runs:
        assert both <= max(degree.values()) + max(parallel.values())


@examples(40, share=0.02)
@given(st.sampled_from([("pair", 2), ("mesh", 3), ("ring", 6), ("switch", 5)]), st.integers(1, 14))
def test_most_concurrent_tests(shape: tuple[str, int], most: int) -> None:
    topology, count = shape
    free, limited = plan_of(count, fabric_topology=topology), plan_of(count, fabric_topology=topology, fabric_max_concurrent_tests=most)
    check_conflict_free(limited)
    check_complete(limited)
    assert max(test["concurrent"] for test in limited["tests"]) <= most
    assert len(limited["tests"]) == len(free["tests"])
    alone = {test["expected_gbps"] for test in limited["tests"] if test["stage"] == "directed"}
    assert alone == ({109.0} if most == 1 else {98.0})


@examples(50, share=0.02)
@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=80))
def test_bipartite_colours_are_proper_and_least(edges: list[tuple[int, int]]) -> None:
    colours = bipartite_colours(edges)
    assert len({(edge[0], colour) for edge, colour in zip(edges, colours)}) == len(edges)
    assert len({(edge[1], colour) for edge, colour in zip(edges, colours)}) == len(edges)
    degrees = Counter(("from", tail) for tail, _head in edges) + Counter(("to", head) for _tail, head in edges)
    assert len(set(colours)) == max(degrees.values(), default=0)


@pytest.mark.parametrize("length", range(2, 66))
def test_ring_colourings_are_proper(length: int) -> None:
    colours = ring_colours(length)
    assert all(one != other for one, other in zip(colours, colours[1:] + colours[:1]))
    assert max(colours) + 1 == 2 + length % 2
    if length > 2:
        pairs = doubled_ring_colours(length)
        assert all(not set(one) & set(other) for one, other in zip(pairs, pairs[1:] + pairs[:1]))
        assert max(colour for pair in pairs for colour in pair) + 1 == doubled_cycle(length)


def test_what_else_is_measured_is_chosen_by_variables() -> None:
    plan = plan_of(3, fabric_topology="mesh", fabric_rdma_tests=["read"], fabric_iperf3_streams=[8], fabric_iperf3_seconds=1, fabric_test_queue_pairs=4)
    assert {(test["stage"], test["tool"], test["seconds"], test.get("streams"), test.get("queue_pairs")) for test in plan["further_tests"]} == {
        ("read", "ib_read_bw", 5, None, 4), ("tcp", "iperf3", 1, 8, None)}
    assert {test["queue_pairs"] for test in plan["tests"]} == {4}
    nothing = plan_of(3, fabric_topology="mesh", fabric_rdma_tests=[], fabric_iperf3_streams=[])
    assert (nothing["further_tests"], nothing["further_rounds"], nothing["rounds"]) == ([], 0, 5)


def test_latency_is_no_bandwidth() -> None:
    plan = plan_of(2, fabric_topology="pair", fabric_latency_iterations=250000)
    tests = [test for test in plan["further_tests"] if test["stage"] == "send_latency"]
    assert {(test["tool"], test["seconds"], test["iterations"], test["size_bytes"], test["expected_gbps"], test["bidirectional"]) for test in tests} == {
        ("ib_send_lat", 3, 250000, 2, None, False)}
