# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the text that nccl-tests prints (``all_reduce_perf`` and its sisters), all versions up to 2.19.6.

The heading decides the columns, from the left: times of day, per-iteration columns and ``N/A`` move everything that is counted
from the right. Lines of others between the rows are skipped. One text may hold several runs, and a run may be cut anywhere.

Units: ``_us`` microseconds, ``_gbytes_per_s`` 10^9 byte/s. Grammar: nccl-tests ``src/common.cu``.
"""

from __future__ import annotations

import dataclasses
import math
import re
import typing as t

TEXT_LIMIT = 32 * 2**20
RUN_LIMIT = 256
ROW_LIMIT = 4096

VERSION = re.compile(r"# nccl-tests version (?P<version>[0-9.]{1,20})(?: nccl-headers=(?P<headers>\d{1,9}))?(?: nccl-library=(?P<library>\d{1,9}))?", re.ASCII)
STAND_IN = "stand-in"
STARTING = re.compile(r"# Collective test starting: (?P<name>\S{1,80})", re.ASCII)
CONCLUDED = re.compile(r"# Collective test concluded: (?P<name>\S{1,80})", re.ASCII)
OPTIONS = re.compile(
    r"# +nThread\s+(?P<threads>\d{1,9})\s+nGpus\s+(?P<gpus>\d{1,9})\s+minBytes\s+(?P<least>\d{1,18})\s+maxBytes\s+(?P<most>\d{1,18})", re.ASCII
)
VALIDATION = re.compile(r"validation: (?P<on>\d)", re.ASCII)
DEVICE = re.compile(
    r"#\s+Rank\s+(?P<rank>\d{1,9})(?:\s+Group\s+(?P<group>\d{1,9}))?\s+Pid\s+(?P<pid>\d{1,12})\s+on\s+(?P<host>\S{1,255})\s+device\s+(?P<device>\d{1,6})"
    r"\s+\[(?P<bus>[0-9A-Fa-fx:.]{1,20})\]\s*(?P<name>.{0,120})",
    re.ASCII,
)
HEADING = re.compile(r"#\s+size\s+count\b", re.ASCII)
OUT_OF_BOUNDS = re.compile(r"# Out of bounds values\s*: (?P<count>\d{1,18})(?: (?P<verdict>OK|FAILED))?", re.ASCII)
AVERAGE = re.compile(r"# Avg bus bandwidth\s*: (?P<value>-?[0-9.]{1,30}(?:e[+-]?\d{1,3})?|-?nan|-?inf)(?: (?P<verdict>OK|FAILED))?", re.ASCII)
WRITING_JSON = re.compile(r"# Writing JSON output to (?P<path>\S{1,1000})", re.ASCII)
ERROR = re.compile(r"# error: (?P<text>.{1,300})", re.ASCII)
#: ``HOST: Test NCCL failure common.cu:222 'invalid usage / '``, ``HOST: Test timeout (60s) common.cu:10``
FAILURE = re.compile(r"(?P<host>\S{1,255}): Test (?P<kind>NCCL failure|CUDA failure|timeout)\s*(?P<text>.{0,400})", re.ASCII)
CHAIN = re.compile(r" ?\.\. (?P<host>\S{1,255}) pid \d{1,12}: Test failure", re.ASCII)
TOO_FEW = re.compile(r"Invalid number of GPUs: (?P<wanted>\d{1,6}) requested but only (?P<found>\d{1,6})", re.ASCII)
STATUS = re.compile(r"rc=(?P<status>\d{1,3})$", re.ASCII)

_TIMES = ("time", "cputime", "time(us)")
_ITERATION = {"i_min": "min_us", "i_max": "max_us", "i_p99": "p99_us", "i_cv%": "cv_percent", "i_p50": "p50_us", "i_p95": "p95_us"}


class NcclTestsOutputError(ValueError):
    """The text is not output of nccl-tests."""


@dataclasses.dataclass(frozen=True, slots=True)
class Device:
    """One rank of a run, as listed under "Using devices"."""

    rank: int
    group: int
    pid: int
    host: str
    device: int
    bus: str
    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class Measure:
    """One placement of one row. None is "no number"; ``wrong`` is None where nothing was checked (``N/A``)."""

    time_us: float | None
    algbw_gbytes_per_s: float | None
    busbw_gbytes_per_s: float | None
    wrong: int | None
    iterations: dict[str, float | None] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One message size."""

    size_bytes: int
    count: int
    type: str
    redop: str
    root: int
    out_of_place: Measure
    in_place: Measure
    timestamp: str | None = None

    @property
    def busbw_gbytes_per_s(self) -> float | None:
        """The better of both placements: they move the same bytes, and the slower one met a disturbance. Without a time there is no rate."""
        measures = (self.out_of_place, self.in_place)
        return max((measure.busbw_gbytes_per_s for measure in measures if measure.busbw_gbytes_per_s is not None and measure.time_us is not None), default=None)

    @property
    def wrong(self) -> int | None:
        """Wrong values of both placements, None where neither was checked."""
        checked = [measure.wrong for measure in (self.out_of_place, self.in_place) if measure.wrong is not None]
        return sum(checked) if checked else None


