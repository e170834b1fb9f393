# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The launch environment of vLLM with Ray, on every topology."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_files import MARK
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan import make_plan
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.vllm_environment import vllm_environment, vllm_text

DOCUMENT = pathlib.Path(__file__).resolve().parents[4] / "docs" / "vllm.md"
ALWAYS = {
    "NCCL_IB_DISABLE": "0",
    "NCCL_IGNORE_CPU_AFFINITY": "1",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_num_prestart_python_workers": "0",
    "RAY_object_store_memory": "1073741824",
}
ROUTED = {"NCCL_NET_PLUGIN": "none", "NCCL_IB_SUBNET_AWARE_ROUTING": "1", "NCCL_IB_MERGE_NICS": "0"}
INTERFACES = ("MN_IF_NAME", "UCX_NET_DEVICES", "NCCL_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME")
ADDRESSES = ("VLLM_HOST_IP", "RAY_NODE_IP_ADDRESS", "RAY_OVERRIDE_NODE_IP_ADDRESS")
ONE_PORT = "rocep1s0f1,roceP2p1s0f1"
BOTH_PORTS = "rocep1s0f0,roceP2p1s0f0,rocep1s0f1,roceP2p1s0f1"
LINE = [{"a": "spark1:0", "b": "spark2:1"}, {"a": "spark2:0", "b": "spark3:1"}, {"a": "spark3:0", "b": "spark4:1"}]

TOPOLOGIES: list[tuple[int, dict[str, Any], str, str, str, dict[str, str]]] = [
    (2, {"fabric_topology": "pair"}, "enP7s7", "10.77.0.2", ONE_PORT, {}),
    (2, {"fabric_topology": "pair", "fabric_nccl_bootstrap": "fabric"}, "enp1s0f1np1", "192.168.177.12", ONE_PORT, {}),
    (4, {"fabric_topology": "switch"}, "enP7s7", "10.77.0.2", ONE_PORT, {}),
    (4, {"fabric_topology": "switch", "fabric_nccl_bootstrap": "fabric"}, "enp1s0f1np1", "192.168.177.12", ONE_PORT, {}),
    (3, {"fabric_topology": "mesh"}, "enP7s7", "10.77.0.2", BOTH_PORTS, ROUTED),
    (4, {"fabric_topology": "ring"}, "enP7s7", "10.77.0.2", BOTH_PORTS, {**ROUTED, "NCCL_ALGO": "Ring"}),
    (4, {"fabric_topology": "custom", "fabric_cables": LINE}, "enP7s7", "10.77.0.2", BOTH_PORTS, {**ROUTED, "NCCL_ALGO": "Ring"}),
]


def plan_of(count: int, **common: Any) -> dict[str, Any]:
    return make_plan({f"spark{number}": {"ansible_host": f"10.77.0.{number}", **common} for number in range(1, count + 1)})


def values_of(plan: dict[str, Any], node: str = "spark2") -> dict[str, str]:
    return {entry["name"]: entry["value"] for entry in vllm_environment(plan, node)}


@pytest.mark.parametrize(("count", "common", "interface", "address", "devices", "more"), TOPOLOGIES)
def test_every_topology(count: int, common: dict[str, Any], interface: str, address: str, devices: str, more: dict[str, str]) -> None:
    plan = plan_of(count, **common)
    expected = {**ALWAYS, **more, **dict.fromkeys(INTERFACES, interface), **dict.fromkeys(ADDRESSES, address), "NCCL_IB_HCA": devices}
    assert values_of(plan) == expected
    for name in plan["nodes"]:
        text = vllm_text(plan, name)
        lines = text.splitlines()
        assert text.startswith(f"{MARK}: launch environment of vLLM on {name}\n") and "NCCL_DEBUG" not in text
        settings = [place for place, line in enumerate(lines) if not line.startswith("#")]
        assert all(re.fullmatch(r"[A-Za-z_]+=\S*", lines[place]) and lines[place - 1].startswith("# ") for place in settings)
        assert len(settings) == len(expected)


def test_ray_starts_on_the_first_rank_and_the_others_join_it() -> None:
    plan = plan_of(2, fabric_topology="pair")
    head, other = (vllm_text(plan, name) for name in plan["rank_order"])
    assert "# start: ray start --head --port=6379 --node-ip-address=10.77.0.1 --object-store-memory=1073741824 --block\n" in head
    assert "vllm serve MODEL --tensor-parallel-size 2 --distributed-executor-backend ray" in head
    assert "# start: ray start --address=10.77.0.1:6379 --node-ip-address=10.77.0.2 " in other and "vllm serve" not in other


def test_a_ring_keeps_its_rank_order_without_ray() -> None:
    plan = plan_of(4, fabric_topology="ring", fabric_ring_order=["spark1", "spark3", "spark2", "spark4"])
    texts = {name: vllm_text(plan, name) for name in plan["nodes"]}
    assert all("ray start" not in text and f"({', '.join(plan['rank_order'])})" in text for text in texts.values())
    for rank, name in enumerate(plan["rank_order"]):
        assert f"--nnodes 4 --node-rank {rank} --master-addr 10.77.0.1{' --headless' if rank else ''}\n" in texts[name]


@pytest.mark.parametrize("host", ["box.lan", "127.0.0.1", None])
def test_an_address_that_the_plan_does_not_know_is_left_out_and_said(host: str | None) -> None:
    plan = make_plan({"spark1": {"fabric_topology": "pair", **({"ansible_host": host} if host else {})}, "spark2": {"fabric_topology": "pair"}})
    assert not set(ADDRESSES) & set(values_of(plan, "spark1"))
    text = vllm_text(plan, "spark1")
    assert "set fabric_management_address of spark1 to its IP address" in text and "--node-ip-address=ADDRESS-OF-spark1 " in text
    assert "--address=ADDRESS-OF-spark1:6379" in vllm_text(plan, "spark2")


def test_what_the_inventory_sets_stands_and_debugging_never_does() -> None:
    own = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": "/tmp/x", "VLLM_HOST_IP": None, "NCCL_IGNORE_CPU_AFFINITY": 0, "GLOO_SOCKET_IFNAME": None,
           "NCCL_IB_TC": 106}
    plan = plan_of(2, fabric_topology="pair", fabric_nccl_environment=own)
    values = values_of(plan)
    assert values["NCCL_IGNORE_CPU_AFFINITY"] == "0" and values["NCCL_IB_TC"] == "106" and values["RAY_NODE_IP_ADDRESS"] == "10.77.0.2"
    assert not {"NCCL_DEBUG", "NCCL_DEBUG_FILE", "VLLM_HOST_IP", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "MN_IF_NAME"} & set(values)
    assert [entry["name"] for entry in vllm_environment(plan, "spark2")].count("NCCL_IGNORE_CPU_AFFINITY") == 1


def test_the_example_of_the_document_is_what_the_plan_gives() -> None:
    plan = plan_of(2, fabric_topology="pair", fabric_nccl_bootstrap="fabric")
    block = re.search(r"```sh\n(# Managed.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None and block.group(1) == vllm_text(plan, "spark1")
