# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the text that perftest prints: ``ib_write_bw``, ``ib_read_bw``, ``ib_send_bw`` and the latency tools.

The text grammar is the source of truth: JSON of perftest was invalid before 24.01, and still is with
some options, so it serves as a cross-check at most. The heading of the table decides the columns and the
unit; nothing is taken by its place from the right.

Units: ``_gbps`` is 10^9 bit/s, ``_us`` is microseconds, ``_mpps`` is 10^6 messages a second.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import statistics
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils import perftest_errors

#: perftest's "MB/sec" (up to 24.04) and "MiB/sec" (from 24.07) are both 2^20 bytes: x 8 / 10^9 for Gb/s.
MIB_IN_GBPS = 2**20 * 8 / 10**9
UNITS = {"Gb/sec": 1.0, "MB/sec": MIB_IN_GBPS, "MiB/sec": MIB_IN_GBPS}

#: More text than this is no output of a perftest run.
TEXT_LIMIT = 8 * 2**20
TAIL_LINES = 16
TAIL_CHARACTERS = 1500

_NUMBER = r"(?:\d{1,20}(?:\.\d{1,20})?|-\d{1,20}(?:\.\d{1,20})?|-?nan|-?inf)"
TITLE = re.compile(r"^ {10,}(?P<verb>RDMA_Write_imm|RDMA_Write|RDMA_Read|Send_imm|Send|Atomic\w*)"
                   r"(?P<both> Bidirectional)?(?P<list> Post List)? (?P<kind>BW|Latency) +Test *$", re.ASCII)
COLUMNS_BANDWIDTH = re.compile(r"^ #bytes\s+(?P<level>#sl\s+)?#iterations\s+BW peak\[(?P<unit>MB/sec|MiB/sec|Gb/sec)\]\s+"
                               r"BW average\[(?P=unit)\]\s+MsgRate\[Mpps\]", re.ASCII)
COLUMNS_LATENCY = re.compile(r"^ #bytes\s+#iterations\s+t_min\[(?P<unit>usec|cycles)\]\s+t_max\[", re.ASCII)
COLUMNS_LATENCY_DURATION = re.compile(r"^ #bytes\s+#iterations\s+t_avg\[(?P<unit>usec|cycles)\]\s+tps average", re.ASCII)
# A tool that was ended in mid-line leaves its last row glued to a message: the number still counts.
ROW_BANDWIDTH = re.compile(rf"^ (?P<size>\d{{1,18}})\s+(?P<iterations>\d{{1,18}})\s+(?P<peak>{_NUMBER})\s+(?P<average>{_NUMBER})\s+(?P<rate>{_NUMBER})"
                           rf"(?=\s|$|[A-Za-z])", re.ASCII)
ROW_BANDWIDTH_LEVEL = re.compile(rf"^ (?P<size>\d{{1,18}})\s+\d{{1,4}}\s+(?P<iterations>\d{{1,18}})\s+(?P<peak>{_NUMBER})\s+(?P<average>{_NUMBER})\s+"
                                 rf"(?P<rate>{_NUMBER})(?=\s|$|[A-Za-z])", re.ASCII)
ROW_LATENCY = re.compile(rf"^ (?P<size>\d{{1,18}})\s+(?P<iterations>\d{{1,18}})\s+(?P<min>{_NUMBER})\s+(?P<max>{_NUMBER})\s+(?P<typical>{_NUMBER})\s+"
                         rf"(?P<average>{_NUMBER})\s+(?P<stdev>{_NUMBER})\s+(?P<p99>{_NUMBER})\s+(?P<p999>{_NUMBER})(?=\s|$|[A-Za-z])", re.ASCII)
ROW_LATENCY_DURATION = re.compile(rf"^ (?P<size>\d{{1,18}})\s+(?P<iterations>\d{{1,18}})\s+(?P<average>{_NUMBER})\s+(?P<tps>{_NUMBER})"
                                  rf"(?=\s|$|[A-Za-z])", re.ASCII)
FIELD = re.compile(r"(?:^ |\t\t)(?P<key>[A-Za-z][^:\t\n]*?)\s*:\s(?P<value>[^\t\n]*?)\s*(?=\t\t|$)", re.ASCII)
GID = re.compile(r"^ GID: (?P<bytes>(?:\d{2,3}:){15}\d{2,3})\s*$", re.ASCII)
VERSION = re.compile(r"^Version: *(?P<version>\d{1,4}\.\d{1,4})\s*$", re.ASCII | re.MULTILINE)


class PerftestOutputError(ValueError):
    """The text is not output of perftest."""