@dataclasses.dataclass(slots=True)
class Run:
    """One run. ``concluded`` is None for versions before 2.16.7, which print no closing line."""

    version: str | None = None
    nccl_headers: int | None = None
    nccl_library: int | None = None
    collective: str | None = None
    least_bytes: int | None = None
    most_bytes: int | None = None
    validation: bool | None = None
    devices: list[Device] = dataclasses.field(default_factory=list)
    rows: list[Row] = dataclasses.field(default_factory=list)
    damaged_rows: int = 0
    out_of_bounds: int | None = None
    out_of_bounds_failed: bool = False
    average_gbytes_per_s: float | None = None
    average_printed: bool = False
    average_failed: bool = False
    concluded: bool | None = None
    errors: list[str] = dataclasses.field(default_factory=list)
    failures: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)  # (host, kind, text)
    gpus_wanted: int | None = None
    gpus_found: int | None = None
    json_path: str | None = None
    exit_status: int | None = None
    source: str = "text"
    stand_in: bool = False  # printed by the lab's stand-in, which has no NCCL in it

    @property
    def hosts(self) -> list[str]:
        """Hosts of the ranks, each once, by rank."""
        return list(dict.fromkeys(device.host for device in sorted(self.devices, key=lambda device: device.rank)))

    @property
    def ranks(self) -> int:
        """How many different ranks are listed."""
        return len({(device.group, device.rank) for device in self.devices})

    @property
    def largest(self) -> Row | None:
        """The row of the largest size, which alone says what a link carries: the printed average is over all sizes."""
        return max(self.rows, key=lambda row: row.size_bytes, default=None)


def number(token: str) -> float | None:
    """Return a finite number, None for ``nan``, ``inf``, ``N/A`` and what is none."""
    try:
        value = float(token)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _count(token: str) -> int | None:
    """Return a count of wrong values; early versions print an error as a fraction there, which counts nothing."""
    return int(token) if len(token) < 19 and re.fullmatch(r"\d+", token, re.ASCII) else None


