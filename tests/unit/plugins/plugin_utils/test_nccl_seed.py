# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The environment files of all topologies against the exports of the guides that they come from, line by line; docs/nccl.md explains each difference."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_library import MARKER, adapted
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan_documents import plan_documents
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.healthy import plan_of

DOCUMENT = pathlib.Path(__file__).resolve().parents[4] / "docs/nccl.md"
#: What the guides export, by topology. "x" arguments of mpirun count as exports.
PAIR = {
    "UCX_NET_DEVICES": "enp1s0f1np1",
    "NCCL_SOCKET_IFNAME": "enp1s0f1np1",
    "OMPI_MCA_btl_tcp_if_include": "enp1s0f1np1",
    "NCCL_IB_HCA": "rocep1s0f1,roceP2p1s0f1",
    "NCCL_IB_DISABLE": "0",
}
MESH = {
    "UCX_NET_DEVICES": "enP7s7",
    "NCCL_SOCKET_IFNAME": "enP7s7",
    "OMPI_MCA_btl_tcp_if_include": "enP7s7",
    "NCCL_IB_HCA": "rocep1s0f0,roceP2p1s0f0,rocep1s0f1,roceP2p1s0f1",
    "NCCL_IB_DISABLE": "0",
    "NCCL_IB_MERGE_NICS": "0",
    "NCCL_NET_PLUGIN": "none",
    "NCCL_IB_SUBNET_AWARE_ROUTING": "1",
}
RING = {"NCCL_SWITCHLESS_RING_ONLY": "1", "NCCL_ALGO": "Ring", "NCCL_MIN_NCHANNELS": "4", "NCCL_MAX_NCHANNELS": "4"}
OURS_ALONE = {"GLOO_SOCKET_IFNAME"}
ON_MANAGEMENT = {"UCX_NET_DEVICES", "NCCL_SOCKET_IFNAME", "OMPI_MCA_btl_tcp_if_include"}


def environment(plan: dict[str, Any], host: str = "spark1") -> dict[str, str]:
    """Return the assignments in a host's ``nccl.env`` as it is written."""
    text = plan_documents(plan, json.dumps)[f"{host}/nccl.env"]
    return dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))


def differences(seed: dict[str, str], ours: dict[str, str]) -> set[str]:
    """Return the names of lines that are not the same in both."""
    return {name for name in {*seed, *ours} if seed.get(name) != ours.get(name)}


@pytest.mark.parametrize(("topology", "count"), [("pair", 2), ("switch", 4)])
def test_pair_and_switch(topology: str, count: int) -> None:
    assert differences(PAIR, environment(plan_of(topology, count, fabric_nccl_bootstrap="fabric"))) == OURS_ALONE
    assert differences(PAIR, environment(plan_of(topology, count))) == OURS_ALONE | ON_MANAGEMENT


def test_mesh() -> None:
    assert differences(MESH, environment(plan_of("mesh", 3))) == OURS_ALONE


def test_ring_with_a_library_that_knows_the_marker_and_one_that_does_not() -> None:
    plan = plan_of("ring", 4, fabric_ring_order=["spark1", "spark2", "spark4", "spark3"])
    stock = environment(plan)
    assert differences({**MESH, **RING}, stock) == OURS_ALONE | {MARKER, "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS"}
    entries = adapted(plan["nodes"]["spark1"]["nccl_environment"], {MARKER: True}, plan["shape"], plan["nccl"]["profile"])
    assert differences({**MESH, **RING}, {entry["name"]: entry["value"] for entry in entries}) == OURS_ALONE
    profile = environment(plan_of("ring", 4, fabric_nccl_profile="switchless_ring"))
    assert differences({**MESH, **RING}, profile) == OURS_ALONE


def test_debug_output_is_never_installed_and_every_value_has_its_reason() -> None:
    for topology, count in (("pair", 2), ("mesh", 3), ("ring", 4), ("switch", 3)):
        plan = plan_of(topology, count)
        text = plan_documents(plan, json.dumps)["spark1/nccl.env"].splitlines()
        assert not any(line.startswith("NCCL_DEBUG") for line in text)
        assert all(text[place - 1].startswith("# ") for place, line in enumerate(text) if not line.startswith("#"))


def test_the_document_explains_each_difference() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    for name in {*OURS_ALONE, *ON_MANAGEMENT, *RING, "NCCL_IB_GID_INDEX"}:
        assert re.search(rf"`{name}`", text), f"docs/nccl.md does not explain {name}"
