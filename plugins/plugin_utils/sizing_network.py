# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a measured fabric means for splitting a model: tax of tensor parallelism, disk against fabric, scaling of a collective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, shown
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.sizing_number import positive, positive_whole

# What a reading of a throughput counted, and how many times it counted each byte.
COUNTED = {"one_way": 1, "both_ends": 2}


def size_tp_tax(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the time a token spends in all-reduces of tensor parallelism; computed from measurements, not measured.

    Frameworks may merge or split the messages: ``messages_per_layer`` (1) says how many a layer sends.
    """
    messages = positive_whole(request, "layers") * positive(request, "messages_per_layer", 1)
    tax_ms = messages * positive(request, "message_latency_us") / 1000
    token_ms = positive(request, "token_ms")
    if tax_ms >= token_ms:
        raise FabricError(f"the messages take {tax_ms:.3f} ms, not less than the token's token_ms of {token_ms:g} ms: measure both in one set-up")
    return {"tax_ms": tax_ms, "share_percent": 100 * tax_ms / token_ms, "basis": "computed"}


def size_data_path(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return whether fetching over the fabric beats the local disk, in GB/s one way; ``fabric_counted`` must say what the reading counted."""
    counted = request.get("fabric_counted")
    if not isinstance(counted, str) or counted not in COUNTED:
        raise FabricError(
            f"fabric_counted is {shown(counted)}: say one_way when fabric_gbps is what one end sent, both_ends when it is the sum of sent and received"
        )
    disk = positive(request, "disk_gbytes_per_s")
    fabric = positive(request, "fabric_gbps") / 8 / COUNTED[counted]
    return {"fabric_gbytes_per_s": fabric, "disk_gbytes_per_s": disk, "faster": "fabric" if fabric > disk else "disk", "ratio": fabric / disk}


def size_scaling(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a reading against a base: their ratio and growth in percent."""
    ratio = positive(request, "reading") / positive(request, "base")
    return {"ratio": ratio, "growth_percent": 100 * (ratio - 1)}
