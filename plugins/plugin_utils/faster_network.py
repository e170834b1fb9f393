# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether links of 200 Gb/s would help, with the arithmetic in words. Pure functions.

A share s of the time that runs k times as fast makes the whole 1 / (1 - s + s/k) times as fast (Amdahl). Of an all-reduce of S bytes over n nodes
only S x 2(n-1)/n / bus bandwidth shrinks with a faster link (nccl-tests' definition of bus bandwidth); the rest of a small message's time is fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_runs import NOISE_PERCENT, InferenceRun, Scaling, links_compared
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rates import LARGEST_TLP_PAYLOAD, pcie_gbps, rdma_mtu, wire_efficiency
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import number_text

FASTER_GBPS = 200.0
#: A gain below this (percent) is lost in what repeated runs differ by.
WORTH_PERCENT = 5.0


def cable_rate(link_gbps: float, mtu: int) -> float:
    """Return the most that a cable carries one way, Gb/s: its link, or the two PCIe links behind it."""
    return min(link_gbps * wire_efficiency(rdma_mtu(mtu)), 2 * pcie_gbps(LARGEST_TLP_PAYLOAD))


def gain_percent(share: float, factor: float) -> float:
    """Return by how much the whole gets faster, when a share of its time (0 to 1) goes ``factor`` times as fast."""
    return 100.0 * (1.0 / (1.0 - share + share / factor) - 1.0)


def answer(word: str, confidence: str, text: str) -> dict[str, str]:
    """Return an answer: ``yes``, ``no``, ``already`` or ``open``; confidence ``high``, ``medium`` or ``none``."""
    return {"answer": word, "confidence": confidence, "text": text}


def network_answer(measured: Mapping[str, Any], states: Mapping[str, str], runs: list[InferenceRun], grown: Scaling | None) -> dict[str, str]:
    """Return whether links of 200 Gb/s would help.

    :param measured: the layers as ``bottleneck.decide`` takes them
    :param states: ``good``, ``poor`` or ``unknown`` of ``rdma`` and ``nccl``
    :param runs: of inference, under conditions that were stated
    :param grown: more nodes against fewer
    """
    link, mtu = measured["link_gbps"], measured["mtu"]
    if link >= FASTER_GBPS:
        return already(link, runs, states["rdma"] != "unknown")
    factor = cable_rate(FASTER_GBPS, mtu) / cable_rate(link, mtu)
    if states["rdma"] == "unknown":
        return answer("open", "none", "RDMA was not measured")
    if states["rdma"] == "poor":
        return unfilled(measured["rdma"]["percent"])
    pair = links_compared(runs, link, FASTER_GBPS)
    if pair is not None:
        return measured_answer(link, pair)
    if states["nccl"] == "unknown":
        return answer("open", "none", "RDMA fills the link, but nobody knows whether NCCL does")
    if states["nccl"] == "poor":
        return answer("no", "medium", f"NCCL does not fill the link that is there ({measured['nccl']['text'] or 'see its findings'})")
    if grown is None:
        return answer("open", "none", f"a cable would carry {factor:.2f} times as much, but nobody measured how long the workload waits for it")
    return estimated(factor, exchange_share(grown.run, measured["nccl"]), upper_bounds(grown), link)


def already(link: float, runs: Iterable[InferenceRun], measured: bool) -> dict[str, str]:
    """Answer for links that the plan says are fast already; runs on a slower network say what that brought."""
    runs = list(runs)
    for slower in sorted({run.link_gbps for run in runs if run.link_gbps < link}, reverse=True):
        pair = links_compared(runs, slower, link)
        if pair is not None:
            nodes, before, now = pair
            text = f"{nodes} nodes {number_text(before)} tokens/s at {slower:g}G, {number_text(now)} at {link:g}G: {100 * (now / before - 1):+.1f} %"
            return answer("already", "high", f"the links have {link:g} Gb/s; {text}")
    if not measured:
        return answer("open", "none", f"fabric_link_gbps says {link:g} Gb/s, but RDMA was not measured")
    return answer("already", "high", f"the links have {link:g} Gb/s")


def unfilled(percent: float | None) -> dict[str, str]:
    """Answer where the link that is there is not filled."""
    if percent is None or percent >= 100:
        return answer("no", "high", "the network that is there has failures, which a faster link does not mend")
    gives = f"mending it gives up to {100 / percent:.2f} times, for nothing bought"
    return answer("no", "high", f"RDMA reaches {percent:.0f} % of what this link should carry: {gives}")


def measured_answer(link: float, pair: tuple[int, float, float]) -> dict[str, str]:
    """Answer from runs on both networks."""
    nodes, before, now = pair
    gain = 100.0 * (now / before - 1.0)
    text = f"measured on {nodes} nodes: {number_text(before)} tokens/s at {link:g}G, {number_text(now)} at {FASTER_GBPS:g}G, {gain:+.1f} %"
    return answer("yes" if gain >= WORTH_PERCENT else "no", "high", text)


def exchange_share(run: InferenceRun, nccl: Mapping[str, Any]) -> tuple[float, str] | None:
    """Return the share of a token's time (0 to 1) that waits for bandwidth, computed, and the arithmetic; None without what it needs."""
    if run.communication is None or not nccl or not nccl.get("gbytes_per_s") or run.nodes < 2:
        return None
    given = run.communication
    messages = given["layers"] * given["messages_per_layer"]
    turns = 2 * (run.nodes - 1) / run.nodes
    wait_ms = messages * given["message_bytes"] * turns / (nccl["gbytes_per_s"] * 1e6)
    share = wait_ms / given["token_ms"]
    text = (
        f"{messages:g} messages a token x {given['message_bytes']:g} bytes x {turns:.2f} / {number_text(nccl['gbytes_per_s'])} GB/s = "
        f"{wait_ms:.3f} ms of {given['token_ms']:g} ms ({100 * share:.1f} %) wait for bandwidth"
    )
    return min(share, 1.0), text


def upper_bounds(grown: Scaling) -> list[tuple[float, str]]:
    """Return shares of the time (0 to 1) above which the network's cannot be, and why.

    Against one node all that is lost, whatever the cause, bounds it; more nodes as the base exchange too, so their loss bounds nothing.
    """
    bounds = []
    if grown.base_nodes == 1:
        lost = max(0.0, 1.0 - grown.percent / 100.0)
        bounds.append((lost, f"{100 * lost:.0f} % of the time is lost against linear, for all reasons together"))
    if grown.run.communication_percent is not None:
        bounds.append((grown.run.communication_percent / 100.0, f"{grown.run.communication_percent:g} % of the time is communication by the profile"))
    return bounds


def estimated(factor: float, exchange: tuple[float, str] | None, bounds: list[tuple[float, str]], link: float) -> dict[str, str]:
    """Answer from shares: at most the least bound, about what was computed."""
    speed = f"{FASTER_GBPS:g}G carries {factor:.2f} times what {link:g}G does"
    if exchange is not None and all(exchange[0] <= bound + NOISE_PERCENT / 100 for bound, _text in bounds):
        gain = gain_percent(exchange[0], factor)
        return answer("yes" if gain >= WORTH_PERCENT else "no", "medium", f"{exchange[1]}; {speed}: {gain:+.1f} % (computed)")
    if bounds:
        share, why = min(bounds)
        gain = gain_percent(share, factor)
        text = f"{why}; {speed}: at most {gain:+.1f} %"
        if gain < WORTH_PERCENT:
            return answer("no", "medium", text)
        return answer("open", "none", f"{text}; state what a token exchanges (communication), or try {FASTER_GBPS:g}G on two nodes")
    return answer("open", "none", f"{speed}, but nobody measured how long the workload waits for it")
