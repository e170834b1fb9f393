# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The two records that a load test leaves, one at each end, made into one result with a state.

States: ``ok``; ``zero`` (a row of 0.00 is no measurement, whatever the exit status); ``implausible`` (negative or not a
number); ``failed``, ``timeout``, ``void``, ``control_blocked``, ``peer_absent`` (as the nodes report); ``missing`` (no result at
all); ``excluded`` (a node of it was not tested, did not answer or did not measure).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

#: What names the cause goes first: a blocked control port also looks like an absent peer from the other end.
TROUBLE_ORDER = ("control_blocked", "void", "failed", "timeout", "peer_absent")

#: Below this share of the expected rate a figure is a row of zeros with rounding on top.
ZERO_SHARE = 0.001

#: Stages in which the client's device sends the data, and counters of what it sent and of when it had to send again: of mlx5, of rxe.
COUNTED_STAGES = ("directed", "bidirectional", "send")
SENT_PACKETS = ("port_xmit_packets", "sent_pkts")
WENT_BACK = (("packet_seq_err", "local_ack_timeout_err"), ("rcvd_seq_err",), ("completer_retry_err",))

EVIDENCE_KEYS = (
    "command",
    "device",
    "version",
    "size_bytes",
    "iterations",
    "streams",
    "sent_gbps",
    "retransmits",
    "path_mtu_bytes",
    "mean_rtt_us",
    "rdma_mtu",
    "gid_index",
    "gid_ipv4",
    "peer_gid_ipv4",
    "peak_gbps",
    "message_rate_mpps",
    "latency_us",
    "attempts",
    "exit_code",
    "started",
    "ended",
    "counters",
)


