# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What output of nccl-tests shows, text and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils import nccl_tests_json, nccl_tests_output
from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_tests_output import Run
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_causes import Explanation
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_context import Context
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_source import Section

#: From this size on a healthy link is saturated; smaller ones show latency.
LEAST_SIZE = 2**24
#: Two nodes or a switch, and collectives round a ring of three or more: (warn, fail) in percent of the cable.
LIMITS_POINT_TO_POINT = (90.0, 75.0)
LIMITS_ROUND_A_RING = (75.0, 55.0)
CEILING_SLACK = 1.16  # two cables of one pair reach 28 of 24.5 GB/s
FLAT = 0.85

SIGNATURES: tuple[tuple[float, float, str, str, str], ...] = (
    (
        4.5,
        9.0,
        " That is the degraded state of the network chip.",
        "The ConnectX-7 came up in a state that gives 13 Gb/s although link and PCIe are clean.",
        "Power off both nodes, unplug them, wait a minute, and start again. A reboot is not enough.",
    ),
    (
        0.0,
        30.0,
        " So little is no loss on a cable.",
        "TCP carried it, NCCL_IB_HCA is not set, the MTU is 1500, NCCL is a development build, or the network chip is degraded.",
        "Run again with NCCL_DEBUG=INFO; set NCCL_IB_HCA to both twins, MTU 9000, and use a release of NCCL.",
    ),
    (
        43.0,
        57.5,
        " That is one rail of two.",
        "One twin carries nothing: it has no address, is not in NCCL_IB_HCA, or is down; or both cables of a node were used at once.",
        "See that both twins of each used port are up, have addresses and MTU 9000, and stand in NCCL_IB_HCA.",
    ),
    (
        0.0,
        1000.0,
        "",
        "The MTU is 1500 (RDMA MTU 1024), the link runs at 100 Gb/s, or something else used the cable.",
        "Measure each rail with ib_write_bw, and give explain that output.",
    ),
)


def read(section: Section, told: Explanation) -> list[Run]:
    """Return the runs of a section, from text and JSON, and add what is wrong with the files themselves."""
    runs: list[Run] = []
    if "nccl_tests" in section.kinds:
        reader = nccl_tests_output.Reader()
        for line in section.lines:
            reader.line(line)
        runs.extend(reader.runs)
    for text in [json.dumps(document) for kind, document in section.documents if kind == "nccl_tests_json"] + [
        text for kind, text in section.broken if kind == "nccl_tests_json"
    ]:
        try:
            document = nccl_tests_json.parse(text)
        except nccl_tests_json.NcclTestsJsonError:
            told.add("nccl.incomplete", section.label, why="its JSON is cut so early that nothing in it is complete")
            continue
        if document.environment_entries:
            told.add("nccl.environment", section.file, count=document.environment_entries)
        if document.not_numbers:
            told.add("nccl.no_number", section.label, value="; ".join(document.not_numbers[:6]), evidence={"file": section.file})
        if not document.complete:
            told.add("nccl.incomplete", section.label, why="its JSON is cut")
        runs.append(document.run)
    return runs


def one_job(file: str, runs: Sequence[Run], told: Explanation) -> bool:
    """Judge whether the runs of a file are one job; tell whether each node ran a test of its own."""
    alone = nccl_tests_output.one_rank_jobs(runs)
    if alone:
        places = ", ".join(f"{device.host} (pid {device.pid})" for device in alone[:8])
        told.add("nccl.not_one_job", file, nodes=dict.fromkeys(device.host for device in alone), value=places, evidence={"file": file})
    return bool(alone)


def explain(section: Section, runs: Sequence[Run], context: Context, told: Explanation, void: bool, transport: str, log_ranks: int, alone: bool) -> None:
    """Add what the runs of a section show.

    :param void: the GID table changed meanwhile: no figure counts
    :param transport: "socket" (TCP carried the data: the figure says nothing about the fabric), "rdma", or "" where no log tells
    :param log_ranks: how many ranks NCCL's log names, for a table whose head was cut off
    :param alone: each node ran a test of its own: the figures are those inside one node
    """
    for run in runs:
        failed = failures(section, run, told)
        checks(section, run, told, failed)
        if not alone and not failed:
            bandwidth(section, run, context, told, void, transport, log_ranks)


def failures(section: Section, run: Run, told: Explanation) -> bool:
    """Add what made a run fail; tell whether there was something."""
    evidence = {"file": section.file, "exit_status": run.exit_status}
    if run.gpus_wanted is not None:
        told.add("nccl.too_few_gpus", section.label, actual=run.gpus_found, expected=run.gpus_wanted, evidence=evidence)
    for kind, cause in (("NCCL failure", "nccl.test_failure"), ("CUDA failure", "nccl.test_failure"), ("timeout", "nccl.timeout")):
        entries = [entry for entry in run.failures if entry[1] == kind]
        if entries:
            hosts = list(dict.fromkeys(entry[0] for entry in entries))
            told.add(cause, section.label, nodes=hosts, hosts=hosts, line=f"{kind} {entries[0][2]}".strip(), evidence=evidence)
    for error in run.errors[:4]:
        told.add("nccl.test_failure", section.label, hosts=run.hosts, line=error, evidence=evidence)
    return bool(run.gpus_wanted is not None or run.failures or run.errors)


