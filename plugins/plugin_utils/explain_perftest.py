# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What output of perftest and iperf3 shows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils import iperf3_output, perftest_output
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.evaluate import limit_status
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_causes import Explanation
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_context import Context
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_source import Section
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rules import load_rules

ERROR_CAUSES = {
    "device_missing": "rdma.device_missing",
    "link_down": "rdma.link_down",
    "gid_index": "rdma.gid_index_range",
    "gid_mismatch": "rdma.gid_mismatch",
    "rdma_cm": "rdma.cm",
    "qp_connect": "rdma.qp_connect",
    "memory_registration": "rdma.memory_registration",
    "port_taken": "rdma.port_taken",
    "bad_option": "rdma.options",
    "parameter_mismatch": "rdma.options",
    "version_gap": "rdma.version_gap",
    "below_limit": "rdma.below_limit",
    "connect_failed": "rdma.connect_failed",
    "peer_lost": "rdma.peer_lost",
    "link_lost": "rdma.link_lost",
    "transport_retry_exceeded": "rdma.transport_retry",
}
#: Bounds of the degraded state of the network chip, Gb/s, and the rate from which a rail is one that should give more.
DEGRADED_GBPS = (8.0, 25.0)
FULL_RAIL_GBPS = 60.0
#: Below this size the message rate decides, not the link.
LEAST_SIZE = 32768
CEILING_SLACK = 1.05
LEADING = re.compile(r"^ {0,4}(?=#bytes|local address:|remote address:|GID: |\d{1,18}\s+\d|[A-Z][A-Za-z_*. ]{2,24}:)")
STARTS = re.compile(r"^\s*(?:-{20,}|\*{10,}|\* Waiting for client|WARNING: BW peak)|^\s*$")
COMMAND = re.compile(r"(?:^|[\s/])ib_(?:write|read|send|atomic)_(?:bw|lat)\s", re.ASCII | re.MULTILINE)
LENIENT = re.compile(r"\b(?P<key>BW_average|bw_avg|t_typical|t_avg)\"?\s*:\s*(?P<value>[0-9.]{1,20})", re.ASCII)


def split_runs(lines: Iterable[str]) -> list[str]:
    """Return the texts of single runs: each begins at its title, with the lines that stand before it."""
    chunks: list[list[str]] = [[]]
    titled = False
    for line in lines:
        if perftest_output.TITLE.match(line):
            if titled:
                last = chunks[-1]
                cut = len(last)
                while cut and STARTS.match(last[cut - 1]):
                    cut -= 1
                chunks.append(last[cut:])
                del last[cut:]
            titled = True
        else:
            line = LEADING.sub(" ", line)
        chunks[-1].append(line)
    return ["\n".join(chunk) for chunk in chunks]


def explain(section: Section, context: Context, told: Explanation) -> None:
    """Add what perftest's text in a section shows."""
    for text in split_runs(section.lines):
        try:
            output = perftest_output.parse(text)
        except perftest_output.PerftestOutputError:
            if COMMAND.search(text):  # the command and its exit status, and nothing between
                told.add(
                    "rdma.measured", section.label, scope="rail", device="an RDMA device", why=": the tool printed nothing", evidence={"file": section.file}
                )
            continue
        one_run(section, text, output, context, told)


def one_run(section: Section, text: str, output: perftest_output.PerftestOutput, context: Context, told: Explanation) -> None:
    """Add what one run shows: its error, its figure, and what its header says about MTU and GID."""
    device = output.device or "an RDMA device"
    common: dict[str, Any] = {"device": device, "scope": "rail", "evidence": {"file": section.file, **({"tail": output.error.line} if output.error else {})}}
    if output.error:
        error = output.error
        told.add(ERROR_CAUSES.get(error.name, "rdma.completion"), section.label, line=error.line, means=error.means, **common)
    if output.rdma_mtu is not None and output.rdma_mtu < 4096:
        told.add("rdma.mtu", section.label, actual=output.rdma_mtu, expected=4096, unit="bytes", **common)
    if any(gid.startswith("254:128:") for gid in (*output.local_gids, *output.remote_gids)):
        told.add("rdma.gid_link_local", section.label, **common)
    row = perftest_output.bandwidth_of(output)
    if row is not None:
        bandwidth(section, output, row, context, told, common)
        return
    latency = perftest_output.latency_of(output)
    if latency is not None:
        told.add(
            "rdma.latency", section.label, actual=latency.typical_us or latency.average_us, unit="us", size=latency.size_bytes, p99=latency.p99_us, **common
        )
    elif output.error:
        return
    elif output.bandwidth:
        printed = re.search(r"^ \d+\s+\d+\s+\S+\s+(\S+)", text, re.ASCII | re.MULTILINE)
        told.add("rdma.zero", section.label, actual=printed[1] if printed else "0.00", unit="Gb/s", **common)
    else:
        waiting = "Waiting for client" in text and not output.fields
        told.add("rdma.measured", section.label, why=": the server waited, no client came" if waiting else "", **common)


