# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sizing: every number of the ring of four machines that was published, from its inputs; the wrong ones with their right values."""

from __future__ import annotations

import pytest
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.sizing import size


def memory(**asked):
    return size({"memory": asked})["memory"]


def test_memory_of_four_machines():
    answer = memory(size_gb=800, nodes=4)
    assert answer["have_gib"] == pytest.approx(486.8)
    assert answer["have_gb"] == pytest.approx(522.70, abs=0.01)
    assert answer["nodes_needed"] == 7
    assert not answer["fits"]
    # 313 GB takes GiB from GB.
    assert answer["gap_gb"] == pytest.approx(277.3, abs=0.1)


def test_nodes_by_bytes_a_parameter():
    # 13 machines hold 1 byte a parameter; the measured 2.03 bytes need 25.
    assert 1506.69 / 744 == pytest.approx(2.03, abs=0.005)
    assert memory(parameters=1.6e12, bytes_per_parameter=2.03)["nodes_needed"] == 25
    assert memory(parameters=1.6e12, bytes_per_parameter=1)["nodes_needed"] == 13


def test_kv_cache_counts():
    cache = {"layers": 64, "kv_heads": 8, "head_size": 128, "context_tokens": 32768, "concurrency": 4}
    answer = memory(size_gb=100, kv_cache=cache)
    assert answer["kv_cache_gb"] == pytest.approx(2 * 64 * 8 * 128 * 2 * 32768 * 4 / 1e9)
    assert answer["nodes_needed"] == 2


def test_tensor_parallel_tax():
    answer = size({"tp_tax": {"layers": 40, "message_latency_us": 36.4, "token_ms": 17.76}})["tp_tax"]
    assert answer["tax_ms"] == pytest.approx(1.456)
    assert answer["share_percent"] == pytest.approx(8.2, abs=0.05)
    assert answer["basis"] == "computed"


@pytest.mark.parametrize(("counted", "rate", "faster"), [("both_ends", 6.92, "disk"), ("one_way", 13.84, "fabric")])
def test_disk_against_fabric_by_what_was_counted(counted, rate, faster):
    answer = size({"data_path": {"disk_gbytes_per_s": 9.9, "fabric_gbps": 110.7, "fabric_counted": counted}})["data_path"]
    assert answer["fabric_gbytes_per_s"] == pytest.approx(rate, abs=0.005)
    assert answer["faster"] == faster


@pytest.mark.parametrize(
    ("base", "reading", "ratio"),
    [
        (72.9, 73.4, 1.007), (103.6, 105.9, 1.022), (109.6, 110.4, 1.007), (110.9, 111.3, 1.004),
        (40.0, 102.3, 2.56), (40.0, 110.9, 2.77), (95.6, 110.7, 1.158), (31.5, 43.6, 1.38),
        (200, 105.2, 0.526), (200, 95.6, 0.478), (200, 99.9, 0.4995), (200, 110.7, 0.5535), (200, 102.85, 0.514),
    ],
)
def test_ladder(base, reading, ratio):
    assert size({"scaling": {"base": base, "reading": reading}})["scaling"]["ratio"] == pytest.approx(ratio, abs=0.005)


@pytest.mark.parametrize(("nodes", "words"), [(1, "no split"), (2, "suits"), (3, "pipeline or data"), (6, "over 4 of"), (8, "suits")])
def test_advice(nodes, words):
    assert words in size({"parallel": {"nodes": nodes, "topology": "mesh" if nodes == 3 else "switch"}})["parallel"]["advice"]


def test_unmeasured_all_to_all_is_said():
    ways = size({"parallel": {"nodes": 4, "topology": "ring", "measured": ["all_reduce"]}})["parallel"]["ways"]
    assert ways["expert"]["not_measured"] == ["alltoall"]
    assert ways["tensor"]["not_measured"] == []


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({}, "empty"),
        ([], "empty"),
        ({"colour": {}}, "unknown question"),
        ({"memory": 5}, "mapping"),
        ({"memory": {"size_gb": 1, "kv_cache": 3}}, "mapping"),
        ({"memory": {}}, "either size_gb"),
        ({"memory": {"size_gb": 1, "parameters": 2}}, "either size_gb"),
        ({"memory": {"size_gb": "many"}}, "size_gb is 'many'"),
        ({"memory": {"size_gb": True}}, "size_gb is True"),
        ({"memory": {"size_gb": 1, "nodes": 1.5}}, "whole number"),
        ({"memory": {"size_gb": float("inf")}}, "above 0"),
        ({"tp_tax": {"layers": 40}}, "message_latency_us is missing"),
        ({"tp_tax": {"layers": 40, "message_latency_us": 500, "token_ms": 17}}, "measure both"),
        ({"data_path": {"disk_gbytes_per_s": 9.9, "fabric_gbps": 110.7}}, "fabric_counted"),
        ({"data_path": {"fabric_counted": []}}, "fabric_counted"),
        ({"parallel": {"nodes": 3, "topology": []}}, "topology is"),
        ({"parallel": {"nodes": 3, "topology": "mesh", "measured": ["ping"]}}, "measured is"),
    ],
)
def test_bad_input_names_the_key(request_, words):
    with pytest.raises(FabricError, match=words.replace("(", r"\(")):
        size(request_)
