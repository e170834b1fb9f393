# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many nodes hold a model: weights, KV cache and usable unified memory. GB is 10^9 bytes, GiB is 2^30 bytes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.sizing_number import positive, positive_whole

GB = 10**9
GIB = 2**30
# Usable unified memory of a DGX Spark, as measured on four machines.
USABLE_GIB = 121.7


def weight_bytes(model: Mapping[str, Any]) -> float:
    """Return the bytes of the weights: ``size_gb``, or ``parameters`` times ``bytes_per_parameter``; exactly one of the two ways."""
    measured = "size_gb" in model
    if measured == ("parameters" in model or "bytes_per_parameter" in model):
        raise FabricError("the model needs either size_gb, or parameters and bytes_per_parameter, not both and not neither")
    if measured:
        return positive(model, "size_gb") * GB
    return positive(model, "parameters") * positive(model, "bytes_per_parameter")


def kv_cache_bytes(cache: Mapping[str, Any]) -> float:
    """Return the bytes of a KV cache: a key and a value of each layer, head and token, for all requests at once.

    The keys are those of a model's config.json (layers, KV heads, head size); models that compress the cache need ``size_gb`` instead.
    """
    if "size_gb" in cache:
        return positive(cache, "size_gb") * GB
    values = positive_whole(cache, "layers") * positive_whole(cache, "kv_heads") * positive_whole(cache, "head_size")
    a_token = 2 * values * positive(cache, "bytes_per_value", 2)
    return a_token * positive_whole(cache, "context_tokens") * positive_whole(cache, "concurrency")


def size_memory(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return nodes needed, and the gap to ``nodes`` where that is given; sizes in GB and in GiB. Raise FabricError for bad input."""
    weights = weight_bytes(request)
    cache = kv_cache_bytes(request["kv_cache"]) if request.get("kv_cache") else 0.0
    needed = weights + cache
    usable = positive(request, "usable_gib", USABLE_GIB) * GIB
    answer: dict[str, Any] = {
        "weights_gb": weights / GB,
        "kv_cache_gb": cache / GB,
        "needed_gb": needed / GB,
        "needed_gib": needed / GIB,
        "usable_per_node_gb": usable / GB,
        "nodes_needed": math.ceil(needed / usable),
    }
    if "nodes" in request:
        have = positive_whole(request, "nodes") * usable
        answer.update({"have_gb": have / GB, "have_gib": have / GIB, "gap_gb": max(0.0, needed - have) / GB, "fits": needed <= have})
    return answer
