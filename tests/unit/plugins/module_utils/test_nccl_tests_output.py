# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Readers of nccl-tests: every recorded run to the values printed in it, every version's grammar, no other error than their own.

Each defect that other tools have here is named where a test shows that ours does not have it.
"""

from __future__ import annotations

import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.module_utils import nccl_tests_json, nccl_tests_output as reader
from ansible_collections.dgxspark.fabric.tests.unit.fuzzing import examples

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "explain" / "nccl-tests"
TEXTS = sorted(SAMPLES.glob("*.txt"))


def text(name: str) -> str:
    """Return one recorded run."""
    return (SAMPLES / name).read_text(encoding="utf-8")


# file, collective, ranks, rows, largest: (bytes, out of place (us, algbw, busbw, wrong), in place), average, concluded
RUNS = [
    ("all_gather_1rank.txt", "all_gather_perf", 1, 10, (268435456, (128.36, 2091.3, 0.0, 0), (0.93, 289746.0, 0.0, 0)), 0.0, True),
    ("all_gather_2ranks_socket_nccl_debug_info.txt", "all_gather_perf", 2, 3, (67108864, (18101.3, 3.71, 1.85, 0), (18093.8, 3.71, 1.85, 0)), 1.2943, True),
    ("all_reduce_1rank_min_bw_failed.txt", "all_reduce_perf", 1, 1, (1048576, (7.68, 136.56, 0.0, 0), (1.37, 765.52, 0.0, 0)), 0.0, True),
    (
        "all_reduce_1rank_per_iteration_timestamp_nccl_debug_info.txt",
        "all_reduce_perf",
        1,
        4,
        (16777216, (13.05, 1286.0, 0.0, 0), (3.04, 5526.5, 0.0, 0)),
        0.0,
        True,
    ),
    ("all_reduce_2ranks_socket.txt", "all_reduce_perf", 2, 8, (67108864, (36118.2, 1.86, 1.86, 0), (36118.0, 1.86, 1.86, 0)), 0.615945, True),
    ("all_reduce_4ranks_socket.txt", "all_reduce_perf", 4, 8, (67108864, (162414.0, 0.41, 0.62, 0), (162408.0, 0.41, 0.62, 0)), 0.180698, True),
    ("alltoall_2ranks_socket.txt", "alltoall_perf", 2, 3, (4194304, (2303.81, 1.82, 0.91, 0), (2304.42, 1.82, 0.91, None)), 0.533251, True),
]


def numbers(measure: reader.Measure) -> tuple:
    """Return what a measure says, as a tuple."""
    return (measure.time_us, measure.algbw_gbytes_per_s, measure.busbw_gbytes_per_s, measure.wrong)


@pytest.mark.parametrize(("name", "collective", "ranks", "rows", "largest", "average", "concluded"), RUNS, ids=[row[0] for row in RUNS])
def test_recorded_runs(name: str, collective: str, ranks: int, rows: int, largest: tuple, average: float, concluded: bool) -> None:
    (run,) = reader.parse(text(name))
    assert (run.version, run.nccl_library, run.collective, run.ranks, len(run.rows), run.damaged_rows) == ("2.19.6", 22809, collective, ranks, rows, 0)
    row = run.largest
    assert row is not None and (row.size_bytes, numbers(row.out_of_place), numbers(row.in_place)) == largest
    assert (run.average_gbytes_per_s, run.concluded, run.out_of_bounds) == (average, concluded, 0)


def test_every_printed_row_is_read() -> None:
    for path in TEXTS:
        content = path.read_text(encoding="utf-8")
        printed = [line.split() for line in content.splitlines() if line[:1] == " " and line.split()[:1] and line.split()[0].isdigit()]
        if not printed:
            continue
        (run,) = reader.parse(content)
        assert [[str(row.size_bytes), str(row.count), row.type, row.redop, str(row.root)] for row in run.rows] == [tokens[:5] for tokens in printed]
        assert [row.out_of_place.time_us for row in run.rows] == [float(tokens[5]) for tokens in printed]


def test_per_iteration_columns_and_time_of_day() -> None:
    """Columns counted from the right (SuperBench, AWS) shift by these."""
    (run,) = reader.parse(text("all_reduce_1rank_per_iteration_timestamp_nccl_debug_info.txt"))
    row = run.rows[0]
    assert row.timestamp == "2026-11-30 20:55:41"
    assert row.out_of_place.iterations == {"min_us": 5.73, "max_us": 124.0, "p99_us": 124.0, "cv_percent": 177.96}
    assert row.in_place.iterations == {"min_us": 1.25, "max_us": 2.72, "p99_us": 2.72, "cv_percent": 29.28}


@pytest.mark.parametrize("status", [("all_reduce_1rank_min_bw_failed.txt", 7), ("all_reduce_too_few_gpus.txt", 5), ("all_gather_1rank.txt", 0)])
def test_exit_status(status: tuple[str, int]) -> None:
    assert reader.parse(text(status[0]))[-1].exit_status == status[1]


def test_failures() -> None:
    (run,) = reader.parse(text("all_gather_nccl_net_ib_without_device.stdout.txt"))
    assert [failure[:2] for failure in run.failures] == [("spark1", "NCCL failure"), ("spark2", "NCCL failure")] and run.concluded is False
    (run,) = reader.parse(text("all_reduce_too_few_gpus.txt"))
    assert (run.gpus_wanted, run.gpus_found) == (2, 1)
    (run,) = reader.parse(text("all_reduce_1rank_min_bw_failed.txt"))
    assert run.average_failed and not run.out_of_bounds_failed


OLD = """# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#   Rank  0 Pid   4711 on   spark-a device  0 [0x01] NVIDIA GB10
#   Rank  1 Pid   4822 on   spark-b device  0 [0x01] NVIDIA GB10
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    21.35    0.00    0.00      0    20.98    0.00    0.00      0
   134217728      33554432     float     sum      -1   5842.1   22.97   22.97      0   5839.8   22.98   22.98      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 11.4887
