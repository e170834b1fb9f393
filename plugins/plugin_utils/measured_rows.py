# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measurements that are a row of figures: NCCL by message size, TCP by number of streams, as the stored records have them.

NCCL's records are runs with the fields of ``nccl_tests_output.Run``, under ``runs`` of the node that launched them. TCP's are one entry a test and end
under ``tests`` of each node, as ``perftest_collect`` returns them in ``fabric_iperf3``; the plan's further test of the same ``id`` says between whom.
A record without a figure leaves no point.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Sweep:
    """One run of nccl-tests: rows are (size in bytes, bus bandwidth in 10^9 byte/s, time in microseconds), by size."""

    collective: str
    ranks: int
    hosts: tuple[str, ...]
    version: str
    rows: tuple[tuple[int, float, float], ...]

    @property
    def largest(self) -> tuple[int, float]:
        """Size in bytes and bus bandwidth of the largest message, which alone says what the cables carry."""
        return self.rows[-1][:2]

    @property
    def name(self) -> str:
        """How people tell runs apart."""
        nodes = f" on {', '.join(self.hosts)}" if 0 < len(self.hosts) <= 4 else f" on {len(self.hosts)} nodes" if self.hosts else ""
        return f"{self.ranks} ranks{nodes}" if self.ranks else f"ranks not told{nodes}"


@dataclasses.dataclass(frozen=True, slots=True)
class Rung:
    """One TCP test: from whom to whom, over which rail (``a``, ``b`` or ``both``), with how many streams."""

    client: str
    server: str
    rail: str
    streams: int
    gbps: float
    expected_gbps: float | None
    retransmits: int | None


def sweeps(report: Mapping[str, Any]) -> list[Sweep]:
    """Return the runs of nccl-tests that have figures."""
    found = []
    for result in (report.get("nccl") or {}).values():
        for run in (result or {}).get("runs") or []:
            rows = sorted(filter(None, (sweep_row(row) for row in run.get("rows") or [])))
            devices = sorted(run.get("devices") or [], key=lambda device: (device.get("group") or 0, device["rank"]))
            if rows:
                found.append(
                    Sweep(
                        collective=str(run.get("collective") or "nccl-tests").removesuffix("_perf"),
                        ranks=len({(device.get("group") or 0, device["rank"]) for device in devices}),
                        hosts=tuple(dict.fromkeys(str(device["host"]) for device in devices)),
                        version=str(run.get("version") or ""),
                        rows=tuple(rows),
                    )
                )
    return found


def sweep_row(row: Mapping[str, Any]) -> tuple[int, float, float] | None:
    """Return size, bus bandwidth and time of a row: of its better placement, since both move the same bytes."""
    placed = [row.get(name) or {} for name in ("out_of_place", "in_place")]
    known = [
        (float(one["busbw_gbytes_per_s"]), float(one["time_us"]))
        for one in placed
        if is_figure(one.get("busbw_gbytes_per_s")) and is_figure(one.get("time_us")) and one["time_us"] > 0
    ]
    size = row.get("size_bytes")
    return (int(size), *max(known)) if known and is_figure(size) and size > 0 else None


def cable_rates(report: Mapping[str, Any]) -> list[float]:
    """Return the rate of each cable with both rails, Gb/s, one way; a way that lacks a rail's figure is left out."""
    sums: list[float] = []
    for cable in report["cables"]:
        ways: dict[tuple[str, str], list[float]] = {}
        for row in cable["rails"].values():
            for one in row["measurements"]:
                if one["stage"] == "directed" and one["state"] == "ok" and one["gbps"] is not None:
                    ways.setdefault((one["client"], one["server"]), []).append(one["gbps"])
        sums += [sum(rails) for rails in ways.values() if len(rails) == len(cable["rails"])]
    return sums


def rungs(report: Mapping[str, Any]) -> list[Rung]:
    """Return the TCP tests that have figures, in the order of the plan; the two tests of a cable whose rails ran at once are one."""
    figures = {record["id"]: record for record in tcp_records(report) if record.get("role") == "client" and has_rate(record)}
    found: list[Rung] = []
    twins: dict[tuple[str, str, int, int], list[Mapping[str, Any]]] = {}
    for test in report["plan"].get("further_tests") or []:
        if test["stage"] != "tcp":
            continue
        if not test["with_twin"]:
            found += [rung(test["rail"], [test], figures)] if test["id"] in figures else []
            continue
        pair = twins.setdefault((test["client"], test["server"], test["streams"], test["round"]), [])
        pair.append(test)
        if len(pair) == 2 and all(one["id"] in figures for one in pair):
            found.append(rung("both", pair, figures))
    return found


def rung(rail: str, tests: Sequence[Mapping[str, Any]], figures: Mapping[str, Mapping[str, Any]]) -> Rung:
    """Return what tests that ran at once carried together."""
    expected = [float(test["expected_gbps"]) for test in tests if test["expected_gbps"]]
    again = [figures[test["id"]].get("retransmits") for test in tests]
    return Rung(
        client=tests[0]["client"],
        server=tests[0]["server"],
        rail=rail,
        streams=int(tests[0]["streams"]),
        gbps=sum(float(figures[test["id"]]["gbps"]) for test in tests),
        expected_gbps=sum(expected) if len(expected) == len(tests) else None,
        retransmits=sum(again) if None not in again else None,
    )


def has_rate(record: Mapping[str, Any]) -> bool:
    """Tell whether a record of a TCP test is a figure."""
    return record.get("status") == "ok" and is_figure(record.get("gbps")) and record["gbps"] > 0


def tcp_records(report: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the records of TCP tests."""
    for result in (report.get("iperf3") or {}).values():
        yield from (result or {}).get("tests") or []


def is_figure(value: Any) -> bool:
    """Tell whether a value is a number that can be drawn."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
