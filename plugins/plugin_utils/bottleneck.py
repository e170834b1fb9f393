# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What limits inference: the lowest layer that falls short, of link and RDMA, NCCL, and the workload. Pure functions.

A layer says something only where those below it are good, and nothing is decided without the figures that it takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.faster_network import exchange_share, network_answer, upper_bounds
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_runs import (
    NOISE_PERCENT,
    InferenceRun,
    Scaling,
    disagreements,
    incomparable,
    links_compared,
    read_runs,
    scaling,
)
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import number_text

#: Below these (percent) a layer is poor whatever limits the site's rules have; they are those from which the shipped rules fail.
RDMA_POOR_PERCENT, NCCL_POOR_PERCENT, NCCL_RING_POOR_PERCENT = 75.0, 75.0, 55.0
#: Below this share of linear growth (percent) inference counts as flat: six nodes give less than four would.
FLAT_PERCENT = 60.0
#: Figures of two tools agree within this (percent).
AGREE_PERCENT = 5.0
FINDINGS_NAMED = 4

RUN_RDMA = "run playbooks/validate.yml on all nodes, without --check"
RUN_NCCL = "run playbooks/validate.yml with nccl-tests on the nodes (docs/nccl.md)"
RUN_INFERENCE = "measure throughput on one node and on all under the same conditions, and give both as fabric_inference (docs/verdict.md)"

ANSWERS = {"yes": "would help", "no": "would not help", "already": "is there", "open": "cannot be said"}


def decide(measured: Mapping[str, Any]) -> dict[str, Any]:
    """Return what limits, what to do, what more nodes give and whether faster links would help.

    :param measured: ``link_gbps`` and ``mtu`` of the plan; ``rdma`` (null when nobody measured it): ``percent`` (worst of the expected rate), ``lowest_gbps``
        and ``highest_gbps`` (of a cable, one way), ``findings``, ``unknown`` (what has no figure);
        ``nccl`` (null too): ``percent`` (of the ceiling), ``gbytes_per_s`` (bus bandwidth),
        ``slack`` (what may stand above the ceiling, a factor), ``round_a_ring``, ``everywhere`` (on all nodes), ``text``, ``findings``;
        ``inference``: by host, as ``fabric_inference``. ``findings`` are those that fail, as ``check on subject``.
    """
    runs, problems = read_runs(measured.get("inference") or {}, measured["link_gbps"])
    grown = scaling(runs, measured["link_gbps"])
    states = {"rdma": rdma_state(measured.get("rdma")), "nccl": nccl_state(measured.get("nccl"))}
    states["inference"] = "unknown" if grown is None else "poor" if grown.percent < FLAT_PERCENT else "good"
    contradictions = [*network_contradictions(measured), *workload_contradictions(measured, runs, grown)]
    differ = incomparable(runs, measured["link_gbps"]) if grown is None else ""
    decision, text, steps = walk(measured, states, grown, contradictions)
    answered = network_answer(measured, states, runs, grown)
    if contradictions and decision != "mend_configuration" and answered["answer"] != "already":
        answered = {"answer": "open", "confidence": "none", "text": "the figures contradict each other"}
    return {
        "decision": decision,
        "message": text,
        "next": steps,
        "states": states,
        "scaling": None if grown is None else {
            "nodes": grown.nodes, "base_nodes": grown.base_nodes, "tokens_per_s": grown.tokens_per_s, "base_tokens_per_s": grown.base_tokens_per_s,
            "ratio": round(grown.ratio, 3), "percent": round(grown.percent, 1), "text": grown.text},
        "faster_network": answered,
        "contradictions": [text for _layer, text in contradictions],
        "left_out": [*problems, *([differ] if differ else [])],
    }


def rdma_state(rdma: Mapping[str, Any] | None) -> str:
    """Return ``good``, ``poor`` or ``unknown``: a failure below is poor, figures or not."""
    if rdma is None:
        return "unknown"
    if rdma["findings"] or (rdma["percent"] is not None and rdma["percent"] < RDMA_POOR_PERCENT):
        return "poor"
    return "unknown" if rdma["percent"] is None or rdma["unknown"] else "good"


