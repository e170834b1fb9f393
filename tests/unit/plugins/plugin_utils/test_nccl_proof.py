# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which tests are run, what their records prove, and what is judged of them: recorded runs of real NCCL, and logs made from the plan."""

from __future__ import annotations

import copy
import json
import pathlib
from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_proof import digest, gids_changed, moved
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.judge import judge
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.nccl_curves import curve, ladder, small_messages
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.nccl_jobs import make_nccl_job
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.nccl_transport import prove
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures"
RING = {"fabric_ring_order": ["spark1", "spark2", "spark4", "spark3"]}
ALL_DEVICES = ["rocep1s0f0", "rocep1s0f1", "roceP2p1s0f0", "roceP2p1s0f1"]
GIGABYTE = 10**9


def channel(source: int, target: int, way: str, device: int, via: str = "NET/IB") -> dict[str, Any]:
    """Return one connection of a rank's log."""
    return {"source": source, "target": target, "way": way, "via": via, "device": device, "channels": 2}


def rank_log(plan: dict[str, Any], order: list[str], node: str, wrong: bool = False, one_rail: bool = False) -> dict[str, Any]:
    """Return what the log of a healthy rank says: to the next and from the one before, over both rails of the cable that joins them."""
    mine, devices = order.index(node), dict(enumerate(ALL_DEVICES))
    number = {name: index for index, name in devices.items()}
    channels = []
    for step, way in ((1, "send"), (-1, "receive")):
        peer = order[(mine + step) % len(order)]
        leading = [entry["rdma_device"] for entry in plan["nodes"][node]["interfaces"].values() if peer in [other["node"] for other in entry["peers"]]]
        if wrong:
            leading = [name for name in ALL_DEVICES if name not in leading]
        ends = (mine, order.index(peer)) if step == 1 else (order.index(peer), mine)
        channels += [channel(*ends, way, number[name]) for name in leading[: 1 if one_rail else None]]
    return {
        "rank": mine,
        "networks": ["IB"],
        "devices": {str(index): [name] for index, name in devices.items()},
        "channels": channels,
        "overrides": [],
        "no_device": False,
        "rings_connected": True,
        "warnings": [],
    }


def run_of(plan: dict[str, Any], nodes: list[str] | None = None, busbw: float = 20.0, group: str = "all", **changes: Any) -> dict[str, Any]:
    """Return the record of a healthy run."""
    order = nodes or plan["rank_order"]
    rows = []
    for power in range(12, 31):
        figure = round(busbw * 2**power / (2**power + 2**22), 3)
        place = {"time_us": 30 + 2**power / busbw / 1e3, "algbw_gbytes_per_s": figure, "busbw_gbytes_per_s": figure, "wrong": 0}
        rows.append({"size_bytes": 2**power, "count": 1, "out_of_place": place, "in_place": place})
    records = []
    for node in order:
        devices = {name: {"tx_bytes": 40 * GIGABYTE, "rx_bytes": 40 * GIGABYTE, "source": "port_xmit_data", "interface": "x"} for name in ALL_DEVICES}
        records.append(
            {
                "node": node,
                "exit_code": 0,
                "gids_changed": [],
                "bytes": {"devices": devices, "interfaces": {"enP7s7": {"tx_bytes": 10**6, "rx_bytes": 10**6}}},
                "ended": [],
                "log": rank_log(plan, order, node),
            }
        )
    return {
        "id": f"all_reduce-{group}",
        "collective": "all_reduce_perf",
        "group": group,
        "sweep": True,
        "nodes": order,
        "status": "ok",
        "error": "",
        "message": "",
        "rows": rows,
        "devices": [{"rank": rank, "group": 0, "host": node} for rank, node in enumerate(order)],
        "rank_records": records,
        "validation": True,
        **changes,
    }