class Reader:
    """Takes lines, keeps runs. Memory grows with rows and ranks alone, and both have a limit."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.pending: list[str] | None = None  # columns of the heading below which we are

    def line(self, text: str) -> bool:
        """Take one line; tell whether it was one of nccl-tests."""
        stripped = text.strip()
        if stripped.startswith("#"):
            return self._comment(stripped)
        if stripped[:1].isdigit():
            return self._row(stripped.split())
        if "Test " in text or "Invalid number of GPUs" in text:
            return self._failure(stripped)
        if stripped.startswith("rc=") and self.runs and (match := STATUS.match(stripped)):
            self.runs[-1].exit_status = int(match["status"])
            return True
        return False

    def _run(self) -> Run:
        if not self.runs:
            self.runs.append(Run())
        return self.runs[-1]

    def _open(self, used: bool) -> Run:
        """Return the run that a heading belongs to: a new one when the present one already has what the heading brings."""
        if not self.runs or (used and len(self.runs) < RUN_LIMIT):
            self.runs.append(Run())
            self.pending = None
        return self.runs[-1]

    def _closed(self) -> bool:
        return bool(self.runs) and (bool(self.runs[-1].rows) or self.runs[-1].average_printed or bool(self.runs[-1].failures))

    def _comment(self, text: str) -> bool:
        last = self.runs[-1] if self.runs else None
        if match := WRITING_JSON.match(text):
            self._open(self._closed()).json_path = match["path"]
        elif match := VERSION.match(text):
            run = self._open(bool(last and (last.version or last.devices or last.rows)))
            run.version, run.stand_in = match["version"], STAND_IN in text
            run.nccl_headers, run.nccl_library = (int(match[key]) if match[key] else None for key in ("headers", "library"))
        elif match := STARTING.match(text):
            run = self._open(bool(last and (last.collective or last.devices or last.rows)))
            run.collective, run.concluded = match["name"], False
        elif match := OPTIONS.match(text):
            run = self._open(bool(last and (last.most_bytes is not None or last.devices or last.rows)))
            run.least_bytes, run.most_bytes = int(match["least"]), int(match["most"])
            if found := VALIDATION.search(text):
                run.validation = found["on"] != "0"
        elif text.startswith("# Using devices"):
            self._open(bool(last and (last.devices or last.rows)))
        elif match := DEVICE.match(text):
            run = self._run()
            if len(run.devices) < ROW_LIMIT:
                run.devices.append(
                    Device(
                        int(match["rank"]),
                        int(match["group"] or 0),
                        int(match["pid"]),
                        match["host"],
                        int(match["device"]),
                        match["bus"],
                        match["name"].strip(),
                    )
                )
        elif HEADING.match(text):
            self._run()
            self.pending = text[1:].split()[5:]
        elif match := OUT_OF_BOUNDS.match(text):
            run = self._run()
            run.out_of_bounds, run.out_of_bounds_failed = int(match["count"]), match["verdict"] == "FAILED" or int(match["count"]) > 0
        elif match := AVERAGE.match(text):
            run = self._run()
            run.average_printed, run.average_gbytes_per_s, run.average_failed = True, number(match["value"]), match["verdict"] == "FAILED"
        elif match := CONCLUDED.match(text):
            run = self._run()
            run.concluded, run.collective = True, run.collective or match["name"]
        elif match := ERROR.match(text):
            self._run().errors.append(match["text"])
        else:
            return False
        return True

    def _row(self, tokens: list[str]) -> bool:
        if len(tokens) < 6 or not (_count(tokens[0]) is not None and _count(tokens[1]) is not None) or number(tokens[4]) is None or tokens[2][:1].isdigit():
            return False
        columns = self.pending or _columns_of(len(tokens))
        run = self._run()
        row = _read_row(tokens, columns) if columns else None
        if row is None:
            run.damaged_rows += 1
        elif len(run.rows) < ROW_LIMIT:
            run.rows.append(row)
        return True

    def _failure(self, text: str) -> bool:
        if match := TOO_FEW.search(text):
            run = self._run()
            run.gpus_wanted, run.gpus_found = int(match["wanted"]), int(match["found"])
            return True
        if match := FAILURE.search(text):
            run = self._run()
            entry = (match["host"], match["kind"], match["text"].strip())
            if len(run.failures) < ROW_LIMIT and entry not in run.failures:
                run.failures.append(entry)
            return True
        return CHAIN.search(text) is not None


def _columns_of(tokens: int) -> list[str]:
    """Return the columns of a row whose heading was cut off, by their number: the four shapes that exist."""
    plain = ["time", "algbw", "busbw", "#wrong"]
    iterations = [*plain, "i_min", "i_max", "i_p99", "i_cv%"]
    shapes = {13: plain * 2, 15: [*plain * 2, "timestamp"], 21: iterations * 2, 23: [*iterations * 2, "timestamp"]}
    return shapes.get(tokens, [])


def _read_row(tokens: list[str], columns: list[str]) -> Row | None:
    """Return a row by its heading's columns, None when tokens are missing."""
    placements: list[dict[str, str]] = []
    timestamp = None
    at = 5
    for column in columns:
        if column == "timestamp":
            timestamp = " ".join(tokens[at : at + 2]) or None
            at += 2
            continue
        if at >= len(tokens):
            return None
        if column in _TIMES:
            placements.append({})
            column = "time"
        if not placements:
            return None
        placements[-1][column] = tokens[at]
        at += 1
    if len(placements) != 2 or any("busbw" not in placement for placement in placements):
        return None
    root = number(tokens[4])
    return Row(
        int(tokens[0]), int(tokens[1]), tokens[2], tokens[3], int(root if root is not None else -1), _measure(placements[0]), _measure(placements[1]), timestamp
    )


def _measure(values: t.Mapping[str, str]) -> Measure:
    return Measure(
        number(values.get("time", "")),
        number(values.get("algbw", "")),
        number(values.get("busbw", "")),
        _count(values.get("#wrong", "")),
        {name: number(values[column]) for column, name in _ITERATION.items() if column in values},
    )


def parse(text: str) -> list[Run]:
    """Return the runs in a text.

    Raises NcclTestsOutputError when no line in it is one of nccl-tests, or the text is larger than any run's.
    """
    if not isinstance(text, str):
        raise NcclTestsOutputError(f"expected text, got {type(text).__name__}")
    if len(text) > TEXT_LIMIT:
        raise NcclTestsOutputError(f"{len(text)} characters are more than nccl-tests prints ({TEXT_LIMIT})")
    reader = Reader()
    for line in text.split("\n"):
        reader.line(line.rstrip("\r"))
    if not reader.runs:
        raise NcclTestsOutputError("no line of nccl-tests in the text")
    return reader.runs


def one_rank_jobs(runs: t.Sequence[Run]) -> list[Device]:
    """Return the ranks 0 of what should have been one job: every process ran its own (a binary built without MPI).

    Several runs one after the other on the same host are none of it.
    """
    zero = [device for run in runs for device in run.devices if device.rank == 0]
    alone = all(run.ranks <= 1 for run in runs if run.devices)
    return zero if alone and len({(device.host, device.group) for device in zero}) > 1 else []