def records_by_test(perftest: Mapping[str, Any]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Index the records of all nodes by (test, node)."""
    found = {}
    for node, result in perftest.items():
        for record in (result or {}).get("tests") or []:
            found[(str(record.get("id")), node)] = record
    return found


def load_result(test: Mapping[str, Any], records: Mapping[tuple[str, str], Mapping[str, Any]], excluded: Mapping[str, str]) -> dict[str, Any]:
    """Return what came of one planned test."""
    client, server = test["client"], test["server"]
    latency = test["stage"].endswith("latency")
    arrow = "<->" if test["bidirectional"] or latency else "<-" if test["stage"] == "read" else "->"
    result = {
        "test": test["id"],
        "stage": test["stage"],
        "rail": test["rail"],
        "cables": list(test["cables"]),
        "round": test["round"],
        "client": client,
        "server": server,
        "name": f"{client} {arrow} {server}",
        "expected_gbps": test["expected_gbps"],
        "streams": test.get("streams"),
        "with_twin": bool(test.get("with_twin")),
        "gbps": None,
        "percent": None,
        "latency_us": None,
        "state": "missing",
        "message": "",
        "error": None,
        "guilty_node": None,
        "rdma_mtu": None,
        "wrong_gid": [],
        "lost_percent": None,
        "evidence": {},
    }
    reasons = [excluded[node] for node in dict.fromkeys((client, server)) if node in excluded]
    if reasons:
        return {**result, "state": "excluded", "message": "; ".join(reasons)}
    mine, theirs = records.get((test["id"], client)), records.get((test["id"], server))
    result["evidence"] = evidence_of(mine, theirs)
    mtus = [record["rdma_mtu"] for record in (mine, theirs) if record and record.get("rdma_mtu")]
    result["rdma_mtu"] = min(mtus, default=None)
    result["wrong_gid"] = wrong_gids(test, mine, theirs)
    for status in TROUBLE_ORDER:
        for node, record in ((client, mine), (server, theirs)):
            if record is not None and record.get("status") == status:
                zero = record.get("error") == "zero_row"
                trouble = {"state": "zero" if zero else status, "message": trouble_text(node, record), "error": record.get("error")}
                return {**result, **trouble, "guilty_node": guilty(node, record, test)}
    return {**result, **figure_of(test, mine, theirs), "lost_percent": lost_percent(test, mine, theirs)}


def lost_percent(test: Mapping[str, Any], mine: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None) -> float | None:
    """Return how many packets in a hundred were lost, by the counters of the devices that sent; None where nobody counts.

    A sender counts each time that it had to go back: the receiver missed a packet, or no acknowledgement came
    (packet_seq_err and local_ack_timeout_err in NVIDIA's "Understanding mlx5 Linux counters"; rxe has names of its own). It may be several
    packets each time, so this is the least that was lost.
    """
    if test["stage"] not in COUNTED_STAGES:
        return None
    shares = []
    for record in (mine, theirs) if test["bidirectional"] else (mine,):
        counters = (record or {}).get("counters") or {}
        sent = next((counters[name] for name in SENT_PACKETS if counters.get(name)), 0)
        if sent > 0:
            back = max(sum(counters.get(name, 0) for name in names) for names in WENT_BACK)
            shares.append(100.0 * max(back, 0) / sent)
    return round(max(shares), 4) if shares else None


def figure_of(test: Mapping[str, Any], mine: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return state and figures of a test that no end complains about."""
    done = [record for record in (mine, theirs) if record is not None and record.get("status") == "ok"]
    latency = next((record["latency_us"] for record in done if record.get("latency_us")), None)
    if latency is not None and test["stage"].endswith("latency"):
        return {"state": "ok", "latency_us": dict(latency)}
    gbps = next((record["gbps"] for record in done if record.get("gbps") is not None), None)
    if gbps is None:
        told = next((record for record in (mine, theirs) if record is not None and record.get("message")), {})
        nothing = "no result came from either end" if not done else "the tool printed no figure"
        return {"message": told.get("message") or nothing, "error": told.get("error"), "guilty_node": told.get("guilty_node")}
    expected = test["expected_gbps"]
    if not isinstance(gbps, (int, float)) or not math.isfinite(gbps) or gbps < 0:
        return {"state": "implausible", "message": f"the tool printed {gbps}, which is no rate"}
    percent = round(100.0 * gbps / expected, 2) if expected else None
    zero = gbps == 0 or (expected and gbps < ZERO_SHARE * expected)
    return {"state": "zero" if zero else "ok", "gbps": float(gbps), "percent": percent}


def trouble_text(node: str, record: Mapping[str, Any]) -> str:
    """Return what an end says about its failure."""
    message, error = record.get("message"), record.get("error")
    if message and error:
        return f"{node}: {message} [{error}]"
    return f"{node}: {message or error or record.get('status')}"


def guilty(node: str, record: Mapping[str, Any], test: Mapping[str, Any]) -> str | None:
    """Return the node to look at when the two ends could not meet, or the one that lacks the tool.

    A control port is closed at the end that the complaining one dials, the tool's own port always at the server.
    """
    if record.get("error") == "tool_missing":
        other = test["server"] if node == test["client"] else test["client"]
        return other if str(record.get("message")).startswith(f"{other} says") else node
    if record["status"] == "control_blocked" and record.get("error") == "test_port_blocked":
        return test["server"]
    if record["status"] in ("control_blocked", "peer_absent"):
        return test["server"] if node == test["client"] else test["client"]
    return None


def wrong_gids(test: Mapping[str, Any], mine: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None) -> list[str]:
    """Name the ends whose GID is not that of the planned address."""
    found = []
    for node, address, record in ((test["client"], test["client_address"], mine), (test["server"], test["server_address"], theirs)):
        used = (record or {}).get("gid_ipv4")
        if used and address and used != address:
            found.append(f"{node} used the GID of {used} instead of {address}")
    return found


def evidence_of(mine: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what backs a figure: the sender's command, device, GIDs and counters, and the receiver's beside them."""
    evidence = {key: mine[key] for key in EVIDENCE_KEYS if mine and mine.get(key) not in (None, {}, [])}
    for key in ("command", "device", "gid_index", "gid_ipv4", "counters"):
        if theirs and theirs.get(key) not in (None, {}, []):
            evidence[f"server_{key}"] = theirs[key]
    for side, record in (("tail", mine), ("server_tail", theirs)):
        if record and record.get("status") != "ok" and record.get("tail"):
            evidence[side] = record["tail"]
    return evidence