def checks(section: Section, run: Run, told: Explanation, failed: bool) -> None:
    """Add what the footer says: data, limit, end."""
    evidence = {"file": section.file}
    wrong = sum(row.wrong or 0 for row in run.rows)
    if run.out_of_bounds_failed or wrong:
        told.add("nccl.wrong_data", section.label, count=run.out_of_bounds if run.out_of_bounds else wrong, evidence=evidence)
    elif run.rows and all(row.wrong is None for row in run.rows):
        told.add("nccl.not_checked", section.label, evidence=evidence)
    if run.average_failed:
        told.add("nccl.below_minimum", section.label, actual=run.average_gbytes_per_s, unit="GB/s", evidence=evidence)
    if failed or run.source == "json" or not (run.devices or run.rows):
        return
    if run.concluded is False or not run.average_printed:
        last = f"its last row is {run.rows[-1].size_bytes} bytes" if run.rows else "it has no rows"
        told.add("nccl.incomplete", section.label, why=f"the closing lines are missing, {last}", evidence=evidence)


def bandwidth(section: Section, run: Run, context: Context, told: Explanation, void: bool, transport: str, log_ranks: int) -> None:
    """Judge the largest size; the printed average is over all sizes and no measure of a link, unless there is nothing else."""
    row = run.largest
    ranks = run.ranks or log_ranks
    collective = (run.collective or "nccl-tests").removesuffix("_perf")
    figure = row.busbw_gbytes_per_s if row else run.average_gbytes_per_s
    size = row.size_bytes if row else "all"
    if figure is None:
        if row is not None and run.source == "text":
            told.add("nccl.no_number", section.label, value=f"the row of {row.size_bytes} bytes")
        return
    limits = LIMITS_ROUND_A_RING if ranks > 2 and context.topology != "switch" else LIMITS_POINT_TO_POINT
    expected = context.cable_gbytes_per_s
    percent = 100 * figure / expected
    if ranks == 1:
        told.add("nccl.one_rank", section.label, nodes=run.hosts, hosts=run.hosts, collective=collective, evidence={"file": section.file})
        return
    reason = None
    if run.out_of_bounds_failed or any(entry.wrong for entry in run.rows):
        reason = f"the data is wrong, {figure:g} GB/s does not matter"
    elif void:
        reason = f"the GID table changed during the run, {figure:g} GB/s does not count"
    elif transport == "socket" and context.network == "IB":
        reason = f"TCP carried the data, {figure:g} GB/s says nothing about the cables"
    elif row is not None and row.size_bytes < LEAST_SIZE:
        reason = f"the largest size is {row.size_bytes} bytes, below {LEAST_SIZE} latency decides"
    elif context.network != "IB":
        reason = f"the expected transport is {context.network}, {figure:g} GB/s"
    elif ranks > 2 and collective in ("alltoall", "sendrecv", "gather", "scatter", "hypercube"):
        reason = f"{figure:g} GB/s on {ranks} ranks depends on the topology"
    elif row is None and percent < limits[0]:
        reason = f"only the average over all sizes is there, {figure:g} GB/s"
    if reason:
        told.add("nccl.not_judged", section.label, collective=collective, actual=figure, unit="GB/s", why=reason, evidence={"file": section.file})
        return
    common: dict[str, Any] = {"actual": figure, "expected": round(expected, 1), "unit": "GB/s", "evidence": {"file": section.file, "version": run.version}}
    if percent > 100 * CEILING_SLACK:
        told.add("nccl.ceiling", section.label, nodes=run.hosts, **common)
        return
    status = "fail" if percent < limits[1] else "warn" if percent < limits[0] else "pass"
    signatures = SIGNATURES if transport == "rdma" else SIGNATURES[1:]  # without proof of RDMA so little may be TCP as well
    hint, why, what = next((entry[2:] for entry in signatures if entry[0] <= percent < entry[1]), ("", "", ""))
    told.add(
        "nccl.bandwidth",
        section.label,
        status=status,
        nodes=run.hosts,
        collective=collective,
        ranks=ranks or "an unknown number of",
        size=size,
        percent=round(percent),
        hint=hint + flat(run),
        why=why,
        what=what,
        **common,
    )


def flat(run: Run) -> str:
    """Return a remark where the curve does not rise with the size: then no link limits it."""
    values = [row.busbw_gbytes_per_s for row in run.rows if row.size_bytes >= LEAST_SIZE and row.busbw_gbytes_per_s]
    if len(values) >= 3 and min(values) >= FLAT * max(values):
        return f" It is the same at {len(values)} sizes, so the limit is not in the message size."
    return ""
