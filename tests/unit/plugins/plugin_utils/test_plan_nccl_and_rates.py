# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NCCL's environment and the expected rates."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.nccl_environment import version_below
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan import make_plan
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rates import pcie_gbps, rdma_mtu, wire_efficiency


def plan_of(count: int, **common: Any) -> dict[str, Any]:
    return make_plan({f"spark{number}": {"ansible_host": f"10.77.0.{number}", **common} for number in range(1, count + 1)})


def environment(plan: dict[str, Any], node: str = "spark1") -> dict[str, str]:
    entries = plan["nodes"][node]["nccl_environment"]
    assert all(entry["reason"] and isinstance(entry["value"], str) for entry in entries)
    return {entry["name"]: entry["value"] for entry in entries}


def ids(plan: dict[str, Any]) -> set[str]:
    return {note["id"] for note in plan["notes"]}


def test_pair_with_bootstrap_on_the_fabric_is_the_seeds() -> None:
    assert environment(plan_of(2, fabric_topology="pair", fabric_nccl_bootstrap="fabric")) == {
        "UCX_NET_DEVICES": "enp1s0f1np1",
        "NCCL_SOCKET_IFNAME": "enp1s0f1np1",
        "OMPI_MCA_btl_tcp_if_include": "enp1s0f1np1",
        "GLOO_SOCKET_IFNAME": "enp1s0f1np1",
        "NCCL_IB_HCA": "rocep1s0f1,roceP2p1s0f1",
        "NCCL_IB_DISABLE": "0",
    }


def test_mesh_is_the_seeds() -> None:
    plan = plan_of(3, fabric_topology="mesh")
    assert environment(plan) == {
        "UCX_NET_DEVICES": "enP7s7",
        "NCCL_SOCKET_IFNAME": "enP7s7",
        "OMPI_MCA_btl_tcp_if_include": "enP7s7",
        "GLOO_SOCKET_IFNAME": "enP7s7",
        "NCCL_IB_HCA": "rocep1s0f0,roceP2p1s0f0,rocep1s0f1,roceP2p1s0f1",
        "NCCL_IB_DISABLE": "0",
        "NCCL_IB_MERGE_NICS": "0",
        "NCCL_NET_PLUGIN": "none",
        "NCCL_IB_SUBNET_AWARE_ROUTING": "1",
    }
    assert plan["nccl"]["least_version"] == "2.30.7"
    assert "plan.management_interface_assumed" in ids(plan)
    assert {entry["name"] for entry in plan["nodes"]["spark1"]["nccl_environment"] if entry["follows"]} == {
        "UCX_NET_DEVICES",
        "NCCL_SOCKET_IFNAME",
        "OMPI_MCA_btl_tcp_if_include",
        "GLOO_SOCKET_IFNAME",
    }


def test_switch_needs_no_routing() -> None:
    plan = plan_of(4, fabric_topology="switch", fabric_management_interface="wlP9s9")
    assert plan["nccl"]["least_version"] is None
    found = environment(plan)
    assert found["NCCL_SOCKET_IFNAME"] == "wlP9s9" and "NCCL_IB_SUBNET_AWARE_ROUTING" not in found
    assert "plan.management_interface_assumed" not in ids(plan)


def test_ring_adds_the_algorithm_and_profiles() -> None:
    plan = plan_of(4, fabric_topology="ring")
    assert environment(plan)["NCCL_ALGO"] == "Ring" and "plan.ring_trees" in ids(plan)
    connect = plan_of(4, fabric_topology="ring", fabric_nccl_profile="runtime_connect")
    assert environment(connect)["NCCL_RUNTIME_CONNECT"] == "1" and environment(connect)["NCCL_CUMEM_ENABLE"] == "1"
    assert "plan.ring_trees" not in ids(connect)
    patched = environment(plan_of(4, fabric_topology="ring", fabric_nccl_profile="switchless_ring"))
    assert {patched[name] for name in ("NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS")} == {"4"} and patched["NCCL_SWITCHLESS_RING_ONLY"] == "1"


