# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as ``fabric.prom``, for the textfile collector of node_exporter (Prometheus text exposition format 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import BROKEN, STATUSES
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.measured_rows import rungs, sweeps
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_time import epoch_seconds, seconds_between

PREFIX = "dgxspark_fabric"
BITS = 1e9  # the report counts in Gb/s, Prometheus in base units

Sample = tuple[dict[str, str], float]


def files(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of this format, name to content."""
    cluster = {"cluster": report["cluster"]}
    lines: list[str] = []
    for name, text, samples in metrics(report):
        # One series a set of labels: the collector refuses the whole file otherwise.
        series: dict[str, float] = {}
        for labels, value in samples:
            key = label_text({**cluster, **labels})
            series[key] = min(value, series.get(key, value))
        if series:
            lines += [f"# HELP {PREFIX}_{name} {text}", f"# TYPE {PREFIX}_{name} gauge"]
            lines += [f"{PREFIX}_{name}{key} {number(value)}" for key, value in series.items()]
    return {"fabric.prom": "\n".join(lines) + "\n"}


def metrics(report: Mapping[str, Any]) -> Iterator[tuple[str, str, Iterable[Sample]]]:
    """Yield every metric: name, help text, samples."""
    plan, verdict = report["plan"], report["verdict"]
    yield "info", "The run that these figures come from.", [
        ({"run_id": report["run_id"], "mode": report["mode"], "topology": plan["topology"], "collection_version": report["collection_version"]}, 1)
    ]
    yield "verdict", "1 when the run passed, 0 when it failed.", [({}, verdict["status"] == "pass")]
    yield "run_finished_timestamp_seconds", "When the run ended; alert on its age.", [({}, epoch_seconds(report["finished"]))]
    yield "run_duration_seconds", "How long the run took.", [({}, seconds_between(report["started"], report["finished"]))]
    counts = [({"status": status}, verdict["counts"].get(status, 0)) for status in STATUSES]
    yield "findings", "Number of findings by status; unknown counts as fail.", counts
    yield "finding_failed", "1 for each finding that fails the run.", [
        ({"id": one["id"], "subject": one["subject"], "layer": one["layer"]}, 1) for one in report["findings"] if one["status"] in BROKEN
    ]
    absent = {*report["unreachable"], *(node for node, facts in report["nodes"].items() if not facts)}
    tested = [node for node in plan["nodes"] if node not in report["not_tested"]]
    answered = [({"node": node}, node not in absent) for node in tested]
    yield "node_answered", "1 when the node answered, 0 when not; nodes outside --limit are left out.", answered
    drifted = {node: sum(entry.get("host") == node for entry in report["drift"]) for node in tested}
    yield "drift_settings", "Number of settings that differ from the plan.", [({"node": node}, value) for node, value in drifted.items()]
    rails = [(cable["name"], rail, row) for cable in report["cables"] for rail, row in cable["rails"].items()]
    yield "rail_ok", "1 when a rail of a cable passes, warnings included, 0 when it fails; rails not judged are left out.", [
        ({"cable": cable, "rail": rail}, row["status"] not in BROKEN) for cable, rail, row in rails if row["status"] != "skip"
    ]
    taken = [({"cable": cable, "rail": rail}, one) for cable, rail, row in rails for one in row["measurements"]]
    for key, name, text in (
        ("gbps", "rail_bits_per_second", "Measured RDMA rate; data flows from client to server, bidirectional is the sum of both ways."),
        ("expected_gbps", "rail_expected_bits_per_second", "RDMA rate that the plan expects of the same test."),
    ):
        ways = [({**labels, **{name: one[name] for name in ("stage", "client", "server")}}, one[key]) for labels, one in taken]
        yield name, text, [(labels, float(value) * BITS) for labels, value in ways if value is not None]
    tcp = [({"client": one.client, "server": one.server, "rail": one.rail, "streams": str(one.streams)}, one.gbps * BITS) for one in rungs(report)]
    yield "tcp_bits_per_second", "TCP rate received by the server, by number of streams.", tcp
    yield "nccl_bus_bytes_per_second", "Bus bandwidth of nccl-tests at the largest message; the lowest of several runs.", [
        ({"collective": one.collective, "ranks": str(one.ranks)}, one.largest[1] * BITS) for one in sweeps(report)
    ]
    yield "regressions", "Rails that became slower than in the run compared with, beyond noise.", [
        ({"against": one["against"]}, len(one["regressions"])) for one in report.get("comparison") or []
    ]


def label_text(labels: Mapping[str, str]) -> str:
    """Return labels in braces, with what the format escapes."""
    told = []
    for name, value in labels.items():
        escaped = str(value).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        told.append(f'{name}="{escaped}"')
    return f"{{{','.join(told)}}}"


def number(value: float) -> str:
    """Return a value in the format's notation; whole numbers without a point."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))