@dataclasses.dataclass(frozen=True, slots=True)
class BandwidthRow:
    """One row of a bandwidth table; ``None`` where perftest printed 0, nan or inf: that is no measurement.

    ``section`` is "local" or "remote" below ``--report-both``, else "".
    """

    size_bytes: int
    iterations: int
    peak_gbps: float | None
    average_gbps: float | None
    message_rate_mpps: float | None
    section: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class LatencyRow:
    """One row of a latency table. Write and send latency is half of a round trip, read latency a whole one."""

    size_bytes: int
    iterations: int
    average_us: float | None
    min_us: float | None = None
    max_us: float | None = None
    typical_us: float | None = None
    stdev_us: float | None = None
    p99_us: float | None = None
    p99_9_us: float | None = None
    per_second: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class PerftestOutput:
    """All that one run printed.

    ``verb`` and ``kind`` ("bandwidth" or "latency") are "" where the run died before its title.
    ``fields`` are the header's pairs as printed. ``unit`` is the unit the table used.
    """

    verb: str = ""
    kind: str = ""
    bidirectional: bool = False
    unit: str | None = None
    fields: dict[str, str] = dataclasses.field(default_factory=dict)
    local_gids: tuple[str, ...] = ()
    remote_gids: tuple[str, ...] = ()
    bandwidth: tuple[BandwidthRow, ...] = ()
    latency: tuple[LatencyRow, ...] = ()
    error: perftest_errors.ErrorFound | None = None

    @property
    def device(self) -> str | None:
        """Name of the RDMA device."""
        return self.fields.get("Device")

    @property
    def rdma_mtu(self) -> int | None:
        """RoCE MTU in bytes: the smaller one of both ends."""
        return _leading_int(self.fields.get("Mtu"))

    @property
    def gid_index(self) -> int | None:
        """GID index in use; perftest does not print one that it chose by itself."""
        return _leading_int(self.fields.get("GID index"))

    @property
    def local_ipv4(self) -> str | None:
        """IPv4 address of the own GID, None where it is not an IPv4-mapped one."""
        return gid_ipv4(self.local_gids[0]) if self.local_gids else None

    @property
    def remote_ipv4(self) -> str | None:
        """IPv4 address of the peer's GID, None where it is not an IPv4-mapped one."""
        return gid_ipv4(self.remote_gids[0]) if self.remote_gids else None


def gid_ipv4(gid: str) -> str | None:
    """Turn perftest's GID (16 decimal bytes, colons between) into its IPv4 address, None if it holds none."""
    try:
        values = [int(part) for part in gid.split(":")]
    except ValueError:
        return None
    if len(values) != 16 or any(value > 255 for value in values):
        return None
    if any(values[:10]) or values[10:12] != [255, 255]:
        return None
    return ".".join(str(value) for value in values[12:])


def parse_version(text: str) -> str | None:
    """Return the number that ``ib_write_bw -V`` prints (it exits 1 all the same), None when there is none."""
    match = VERSION.search(text)
    return match["version"] if match else None


def parse(text: str) -> PerftestOutput:
    """Read the text of one run, stdout alone or with stderr mixed in.

    Lines that are not perftest's table are skipped wherever they stand: the warning about CPU frequencies
    comes on stderr and may land between heading and row.

    Raises PerftestOutputError when nothing in the text is perftest's.
    """
    if not isinstance(text, str):
        raise PerftestOutputError(f"expected text, got {type(text).__name__}")
    if len(text) > TEXT_LIMIT:
        raise PerftestOutputError(f"{len(text)} characters are more than a perftest run prints ({TEXT_LIMIT})")
    reader = _Reader()
    for line in text.split("\n"):
        reader.line(line.rstrip("\r"))
    error = perftest_errors.classify(text)
    if not reader.seen and error is None:
        raise PerftestOutputError("no line of perftest in the text")
    return reader.result(error)


