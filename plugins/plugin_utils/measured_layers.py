# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A judged run as the three layers that ``bottleneck.decide`` takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.bottleneck import NCCL_POOR_PERCENT, NCCL_RING_POOR_PERCENT, decide
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_nccl import nccl_fact, nccl_facts
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import LAYERS
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.measured_rows import cable_rates

BELOW_TCP = LAYERS[: LAYERS.index("tcp")]


def bottleneck_of(report: Mapping[str, Any], asked: bool = False) -> dict[str, Any] | None:
    """Return what limits by a report, None where nothing but RDMA was measured and nobody asked."""
    layers = {"rdma": rdma_layer(report), "nccl": nccl_layer(report), "inference": report.get("inference") or {}}
    if not asked and (report["mode"] == "check" or not (layers["nccl"] or layers["inference"])):
        return None
    return decide({"link_gbps": float(report["plan"]["link_gbps"]), "mtu": int(report["plan"]["mtu"]), **layers})


def inference_beside(report: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the inference of a report together with that of other runs, such as those on another network."""
    found = {**(report.get("inference") or {})}
    for other in others:
        for host, result in (other.get("inference") or {}).items() if other["run_id"] != report["run_id"] else ():
            found.setdefault(f"{host} in run {other['run_id']}", with_link(result, other["plan"]["link_gbps"]))
    return found


def with_link(result: Any, link_gbps: float) -> Any:
    """Return a host's runs, each with the link speed of its own plan where it states none."""
    if not isinstance(result, Mapping) or not isinstance(result.get("runs"), list):
        return result
    return {**result, "runs": [{"link_gbps": link_gbps, **run} if isinstance(run, Mapping) else run for run in result["runs"]]}


def rdma_layer(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return link and RDMA; None where no cable has a figure and nothing fails."""
    measured = [one for cable in report["cables"] for row in cable["rails"].values() for one in row["measurements"]]
    percents = [one["percent"] for one in measured if one["stage"] == "directed" and one["state"] == "ok" and one["percent"] is not None]
    rates = cable_rates(report)
    failing, unknown = (told(report, BELOW_TCP, status) for status in ("fail", "unknown"))
    if not percents and not failing:
        return None
    return {
        "percent": min(percents, default=None), "lowest_gbps": min(rates, default=None), "highest_gbps": max(rates, default=None),
        "findings": failing, "unknown": unknown}


def nccl_layer(report: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return NCCL by its worst figure over a proven transport; None where nccl-tests itself was not run, or has neither figure nor failure."""
    fact = nccl_fact(report.get("nccl") or {})
    facts = nccl_facts(report["plan"], fact)
    if fact is None or facts["stand_in"] or fact.get("status") == "skipped":
        return None
    ring, pair = facts["ring_bandwidth"], facts["bandwidth"]
    worst = min((figure for figure in (ring, pair) if figure), key=share_of_limit, default=None)
    failing = told(report, ("nccl",), "fail")
    if worst is None and not failing:
        return None
    figure = worst or {"percent": None, "gbytes_per_s": None, "slack": 1.0, "round_a_ring": False, "text": ""}
    kept = {key: figure[key] for key in ("percent", "gbytes_per_s", "slack", "round_a_ring", "text")}
    return {**kept, "everywhere": kept["round_a_ring"], "findings": failing}


def share_of_limit(figure: Mapping[str, Any]) -> float:
    """Return how near a figure is to what its kind can reach: a ring shares its PCIe links between two cables."""
    return float(figure["percent"]) * (NCCL_POOR_PERCENT / NCCL_RING_POOR_PERCENT if figure["round_a_ring"] else 1)


def told(report: Mapping[str, Any], layers: Iterable[str], status: str) -> list[str]:
    """Return the findings of some layers with a status, as ``check on subject``."""
    wanted = set(layers)
    return [f"{one['id']} on {one['subject']}" for one in report["findings"] if one["status"] == status and one["layer"] in wanted]
