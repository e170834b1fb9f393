# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The record of one test at one end: outcome, numbers, and the evidence for both."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils import perftest_output
from ansible_collections.dgxspark.fabric.plugins.module_utils.perftest_spec import LoadTest

#: Classes of error that only say that the other end broke off, or nothing at all: the peer's word is better.
GENERIC = ("peer_lost", "no_output", "zero_row", "exit_status", "peer_ended")
#: A tool that was ended by one of these broke by itself; by another, somebody ended it. Seen of ib_write_bw 6.24, once in some hundred runs.
CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)
TOOL_CRASHED = "tool_crashed"
#: What a record without a measurement holds.
NO_NUMBERS: dict[str, Any] = {"gbps": None, "peak_gbps": None, "message_rate_mpps": None, "latency_us": None}
#: What a TCP test tells besides.
TCP_NUMBERS: dict[str, Any] = {"streams": None, "sent_gbps": None, "retransmits": None, "path_mtu_bytes": None, "mean_rtt_us": None}


@dataclasses.dataclass(slots=True)
class Outcome:
    """How an attempt at a test ended: status, class of error, message, and the numbers and evidence so far."""

    status: str
    error: str | None = None
    message: str | None = None
    changed: bool = False
    details: dict[str, Any] = dataclasses.field(default_factory=dict)


def empty(test: LoadTest) -> dict[str, Any]:
    """Return the record of a test of which nothing is known yet."""
    more = {**TCP_NUMBERS, "streams": test.streams} if test.tcp else {}
    return {
        "tool": test.tool or None, "stage": test.stage or None, **more,
        "id": test.id, "role": test.role, "round": test.round, "peer": test.peer, "status": "not_run", "error": None, "message": None,
        **NO_NUMBERS, "size_bytes": None, "iterations": None,
        "rdma_mtu": None, "gid_index": None, "gid_ipv4": None, "peer_gid_ipv4": None, "device": test.device, "interface": test.interface,
        "command": [], "version": None, "exit_code": None, "tail": "", "started": None, "ended": None, "attempts": 0, "earlier": [],
        "counters": {},
    }


def left_out(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a test that the controller left out; ``known`` has its id and the reason."""
    nothing = empty(LoadTest("", 0, "", "", "", "", "", "", "", "", 0, 0))
    return {**nothing, "device": None, "interface": None, "role": None, "peer": None, "round": None, **known, "status": "not_run"}


def record(test: LoadTest, outcome: Outcome, attempts: int) -> dict[str, Any]:
    """Return the record of a test that has ended."""
    return {**empty(test), **outcome.details, "status": outcome.status, "error": outcome.error, "message": outcome.message, "attempts": attempts}


def read_run(test: LoadTest, stdout: str, stderr: str, exit_code: int | None) -> Outcome:
    """Judge what a tool printed.

    A row of 0, nan or inf, or no row, is no measurement, whatever the exit status. The server of a run may
    print none: its exit status speaks, unless it printed a row without a number.
    """
    details: dict[str, Any] = {"exit_code": exit_code, "tail": perftest_output.tail(stdout, stderr)}
    if exit_code is not None and -exit_code in CRASHES:
        name = signal.Signals(-exit_code).name
        return Outcome("failed", TOOL_CRASHED, f"{test.tool} crashed ({name}): a fault of the program or of the RDMA libraries, not of the cable",
                       details=details)
    try:
        output = perftest_output.parse(f"{stdout}\n{stderr}")
    except perftest_output.PerftestOutputError:
        if exit_code == 0 and test.role == "server":
            return Outcome("ok", details=details)
        return Outcome("failed", "no_output", f"{test.tool} ended with status {exit_code} and printed nothing about the test", details=details)
    details |= {"rdma_mtu": output.rdma_mtu, "gid_ipv4": output.local_ipv4, "peer_gid_ipv4": output.remote_ipv4}
    measured = _latency(test, output, details) if test.latency else _bandwidth(test, output, details)
    rows = output.latency if test.latency else output.bandwidth
    if measured and exit_code == 0:
        return Outcome("ok", details=details)
    if output.error is not None:
        if output.error.completion_status is not None:
            details["completion_status"] = output.error.completion_status
        return Outcome("failed", output.error.name, f"{output.error.means} (\"{output.error.line}\")", details=_without_numbers(details))
    if exit_code == 0 and test.role == "server" and not rows:
        return Outcome("ok", details=details)
    if measured:
        return Outcome("failed", "exit_status", f"{test.tool} printed a result and ended with status {exit_code}", details=_without_numbers(details))
    words = f"a row without a positive number ({rows[-1].iterations} iterations)" if rows else "no result row"
    return Outcome("failed", "zero_row", f"{test.tool} printed {words} and ended with status {exit_code}: no measurement", details=details)


def _bandwidth(test: LoadTest, output: perftest_output.PerftestOutput, details: dict[str, Any]) -> bool:
    row = perftest_output.bandwidth_of(output, test.size_bytes)
    if row is None or output.bidirectional != test.bidirectional:
        return False
    details |= {"gbps": row.average_gbps, "peak_gbps": row.peak_gbps, "message_rate_mpps": row.message_rate_mpps,
                "size_bytes": row.size_bytes, "iterations": row.iterations}
    return True


def _latency(test: LoadTest, output: perftest_output.PerftestOutput, details: dict[str, Any]) -> bool:
    row = perftest_output.latency_of(output, test.size_bytes)
    if row is None:
        return False
    values = {name.removesuffix("_us"): value for name, value in dataclasses.asdict(row).items() if name.endswith("_us") and value is not None}
    details |= {"latency_us": values, "size_bytes": row.size_bytes, "iterations": row.iterations}
    return True


def _without_numbers(details: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in details.items() if key not in NO_NUMBERS}
