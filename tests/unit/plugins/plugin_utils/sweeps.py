# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Rows of measurements for reports: recorded outputs through their parsers, and a ladder over every edge of a plan."""

from __future__ import annotations

import dataclasses
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils import iperf3_output, nccl_tests_output
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.explaining import FIXTURES


def recorded_nccl(*names: str) -> dict[str, Any]:
    """Return recorded runs of nccl-tests as a node's result."""
    runs = []
    for name in names:
        reader = nccl_tests_output.Reader()
        for line in (FIXTURES / "explain/nccl-tests" / name).read_text(encoding="utf-8").splitlines():
            reader.line(line)
        runs += [dataclasses.asdict(run) for run in reader.runs]
    return {"runs": runs}


def nccl_sweep(collective: str, hosts: list[str], factor: float = 1.0) -> dict[str, Any]:
    """Return a run from 1 KiB to 8 GiB whose curve rises to what a cable carries."""
    rows = []
    for power in range(10, 34):
        time = 30.0 + 2**power / (24.0e3 * factor)
        rate = round(2**power / time / 1e3, 2)
        placed = {"time_us": round(time, 2), "algbw_gbytes_per_s": rate, "busbw_gbytes_per_s": rate, "wrong": 0}
        row = {"size_bytes": 2**power, "count": 2 ** (power - 2), "type": "float", "redop": "sum", "root": -1}
        rows.append({**row, "out_of_place": placed, "in_place": placed})
    card = {"device": 0, "bus": "000f:01:00", "name": "NVIDIA GB10"}
    devices = [{"rank": rank, "group": 0, "pid": 100 + rank, "host": host, **card} for rank, host in enumerate(hosts)]
    return {"collective": f"{collective}_perf", "version": "2.17.6", "devices": devices, "rows": rows}


def recorded_iperf3(name: str, test: dict[str, Any]) -> dict[str, Any]:
    """Return a recorded run of iperf3 as what the client of a planned test leaves."""
    output = iperf3_output.parse((FIXTURES / "explain/lab" / name).read_text(encoding="utf-8"))
    return {
        "id": test["id"],
        "role": "client",
        "status": "failed" if output.error else "ok",
        "error": None,
        "message": output.error or "",
        "gbps": output.received_gbps,
        "streams": output.streams,
        "retransmits": output.retransmits,
    }


def tcp_tests(plan: dict[str, Any], **which: Any) -> list[dict[str, Any]]:
    """Return the plan's TCP tests that have all given values."""
    return [test for test in plan["further_tests"] if test["stage"] == "tcp" and all(test[key] == value for key, value in which.items())]


def ladder(plan: dict[str, Any]) -> dict[str, Any]:
    """Return what iperf3 says of every edge of a plan, rail by rail and over both at once, with 1, 4 and 8 streams."""
    rates = {1: 34.0, 4: 71.0, 8: 92.0}
    found: dict[str, Any] = {node: {"status": "done", "tests": []} for node in plan["nodes"]}
    for place, test in enumerate(tcp_tests(plan)):
        record = {"id": test["id"], "role": "client", "status": "ok", "error": None, "message": "", "streams": test["streams"]}
        record |= {"gbps": rates[test["streams"]] + 0.6 * (place % 9), "retransmits": place * test["streams"]}
        found[test["client"]]["tests"].append(record)
    return found