def test_overrides_replace_add_and_leave_out() -> None:
    wanted = {"NCCL_IB_MERGE_NICS": 1, "NCCL_NET_PLUGIN": None, "NCCL_PROTO": "^LL128", "NCCL_IB_GID_INDEX": 3}
    plan = plan_of(3, fabric_topology="mesh", fabric_nccl_environment=wanted)
    found = environment(plan)
    assert found["NCCL_IB_MERGE_NICS"] == "1" and "NCCL_NET_PLUGIN" not in found and found["NCCL_PROTO"] == "^LL128"
    assert "plan.gid_index_pinned" in ids(plan)
    assert "NCCL_IB_GID_INDEX" not in environment(plan_of(3, fabric_topology="mesh"))


@pytest.mark.parametrize(
    ("version", "old"), [("v2.28.9-1", True), ("2.30.7", False), ("2.30.7-1", False), ("2.31", False), ("2.30", False), ("2.29", True)]
)
def test_too_old_versions_are_noted(version: str, old: bool) -> None:
    assert version_below(version, "2.30.7") is old
    assert ("plan.nccl_too_old" in ids(plan_of(3, fabric_topology="mesh", fabric_nccl_version=version))) is old


def test_long_prefixes_inside_one_24_are_noted() -> None:
    cables = [
        {
            "a": "spark1:1",
            "b": "spark2:1",
            "networks": ["10.1.0.0/30", "10.1.0.4/30"],
            "addresses": {"spark1": ["10.1.0.1", "10.1.0.5"], "spark2": ["10.1.0.2", "10.1.0.6"]},
        }
    ]
    assert "plan.long_prefix" in ids(
        plan_of(
            2,
            fabric_topology="pair",
            fabric_cables=cables,
        )
    )


@pytest.mark.parametrize(
    ("mtu", "rdma"), [(1280, 1024), (1500, 1024), (2143, 1024), (2144, 2048), (4191, 2048), (4192, 4096), (9000, 4096), (9216, 4096)]
)
def test_rdma_mtu(mtu: int, rdma: int) -> None:
    assert rdma_mtu(mtu) == rdma


def test_formulas() -> None:
    assert wire_efficiency(4096) == pytest.approx(0.980, abs=0.0005)
    assert wire_efficiency(1024) == pytest.approx(0.926, abs=0.0005)
    assert pcie_gbps() == pytest.approx(109.0, abs=0.05)
    assert pcie_gbps(512) == pytest.approx(121.3, abs=0.05)


def test_default_rates() -> None:
    expected = plan_of(2, fabric_topology="pair")["expected"]
    assert (
        expected["rail_gbps"] == {"1": 109.0}
        and expected["cable_gbps"] == {"1": 196.1}
        and expected["rail_bidirectional_gbps"] == {"1": 213.0}
    )
    assert expected["ceiling_gbps"] == {"rail": 121.3, "cable": 196.1, "rail_bidirectional": 242.6}
    assert "128/130" in expected["formula"] and "190" in expected["formula"]


def test_slow_links_and_small_frames() -> None:
    plan = plan_of(2, fabric_topology="pair", fabric_link_gbps=100, fabric_mtu=1500)
    assert plan["expected"]["cable_gbps"] == {"1": 92.6} and plan["expected"]["rail_gbps"] == {"1": 92.6}
    assert {test["expected_gbps"] for test in plan["tests"]} == {46.3, 185.2}
    assert {"plan.slow_link", "plan.small_mtu"} <= ids(plan)


def test_rates_by_tests_at_once() -> None:
    plan = plan_of(3, fabric_topology="mesh", fabric_rail_gbps={1: 0.3, "2": 0.18, 6: 0.05}, fabric_rail_bidirectional_gbps=0.4)
    assert plan["expected"]["rail_gbps"] == {"1": 0.3, "2": 0.18, "6": 0.05}
    assert {(test["stage"], test["concurrent"], test["expected_gbps"]) for test in plan["tests"]} == {
        ("directed", 6, 0.05),
        ("bidirectional", 2, 0.4),
    }
    ring = plan_of(4, fabric_topology="ring", fabric_rail_gbps={1: 0.3, 2: 0.18, 6: 0.05})
    assert {(test["concurrent"], test["expected_gbps"]) for test in ring["tests"]} == {(8, 0.05), (4, 0.1)}