def bandwidth(
    section: Section, output: perftest_output.PerftestOutput, row: perftest_output.BandwidthRow, context: Context, told: Explanation, common: dict[str, Any]
) -> None:
    """Judge the figure of a run by the limits that the rules of a validation have."""
    average = row.average_gbps or 0.0
    figure: dict[str, Any] = {"actual": round(average, 3), "unit": "Gb/s", **common}
    ways = 2 if output.bidirectional else 1
    if row.size_bytes < LEAST_SIZE:
        told.add("rdma.not_judged", section.label, size=row.size_bytes, why="so small a message shows the message rate, not the link", **figure)
        return
    ceiling = context.rail_ceiling_gbps * ways
    if average > ceiling * CEILING_SLACK:
        told.add("rdma.ceiling", section.label, expected=round(ceiling, 1), **figure)
        return
    rule = load_rules()["rdma.rail_bidirectional" if output.bidirectional else "rdma.rail_bandwidth"]
    expected = context.expected_rail_gbps * ways
    percent = 100 * average / expected
    if not output.bidirectional and DEGRADED_GBPS[0] <= average <= DEGRADED_GBPS[1] and expected >= FULL_RAIL_GBPS:
        told.add("rdma.degraded_nic", section.label, expected=expected, **figure)
        return
    told.add(rule.id, section.label, status=limit_status(rule, percent), expected=expected, percent=round(percent), **figure)


def explain_json(section: Section, told: Explanation) -> None:
    """Add what perftest's JSON shows; the text of the same run, where it is there, is the judge."""
    alone = "warn" if "perftest" in section.kinds else "unknown"
    for kind, document in section.documents:
        if kind != "perftest_json":
            continue
        results = document["results"] if isinstance(document["results"], dict) else {}
        for key in ("BW_average", "t_typical", "t_avg"):
            if isinstance(results.get(key), (int, float)):
                _json_figure(section, key, results[key], told)
                break
        else:
            told.add("rdma.json", section.label, status=alone, value="it has no BW_average and no t_avg", evidence={"file": section.file})
    for kind, text in section.broken:
        if kind == "perftest_json":
            match = LENIENT.search(text)
            told.add(
                "rdma.json",
                section.label,
                status=alone,
                value=f"{match['key']} {match['value']} read, its unit is not recorded" if match else "it names no figure",
                evidence={"file": section.file},
            )


def _json_figure(section: Section, key: str, value: float, told: Explanation) -> None:
    if "perftest" in section.kinds:
        status, why = "skip", "it is a cross-check of the text"
    elif key == "BW_average":
        status, why = "unknown", "the JSON does not record its unit; give the text of the run"
    else:
        status, why = "pass", "a latency has no limit"
    told.add("rdma.not_judged", section.label, status=status, device="JSON", actual=float(value), size="the recorded", why=why, evidence={"file": section.file})


def explain_iperf3(section: Section, context: Context, told: Explanation) -> None:
    """Add what JSON of iperf3 shows. Its exit status says nothing: 3.12 exits 0 on a refused connection."""
    for kind, document in section.documents:
        if kind != "iperf3":
            continue
        output = iperf3_output.read(document)
        evidence = {"file": section.file, "version": output.version}
        if output.error:
            told.add("tcp.failed", section.label, scope="rail", value=output.error, evidence=evidence)
            continue
        if output.received_gbps is None:
            told.add("tcp.unmeasured", section.label, scope="rail", evidence=evidence)
            continue
        note = f" iperf3 {output.version} serves all streams in one thread, the limit may be the tool's." if output.one_thread else ""
        told.add(
            "tcp.bandwidth",
            section.label,
            scope="rail",
            actual=round(output.received_gbps, 3),
            unit="Gb/s",
            peer=output.remote_host,
            streams=output.streams,
            note=note,
            evidence={**evidence, "retransmits": output.retransmits},
        )
        if output.path_mtu_bytes is not None and output.path_mtu_bytes < 9000:
            told.add(
                "tcp.path_mtu",
                section.label,
                scope="rail",
                actual=output.path_mtu_bytes,
                expected=9000,
                unit="bytes",
                peer=output.remote_host,
                evidence=evidence,
            )