def fact_of(plan: dict[str, Any], *runs: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the fact of a launching node."""
    nodes = {node: {"nccl_version": "2.30.7"} for node in plan["nodes"]}
    return {
        "status": "done",
        "message": "",
        "fix": "",
        "nodes": nodes,
        "problems": [],
        "runs": list(runs),
        "not_run": [],
        "left": [],
        "stand_in": False,
        **changes,
    }


def judged(plan: dict[str, Any], fact: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the findings of layer nccl by id."""
    data = healthy.healthy_run(plan)
    data["nccl"] = {"spark1": fact}
    return {one["id"]: one for one in judge(data)["findings"] if one["layer"] == "nccl"}


def bad(findings: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Return what is neither pass nor skip."""
    return {name: one["status"] for name, one in findings.items() if one["status"] not in ("pass", "skip")}


def recorded(name: str) -> dict[str, Any]:
    """Return a fact that real NCCL left on three nodes."""
    return json.loads((FIXTURES / "nccl" / f"{name}-3-nodes.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("topology", "count", "more"), [("mesh", 3, {}), ("ring", 4, RING), ("pair", 2, {})])
def test_a_healthy_run_is_proven(topology: str, count: int, more: dict[str, Any]) -> None:
    plan = healthy.plan_of(topology, count, **more)
    findings = judged(plan, fact_of(plan, run_of(plan, busbw=24.0)))
    assert not bad(findings)
    assert findings["nccl.transport"]["status"] == "pass" and findings["nccl.hops"]["status"] == "pass" and findings["nccl.byte_share"]["status"] == "pass"


def test_recorded_fall_back_to_tcp_fails_and_expected_sockets_pass() -> None:
    plan = healthy.plan_of("switch", 3)
    findings = judged(plan, recorded("fallback"))
    assert bad(findings) == {"nccl.transport": "fail"}
    assert "spark2 used Socket (it found no RDMA device)" in findings["nccl.transport"]["message"]
    sockets = healthy.plan_of("switch", 3, fabric_nccl_environment={"NCCL_NET": "Socket"})
    found = judged(sockets, recorded("socket"))
    assert found["nccl.transport"]["status"] == "pass" and "nccl.hops" not in found


def test_a_cable_that_does_not_reach_the_peer_is_named() -> None:
    plan = healthy.plan_of("ring", 4, **RING)
    run = run_of(plan)
    run["rank_records"][1]["log"] = rank_log(plan, run["nodes"], "spark2", wrong=True)
    findings = judged(plan, fact_of(plan, run))
    assert findings["nccl.hops"]["status"] == "fail" and "spark2 to spark4 over" in findings["nccl.hops"]["message"]
    assert "which leads to spark1" in findings["nccl.hops"]["message"]


def test_a_device_replaced_by_routing_is_followed() -> None:
    plan = healthy.plan_of("ring", 4, **RING)
    run = run_of(plan)
    log = rank_log(plan, run["nodes"], "spark2", wrong=True)
    right = {name: index for index, name in enumerate(ALL_DEVICES)}
    log["overrides"] = [[right[f"{prefix}f{port}"], right[f"{prefix}f{1 - port}"]] for prefix in ("rocep1s0", "roceP2p1s0") for port in (0, 1)]
    run["rank_records"][1]["log"] = log
    assert not bad(
        judged(
            plan,
            fact_of(
                plan,
                run,
            ),
        )
    )
    # Both rails replaced by the first alone: one rail of two, though every channel line looks right.
    log["overrides"] = [[before, right["rocep1s0f0" if before % 2 else "rocep1s0f1"]] for before in range(4)]
    assert "nccl.rails" in bad(judged(plan, fact_of(plan, run)))


@pytest.mark.parametrize(
    ("change", "rule", "words"),
    [
        ("one_rail", "nccl.rails", "without"),
        ("silent", "nccl.transport_unknown", "spark3"),
        ("no_lines", "nccl.hops_unknown", "no channel line"),
        ("merged", "nccl.merged", "rocep1s0f0 and rocep1s0f1"),
        ("stranger", "nccl.devices", "mlx5_9"),
        ("gids", "nccl.void", "spark3 rocep1s0f0"),
        ("share", "nccl.byte_share", "spark3"),
        ("elsewhere", "nccl.transport", "enP7s7"),
    ],
)
def test_each_fault_of_a_record_has_its_finding(change: str, rule: str, words: str) -> None:
    plan = healthy.plan_of("ring", 4, **RING)
    run = run_of(plan)
    record = next(record for record in run["rank_records"] if record["node"] == "spark3")
    if change == "one_rail":
        record["log"] = rank_log(plan, run["nodes"], "spark3", one_rail=True)
    elif change == "silent":
        record["log"] = None
    elif change == "no_lines":
        record["log"]["channels"] = []
    elif change == "merged":
        record["log"]["devices"]["4"] = ["rocep1s0f0", "rocep1s0f1"]
    elif change == "stranger":
        record["log"]["devices"]["0"] = ["mlx5_9"]
    elif change == "gids":
        record["gids_changed"] = ["rocep1s0f0"]
    elif change == "share":
        record["bytes"]["devices"]["rocep1s0f0"] = {"tx_bytes": 10**6, "rx_bytes": 10**6, "source": "port_xmit_data", "interface": "x"}
    else:
        record["bytes"]["interfaces"]["enP7s7"]["tx_bytes"] = 10**12
    findings = judged(plan, fact_of(plan, run))
    assert rule in bad(findings) and words in findings[rule]["message"]


def test_the_stand_in_never_satisfies_the_transport_check() -> None:
    plan = healthy.plan_of("ring", 4, **RING)
    findings = judged(plan, fact_of(plan, run_of(plan), stand_in=True))
    assert bad(findings) == {"nccl.stand_in": "warn"}
    assert not {"nccl.transport", "nccl.hops", "nccl.rails"} & set(findings) and findings["nccl.ring_bandwidth"]["status"] == "skip"


@pytest.mark.parametrize(
    ("fact", "rule", "status"),
    [
        ({"status": "refused", "message": "no cable", "fix": "use the order"}, "nccl.refused", "fail"),
        (
            {"status": "failed", "message": "it ended", "failures": [{"name": "ssh_denied", "line": "Permission denied", "subject": "spark2"}]},
            "nccl.launch",
            "fail",
        ),
        ({"status": "lost", "message": "spark1 is gone"}, "nccl.measured", "unknown"),
        ({"status": "done", "runs": []}, "nccl.measured", "unknown"),
    ],
)
def test_what_gave_no_run_fails(fact: dict[str, Any], rule: str, status: str) -> None:
    plan = healthy.plan_of("mesh", 3)
    findings = judged(plan, {**fact_of(plan), **fact})
    assert findings[rule]["status"] == status
    if rule == "nccl.launch":
        assert "authorized_keys" in findings[rule]["cause"] and "BatchMode" in findings[rule]["fix"]


def test_without_a_gpu_the_layer_is_a_skip_with_the_reason() -> None:
    plan = healthy.plan_of("mesh", 3)
    nodes = {node: {**healthy.node_facts(plan, node), "gpus": 0} for node in plan["nodes"]}
    job = make_nccl_job(plan, nodes, "unit-run", {})
    findings = judged(plan, job["skip"])
    assert (
        list(findings) == ["nccl.measured"]
        and findings["nccl.measured"]["status"] == "skip"
        and "no NVIDIA GPU on spark1" in findings["nccl.measured"]["message"]
    )


def test_failed_runs_tell_their_cause() -> None:
    plan = healthy.plan_of("ring", 4, **RING)
    run = run_of(plan, status="failed", error="exit_status", message="the run failed")
    run["rank_records"][0]["log"]["warnings"] = [
        {"text": "Call to ibv_modify_qp failed with 110 Connection timed out", "count": 1, "errno": 110, "device": "rocep1s0f0"}
    ]
    found = judged(plan, fact_of(plan, run))["nccl.ran"]
    assert found["status"] == "fail" and "trees" in found["cause"]
    run["rank_records"][0]["log"]["rings_connected"] = False
    assert "right cable" in judged(plan, fact_of(plan, run))["nccl.ran"]["cause"]
    wrong = run_of(plan, status="failed", error="wrong_data", message="3 values are wrong")
    assert bad(judged(plan, fact_of(plan, wrong)))["nccl.wrong_data"] == "fail"


def test_slow_figures_and_impossible_ones() -> None:
    plan = healthy.plan_of("ring", 4, **RING)
    pair = ["spark1", "spark2"]
    assert bad(judged(plan, fact_of(plan, run_of(plan, busbw=12.0)))) == {"nccl.ring_bandwidth": "fail"}
    assert bad(judged(plan, fact_of(plan, run_of(plan, busbw=16.0)))) == {"nccl.ring_bandwidth": "warn"}
    assert bad(judged(plan, fact_of(plan, run_of(plan, pair, 12.0, "first")))) == {"nccl.bandwidth": "fail"}
    assert "nccl.ceiling" in bad(judged(plan, fact_of(plan, run_of(plan, busbw=60.0))))
    both = judged(plan, fact_of(plan, run_of(plan, pair, 24.0, "first"), run_of(plan, busbw=18.8)))
    assert bad(both) == {"nccl.scaling": "warn"}


def test_curves_ladder_and_small_messages() -> None:
    plan = healthy.plan_of("ring", 4, **RING)
    two, everybody = run_of(plan, ["spark1", "spark2"], 24.0, "first"), run_of(plan, busbw=24.096)
    found = curve(everybody)
    assert found is not None and found["saturates_bytes"] == 2**26 and 2**17 <= found["floor_to_bytes"] <= 2**19
    rungs = ladder([two, everybody])
    assert [rung["size_bytes"] >> 20 for rung in rungs] == [1, 8, 64, 256] and all(abs(rung["ratio"] - 1.004) < 0.002 for rung in rungs)
    assert [(entry["size_bytes"], entry["nodes"]) for entry in small_messages([two, everybody])] == [(4096, 4)]
    assert curve({"rows": []}) is None and ladder([two]) == []


def test_tests_of_a_ring_leave_out_what_needs_every_cable() -> None:
    plan = healthy.plan_of("ring", 4, **RING)
    nodes = {node: {**healthy.node_facts(plan, node), "gpus": 1} for node in plan["nodes"]}
    job = make_nccl_job(plan, nodes, "unit-run", {"collectives": ["all_reduce", "alltoall"], "groups": "neighbours"})
    assert job["order"] == ["spark1", "spark2", "spark4", "spark3"] and job["node"] == "spark1"
    assert [test["nodes"] for test in job["tests"] if test["sweep"] and test["collective"] == "all_reduce"][-1] == job["order"]
    assert sum(test["group"] == "pair" and test["sweep"] and test["collective"] == "all_reduce" for test in job["tests"]) == 4
    assert [entry["id"] for entry in job["not_run"]] == ["alltoall-all"]
    del nodes["spark3"]
    assert "spark3" in make_nccl_job(plan, nodes, "unit-run", {})["skip"]["message"]
    with pytest.raises(FabricError, match="gossip"):
        make_nccl_job(plan, {**nodes, "spark3": {}}, "unit-run", {"collectives": ["gossip"]})


def test_a_log_becomes_a_record() -> None:
    log = "\n".join(
        [
            "spark1:1:2 [0] NCCL INFO NCCL version 2.30.7+cuda13.0",
            "spark1:1:2 [0] NCCL INFO NET/IB : Using [0]rocep1s0f0:1/RoCE [1]rocep1s0f1:1/RoCE [RO]; OOB enP7s7:10.0.0.1<0>",
            "spark1:1:2 [0] NCCL INFO Using network IB",
            "spark1:1:2 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 0 busId 60 - Init START",
            "spark1:1:3 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/1",
            "spark1:1:3 [0] NCCL INFO NET/IB: Subnet-aware routing: overriding dev 1 with dev 0",
            "spark1:1:3 [0] NCCL INFO Connected all rings, use ring PXN 0 GDR 0",
        ]
    )
    record = digest(log)
    assert (
        record is not None
        and record["overrides"] == [[1, 0]]
        and record["channels"] == [{"source": 0, "target": 1, "way": "send", "via": "NET/IB", "device": 1, "channels": 1}]
    )
    assert record["networks"] == ["IB"] and record["bootstrap"] == "enP7s7" and record["rings_connected"]
    assert digest(None) is None and digest("nothing of NCCL\n") is None


def test_counters_that_went_back_are_left_out() -> None:
    before = {"devices": {"a": {"tx_bytes": 5, "rx_bytes": 5}, "b": {"tx_bytes": 9, "rx_bytes": 9}}, "interfaces": {}}
    after = {
        "devices": {"a": {"tx_bytes": 7, "rx_bytes": 6, "source": "port_xmit_data"}, "b": {"tx_bytes": 1, "rx_bytes": 9}},
        "interfaces": {"x": {"tx_bytes": 1, "rx_bytes": 1}},
    }
    assert moved(before, after) == {"devices": {"a": {"tx_bytes": 2, "rx_bytes": 1, "source": "port_xmit_data"}}, "interfaces": {}}
    assert moved(None, None) == {"devices": {}, "interfaces": {}} and gids_changed({"a": ["0 x"]}, {"a": ["0 x"], "b": []}) == ["b"]


def test_a_proof_of_nothing_proves_nothing() -> None:
    plan = healthy.plan_of("mesh", 3)
    run = run_of(plan)
    for record in run["rank_records"]:
        record["log"] = None
    assert not prove(plan, run).proven and len(prove(plan, copy.deepcopy(run)).silent) == 3
