# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The launch environment of vLLM with Ray on each node (vllm.env), from the plan: NCCL's and what vLLM, PyTorch and Ray read beside it."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_files import environment_text

RAY_PORT = 6379
"""Ray's own default for the head."""
OBJECT_STORE_BYTES = 2**30
RANKS_FOLLOW_CABLES = ("ring", "graph")
DEBUG_PREFIX = "NCCL_DEBUG"

INTERFACE_VARIABLES = (
    ("TP_SOCKET_IFNAME", "PyTorch's TensorPipe on the interface that Gloo uses"),
    ("MN_IF_NAME", "launch scripts that ask for the interface of a run over several nodes, the one that Gloo uses"),
)
ADDRESS_VARIABLES = (
    ("VLLM_HOST_IP", "the address by which vLLM's workers know this node; a guess picks any of its interfaces"),
    ("RAY_NODE_IP_ADDRESS", "Ray's address of this node, the same as vLLM's, or vLLM looks for a node that Ray does not have"),
    ("RAY_OVERRIDE_NODE_IP_ADDRESS", "keeps Ray from working out another address of this node by itself"),
)
FIXED = (
    ("NCCL_IGNORE_CPU_AFFINITY", "1", "NCCL's threads go by the GPU's place, whatever cores the launcher left to the process"),
    ("RAY_memory_monitor_refresh_ms", "0", "GPU and CPU share the memory: Ray's monitor would take the model for a leak and kill its workers"),
    ("RAY_num_prestart_python_workers", "0", "idle workers of Ray would take memory that the model needs"),
    ("RAY_object_store_memory", str(OBJECT_STORE_BYTES), "1 GiB; Ray's default, 30 % of the memory, would be missing for the model"),
)


def vllm_environment(plan: dict[str, Any], name: str) -> list[dict[str, str]]:
    """Return the environment of a node of the plan as [{name, value, reason}].

    What the plan's NCCL environment sets stands as it is, except NCCL_DEBUG and its like. The node's address is left out where the
    plan knows only a host name, and so is what ``fabric_nccl_environment`` sets to null.
    """
    node = plan["nodes"][name]
    entries = [entry for entry in node["nccl_environment"] if not entry["name"].startswith(DEBUG_PREFIX)]
    interface = _interface(node)
    found = [] if interface is None else [(variable, interface, reason) for variable, reason in INTERFACE_VARIABLES]
    address = node_address(node)
    if address is not None:
        found += [(variable, address, reason) for variable, reason in ADDRESS_VARIABLES]
    taken = {entry["name"] for entry in entries} | set(plan["settings"]["fabric_nccl_environment"])
    added = [{"name": variable, "value": value, "reason": reason} for variable, value, reason in (*found, *FIXED) if variable not in taken]
    return [{key: entry[key] for key in ("name", "value", "reason")} for entry in (*entries, *added)]


def _interface(node: dict[str, Any]) -> str | None:
    """Return the interface on which processes meet: Gloo's, since PyTorch reads both in one syntax."""
    return next((entry["value"] for entry in node["nccl_environment"] if entry["name"] == "GLOO_SOCKET_IFNAME"), None)


def node_address(node: dict[str, Any]) -> str | None:
    """Return the IP address of the interface on which processes meet; None where the plan does not know one that other nodes reach."""
    met = node["interfaces"].get(_interface(node))
    address = met["address"] if met is not None and met["address"] else node["management"]["address"]
    try:
        return None if ip_address(address).is_loopback else address
    except ValueError:
        return None


def vllm_remarks(plan: dict[str, Any], name: str) -> list[str]:
    """Return what to know before starting on a node: its rank, how to start there, and what is missing."""
    node, order = plan["nodes"][name], plan["rank_order"]
    head = node_address(plan["nodes"][order[0]]) or f"ADDRESS-OF-{order[0]}"
    own = node_address(node)
    said = own or f"ADDRESS-OF-{name}"
    rank = order.index(name)
    remarks = []
    if own is None:
        remarks.append(
            f"no address: {node['management']['address']} is no IP address that other nodes reach, so "
            f"{', '.join(variable for variable, _reason in ADDRESS_VARIABLES)} are left out; set fabric_management_address of {name} to its IP address"
        )
    if plan["shape"] in RANKS_FOLLOW_CABLES:
        remarks.append(f"not by Ray: on a {plan['shape']} ranks have to follow the cables ({', '.join(order)}), and Ray hands them out by itself")
        remarks.append(
            f"start: vllm serve MODEL --tensor-parallel-size {len(order)} --nnodes {len(order)} --node-rank {rank} --master-addr {head}"
            f"{' --headless' if rank else ''}"
        )
        return remarks
    place = "--head --port" if rank == 0 else "--address"
    target = RAY_PORT if rank == 0 else f"{head}:{RAY_PORT}"
    remarks.append(f"start: ray start {place}={target} --node-ip-address={said} --object-store-memory={OBJECT_STORE_BYTES} --block")
    if rank == 0:
        remarks.append(f"then, once all {len(order)} are there: vllm serve MODEL --tensor-parallel-size {len(order)} --distributed-executor-backend ray")
    return remarks


def vllm_text(plan: dict[str, Any], name: str) -> str:
    """Return the text of a node's vllm.env."""
    return environment_text(name, vllm_environment(plan, name), "launch environment of vLLM", vllm_remarks(plan, name))