def nccl_state(nccl: Mapping[str, Any] | None) -> str:
    """Return ``good``, ``poor`` or ``unknown``."""
    if nccl is None or (nccl["percent"] is None and not nccl["findings"]):
        return "unknown"
    return "poor" if nccl["findings"] or nccl["percent"] < (NCCL_RING_POOR_PERCENT if nccl["round_a_ring"] else NCCL_POOR_PERCENT) else "good"


def network_contradictions(measured: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what cannot be true together of RDMA and NCCL: the lowest layer that is in doubt, and why."""
    rdma, nccl = measured.get("rdma"), measured.get("nccl")
    found = []
    if rdma and rdma["percent"] is not None and rdma["percent"] >= 100 * (1 + NOISE_PERCENT / 100):
        found.append(("rdma", f"RDMA reaches {rdma['percent']:.0f} % of the expected rate at its worst: the plan's link_gbps or rates are too low"))
    if not nccl or nccl["percent"] is None:
        return found
    if nccl["percent"] > 100 * nccl["slack"]:
        found.append(("nccl", f"NCCL reaches {nccl['percent']:.0f} % of what a cable carries ({nccl['text']})"))
    most = rdma and (rdma["lowest_gbps"] if nccl["everywhere"] else rdma["highest_gbps"])
    if most and 8 * nccl["gbytes_per_s"] > most * nccl["slack"] * (1 + AGREE_PERCENT / 100):
        found.append((
            "rdma", f"NCCL moves {number_text(8 * nccl['gbytes_per_s'])} Gb/s where RDMA alone moved {number_text(most)}: they did not meet the same network"))
    return found


def workload_contradictions(measured: Mapping[str, Any], runs: list[InferenceRun], grown: Scaling | None) -> list[tuple[str, str]]:
    """Return what cannot be true together of inference."""
    found = [("inference", text) for text in disagreements(runs)]
    if grown is None:
        return found
    bounds = upper_bounds(grown)
    exchange = exchange_share(grown.run, measured.get("nccl") or {})
    shares = [*([exchange] if exchange else []), *bounds[1:]] if grown.base_nodes == 1 else [exchange] if exchange else []
    least, why = min(bounds, default=(1.0, ""))
    found += [("inference", f"{text}, but {why}") for share, text in shares if share > least + NOISE_PERCENT / 100]
    faster = sorted({run.link_gbps for run in runs if run.link_gbps > measured["link_gbps"]})
    for link in faster:
        pair = links_compared(runs, measured["link_gbps"], link)
        if pair and pair[2] < pair[1] * (1 - NOISE_PERCENT / 100):
            found.append(("inference", f"{pair[0]} nodes are slower at {link:g}G ({number_text(pair[2])} tokens/s) than before ({number_text(pair[1])})"))
        elif pair and pair[0] == grown.nodes and bounds and pair[2] / pair[1] > 1 / max(1.0 - least, 1e-9) * (1 + NOISE_PERCENT / 100):
            found.append(("inference", f"{link:g}G made {pair[0]} nodes {pair[2] / pair[1]:.2f} times as fast, but {why}"))
    return found


def walk(measured: Mapping[str, Any], states: Mapping[str, str], grown: Scaling | None, contradictions: list[tuple[str, str]]) -> tuple[str, str, list[str]]:
    """Return decision, sentence and next steps of the lowest layer that does not let one go on."""
    in_doubt = dict(reversed(contradictions))
    for layer, look in (("rdma", rdma_step), ("nccl", nccl_step), ("inference", workload_step)):
        if layer in in_doubt:
            return "contradictory", f"contradictory figures: {in_doubt[layer]}", ["measure again before anything is changed or bought"]
        step = look(measured.get(layer) or {}, states, grown)
        if step is not None:
            return step
    return "scales", f"no layer falls short: {network_words(measured)}, and inference keeps {grown.percent:.0f} % of linear growth" if grown else "", []


def rdma_step(rdma: Mapping[str, Any], states: Mapping[str, str], grown: Scaling | None) -> tuple[str, str, list[str]] | None:
    """Decide on link and RDMA; None to go on."""
    if states["rdma"] == "unknown":
        where = f" everywhere ({named(rdma['unknown'])})" if rdma.get("unknown") else ""
        return "not_enough_data", f"not enough data: RDMA was not measured{where}", [RUN_RDMA]
    if states["rdma"] == "good":
        return None
    reached = "is not measured" if rdma["percent"] is None else f"reaches {rdma['percent']:.0f} % of the expected rate"
    scaled = "" if grown is None or states["inference"] == "poor" else f"; inference still keeps {grown.percent:.0f} % of linear growth"
    steps = [f"mend {named(rdma['findings'])}" if rdma["findings"] else "compare MTU, link speed and both rails with the plan", "measure again"]
    return "mend_configuration", f"configuration first: RDMA {reached} at its worst{scaled}", steps


def nccl_step(nccl: Mapping[str, Any], states: Mapping[str, str], grown: Scaling | None) -> tuple[str, str, list[str]] | None:
    """Decide on NCCL; None to go on."""
    if states["nccl"] == "unknown":
        return "not_enough_data", "not enough data: RDMA is good, NCCL was not measured over a proven transport", [RUN_NCCL]
    if states["nccl"] == "good":
        return None
    reached = f"{nccl['percent']:.0f} % of what a cable carries" if nccl["percent"] is not None else "its checks fail"
    scaled = "" if grown is None or states["inference"] == "poor" else f"; inference still keeps {grown.percent:.0f} % of linear growth, it waits little for it"
    steps = [
        *([f"mend {named(nccl['findings'])}"] if nccl["findings"] else []),
        "see binding (NCCL_IB_HCA, both rails), algorithm (NCCL_ALGO) and channels (NCCL_MIN_NCHANNELS)",
        *(["a ring is as fast as its slowest cable, and more nodes add no bandwidth"] if nccl["round_a_ring"] else []),
    ]
    return "nccl_limits", f"NCCL, not the links: RDMA is good, NCCL is not ({reached}){scaled}", steps


def workload_step(_inference: Mapping[str, Any], states: Mapping[str, str], grown: Scaling | None) -> tuple[str, str, list[str]] | None:
    """Decide on the workload; None when nothing limits."""
    if grown is None:
        lacking = "inference was not measured on two numbers of nodes under the same conditions"
        return "not_enough_data", f"not enough data: RDMA and NCCL are good, {lacking}", [RUN_INFERENCE]
    if states["inference"] == "good":
        return None
    steps = [
        "split otherwise (pipeline or data parallel for tensor parallel; tensor parallel over a power of two)",
        "see synchronisation: small messages cost latency, which a faster link does not lower",
        "raise batch or concurrency",
    ]
    return "workload", f"the way the work is split, not the network: RDMA and NCCL are good, inference keeps {grown.percent:.0f} % of linear growth", steps


def network_words(measured: Mapping[str, Any]) -> str:
    """Return both network layers in words."""
    return f"RDMA {measured['rdma']['percent']:.0f} % of expected, NCCL {measured['nccl']['percent']:.0f} % of a cable"


def named(findings: Iterable[str]) -> str:
    """Return the first findings, and how many more there are."""
    names = list(findings)
    return ", ".join(names[:FINDINGS_NAMED]) + (f" and {len(names) - FINDINGS_NAMED} more" if len(names) > FINDINGS_NAMED else "")


def bottleneck_rows(report: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what a report says of the bottleneck, as pairs of a short name and a text; none where it says nothing."""
    found = report.get("bottleneck")
    if not found:
        return []
    faster = found["faster_network"]
    confidence = "" if faster["confidence"] == "none" else f" ({faster['confidence']} confidence)"
    rows = [("Bottleneck", found["message"])]
    rows += [("Next", "; ".join(found["next"]))] if found["next"] else []
    rows += [("More nodes", found["scaling"]["text"])] if found["scaling"] else []
    rows.append(("200G", f"{ANSWERS[faster['answer']]}{confidence}: {faster['text']}"))
    rows += [("Contradictory", text) for text in found["contradictions"] if text not in found["message"]]
    return rows + [("Left out", text) for text in found["left_out"]]