#
"""


def test_versions_before_the_closing_line() -> None:
    (run,) = reader.parse(OLD)
    assert (run.concluded, run.version, run.hosts, run.average_gbytes_per_s) == (None, None, ["spark-a", "spark-b"], 11.4887)
    assert run.largest is not None and run.largest.busbw_gbytes_per_s == 22.98


def test_figures_are_not_cut_to_whole_numbers() -> None:
    """Cluster Health Scanner truncates the row's and the average's figure."""
    (run,) = reader.parse(OLD)
    assert run.rows[1].out_of_place.busbw_gbytes_per_s == 22.97


def test_a_row_without_heading_is_read_by_its_shape() -> None:
    """Exactly 13 columns (Cluster Health Scanner) is one of four shapes."""
    row = " 1024 256 float sum -1 4.10 0.25 0.20 0 0.31 3.29 0.21 0"
    for tail in ("", " 2026-10-02 09:14:07"):
        assert reader.parse(row + tail)[0].rows[0].in_place.busbw_gbytes_per_s == 0.21
    wide = " 1024 256 float sum -1 4.10 0.25 0.20 0 1 2 3 4 0.31 3.29 0.21 N/A 5 6 7 8"
    for tail in ("", " 2026-10-02 09:14:07"):
        assert reader.parse(wide + tail)[0].rows[0].in_place.busbw_gbytes_per_s == 0.21


def test_a_size_is_no_part_of_another() -> None:
    """Azure NHC matches the size as a part of the line."""
    (run,) = reader.parse(text("all_reduce_2ranks_socket.txt"))
    assert [row.size_bytes for row in run.rows if row.size_bytes == 16384] == [16384]


def test_no_figure_is_no_figure() -> None:
    """Gates of others fail open without a number."""
    (run,) = reader.parse("# Using devices\n#  Rank  0 Group  0 Pid 1 on a device  0 [0x01] X\n# Avg bus bandwidth    : nan\n")
    assert run.average_printed and run.average_gbytes_per_s is None and run.largest is None


def test_one_job_for_each_node_is_seen() -> None:
    alone = OLD.replace("#   Rank  1 Pid   4822 on   spark-b device  0 [0x01] NVIDIA GB10\n", "")
    assert [device.host for device in reader.one_rank_jobs(reader.parse(alone + alone.replace("spark-a", "spark-b")))] == ["spark-a", "spark-b"]
    assert reader.one_rank_jobs(reader.parse(OLD + OLD)) == []  # the same job twice
    assert reader.one_rank_jobs(reader.parse(alone + alone)) == []


@pytest.mark.parametrize("name", ["all_gather_1rank", "all_reduce_2ranks_socket"])
def test_json_says_what_the_text_says(name: str) -> None:
    document = nccl_tests_json.parse(text(f"{name}.json"))
    (run,) = reader.parse(text(f"{name}.txt"))
    assert document.complete and document.format_version == 3 and document.environment_entries > 0
    assert [row.size_bytes for row in document.run.rows] == [row.size_bytes for row in run.rows]
    for ours, printed in zip(document.run.rows, run.rows):
        assert ours.out_of_place.time_us == pytest.approx(printed.out_of_place.time_us, rel=0.01)
    assert (document.run.hosts, document.run.collective) == (run.hosts, run.collective)


def test_json_quirks() -> None:
    base = json.loads(text("all_reduce_2ranks_socket.json"))
    base["average_bus_bandwidith"] = {"bandwidith": 1.5, "okay": "false"}
    del base["average_bus_bandwidth"]
    base["out_of_bounds"] = {"count": 3, "okay": "false"}
    base["results"][0]["out_of_place"] = {"time": "nan", "alg_bw": 0.0, "bus_bw": 0.0, "nwrong": None}
    run = nccl_tests_json.parse(json.dumps(base).replace('"cv"', "inf")).run
    assert (run.average_gbytes_per_s, run.average_failed, run.out_of_bounds, run.out_of_bounds_failed) == (1.5, True, 3, True)
    bare = json.dumps(base).replace('"nan"', "inf").replace('"parallel_init": "false"', '"parallel_init": "true"')
    document = nccl_tests_json.parse(bare)
    assert document.not_numbers == ("out_of_place time at 4096 bytes",)
    assert document.run.rows[0].out_of_place == reader.Measure(None, 0.0, 0.0, None)


def test_json_errors_quote_nothing() -> None:
    for broken in ('{"env": ["HF_TOKEN=secret"', '{"env": ["HF_TOKEN=secret"]}', "secret"):
        with pytest.raises(nccl_tests_json.NcclTestsJsonError) as caught:
            nccl_tests_json.parse(broken)
        assert "secret" not in str(caught.value)


LINES = [line for path in TEXTS for line in path.read_text(encoding="utf-8").splitlines() if "NCCL INFO" not in line]


@examples(120)
@given(st.lists(st.sampled_from(LINES) | st.text(max_size=80), max_size=30))
def test_any_text_gives_runs_or_the_own_error(lines: list[str]) -> None:
    try:
        for run in reader.parse("\n".join(lines)):
            assert run.ranks >= 0 and run.largest is None or run.rows
    except reader.NcclTestsOutputError:
        pass


@examples(80)
@given(st.data())
def test_any_json_gives_a_run_or_the_own_error(data: st.DataObject) -> None:
    whole = text("all_reduce_2ranks_socket.json")
    at = data.draw(st.integers(0, len(whole)))
    variant = data.draw(st.sampled_from([whole[:at], whole[:at] + "\x00" + whole[at:], whole[:at] + "}" + whole[at:]]))
    try:
        nccl_tests_json.parse(variant)
    except nccl_tests_json.NcclTestsJsonError:
        pass
    value = data.draw(
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
            lambda inner: st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["results", "size", "out_of_place", "config", "devices", "rank", "time", "nccl_version"]), inner, max_size=4),
            max_leaves=12,
        )
    )
    try:
        nccl_tests_json.parse(json.dumps({"nccl_version": 1, "results": value, "config": value, "out_of_bounds": value, "env": value}))
    except nccl_tests_json.NcclTestsJsonError:
        pass