class _Reader:
    """State of one pass over the lines."""

    def __init__(self) -> None:
        self.seen = False
        self.title: re.Match[str] | None = None
        self.unit: str | None = None
        self.row: re.Pattern[str] | None = None
        self.section = ""
        self.side: list[str] | None = None
        self.fields: dict[str, str] = {}
        self.local: list[str] = []
        self.remote: list[str] = []
        self.bandwidth: list[BandwidthRow] = []
        self.latency: list[LatencyRow] = []

    def line(self, line: str) -> None:
        """Take one line."""
        if len(line) > 4000:
            return
        if line.startswith(" #bytes"):
            self.columns(line)
        elif self.row is not None:
            self.table(line)
        elif line.startswith(" local address:"):
            self.side = self.local
        elif line.startswith(" remote address:"):
            self.side = self.remote
        elif line.startswith(" GID: "):
            match = GID.match(line)
            if match and self.side is not None:
                self.side.append(match["bytes"])
        elif title := TITLE.match(line):
            self.title, self.seen = title, True
        elif self.title is not None:
            for match in FIELD.finditer(line):
                self.fields.setdefault(match["key"], match["value"])

    def columns(self, line: str) -> None:
        """Take the heading of a table: it decides what the rows below it mean."""
        for heading, row in ((COLUMNS_BANDWIDTH, ROW_BANDWIDTH), (COLUMNS_LATENCY, ROW_LATENCY), (COLUMNS_LATENCY_DURATION, ROW_LATENCY_DURATION)):
            match = heading.match(line)
            if match:
                self.seen, self.unit = True, match["unit"]
                self.row = ROW_BANDWIDTH_LEVEL if match.groupdict().get("level") else row
                return

    def table(self, line: str) -> None:
        """Take a line below a heading."""
        if line.startswith(("Local results", "Remote results", " Local results", " Remote results")):
            self.section = line.split()[0].lower()
            return
        match = self.row.match(line) if self.row is not None else None
        if match is None:
            return
        size, iterations = int(match["size"]), int(match["iterations"])
        if self.row in (ROW_BANDWIDTH, ROW_BANDWIDTH_LEVEL):
            factor = UNITS[self.unit or "Gb/sec"]
            self.bandwidth.append(BandwidthRow(size, iterations, _measured(match["peak"], factor), _measured(match["average"], factor),
                                               _measured(match["rate"]), self.section))
        elif self.unit != "usec":
            return  # cycles of an unknown clock are no time
        elif self.row is ROW_LATENCY:
            self.latency.append(LatencyRow(size, iterations, _measured(match["average"]), _measured(match["min"]), _measured(match["max"]),
                                           _measured(match["typical"]), _spread(match["stdev"]), _measured(match["p99"]), _measured(match["p999"])))
        else:
            self.latency.append(LatencyRow(size, iterations, _measured(match["average"]), per_second=_measured(match["tps"])))

    def result(self, error: perftest_errors.ErrorFound | None) -> PerftestOutput:
        """Close the pass."""
        kind = "bandwidth" if self.bandwidth else "latency" if self.latency else ""
        if self.title:
            kind = {"BW": "bandwidth", "Latency": "latency"}[self.title["kind"]]
        return PerftestOutput(
            verb=self.title["verb"] if self.title else "", kind=kind, bidirectional=bool(self.title and self.title["both"]), unit=self.unit,
            fields=dict(self.fields), local_gids=tuple(self.local), remote_gids=tuple(self.remote),
            bandwidth=tuple(self.bandwidth), latency=tuple(self.latency), error=error)


def bandwidth_of(output: PerftestOutput, size_bytes: int | None = None) -> BandwidthRow | None:
    """Return the row that is the run's measurement, None when there is none with a number in it.

    Of several sizes the one asked for, else the largest; of several rows of one size (``--run_infinitely``)
    the middle one by average, since single ones catch start and end; with ``--report-both`` the first
    table, which is the sum.
    """
    rows = [row for row in output.bandwidth if not row.section and row.average_gbps is not None]
    if size_bytes is None and rows:
        size_bytes = max(row.size_bytes for row in rows)
    rows = [row for row in rows if row.size_bytes == size_bytes]
    if not rows:
        return None
    middle = statistics.median_low(row.average_gbps for row in rows if row.average_gbps is not None)
    return next(row for row in rows if row.average_gbps == middle)


def latency_of(output: PerftestOutput, size_bytes: int | None = None) -> LatencyRow | None:
    """Return the latency row of ``size_bytes`` (default: the smallest size), None when there is no number."""
    rows = [row for row in output.latency if row.average_us is not None]
    if size_bytes is None and rows:
        size_bytes = min(row.size_bytes for row in rows)
    return next((row for row in rows if row.size_bytes == size_bytes), None)


def json_results(text: str) -> dict[str, Any] | None:
    """Return the ``results`` of perftest's JSON, None where it is not JSON (before 24.01, and with some options)."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    results = document.get("results") if isinstance(document, dict) else None
    return results if isinstance(results, dict) else None


def tail(stdout: str, stderr: str) -> str:
    """Return the last lines of a run, messages (stderr) last: they say how it ended."""
    lines = [line.rstrip() for text in (stdout, stderr) for line in text.splitlines() if line.strip(" -*\t")]
    return "\n".join(lines[-TAIL_LINES:])[-TAIL_CHARACTERS:]


def _measured(text: str, factor: float = 1.0) -> float | None:
    """Return a number that was measured: positive and finite, else None."""
    value = float(text) * factor
    return value if math.isfinite(value) and value > 0 else None


def _spread(text: str) -> float | None:
    """Return a deviation: 0 is one, perftest truncates differences to whole microseconds."""
    value = float(text)
    return value if math.isfinite(value) and value >= 0 else None


def _leading_int(text: str | None) -> int | None:
    match = re.match(r"\d{1,9}", text or "", re.ASCII)
    return int(match[0]) if match else None
