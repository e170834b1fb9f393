# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reader of perftest output: every recorded run to the values printed in it, and every input to no other error."""

from __future__ import annotations

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.module_utils import perftest_errors, perftest_output as reader
from ansible_collections.dgxspark.fabric.tests.unit.fuzzing import examples

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "perftest"
RAIL = ("192.168.12.1", "192.168.12.2")


def text(name: str) -> str:
    """Return one recorded run."""
    return (SAMPLES / f"{name}.txt").read_text(encoding="utf-8")


# name, device, (size, iterations, peak, average, Mpps) as printed in Gb/s; peak 0.00 is "not measured"
BANDWIDTH = [
    ("ib_send_bw-n100.client", "rocep1s0f0", (65536, 100, 0.24, 0.24, 0.000464)),
    ("ib_send_bw-n100.server", "rocep1s0f1", (65536, 100, None, 0.26, 0.000503)),
    ("ib_write_bw-D3.client", "rocep1s0f0", (65536, 2009, None, 0.34, 0.000657)),
    ("ib_write_bw-D3.server", "rocep1s0f1", (65536, 2009, None, 0.34, 0.000657)),
    ("ib_write_bw-R.client", "rocep1s0f0", (65536, 1048, None, 0.27, 0.000521)),
    ("ib_write_bw-R.server", "rocep1s0f1", (65536, 1048, None, 0.27, 0.000521)),
    ("ib_write_bw-a-n5.client", "rocep1s0f0", (8388608, 5, 0.30, 0.30, 0.000005)),
    ("ib_write_bw-a-n5.server", "rocep1s0f1", (8388608, 5, 0.30, 0.30, 0.000005)),
    ("ib_write_bw-b-n50.client", "rocep1s0f0", (65536, 50, 0.37, 0.36, 0.000678)),
    ("ib_write_bw-b-n50.server", "rocep1s0f1", (65536, 50, 0.37, 0.36, 0.000678)),
    ("ib_write_bw-json.client", "rocep1s0f0", (65536, 1172, None, 0.31, 0.000584)),
    ("ib_write_bw-json.server", "rocep1s0f1", (65536, 1172, None, 0.31, 0.000584)),
    ("ib_write_bw-n100.client", "rocep1s0f0", (65536, 100, 0.29, 0.28, 0.000541)),
    ("ib_write_bw-n100.server", "rocep1s0f1", (65536, 100, 0.29, 0.28, 0.000541)),
    ("ib_write_bw-x1-q4.client", "rocep1s0f0", (65536, 200, 0.33, 0.33, 0.000626)),
    ("ib_write_bw-x1-q4.server", "rocep1s0f1", (65536, 200, 0.33, 0.33, 0.000626)),
    ("loss1.client", "rocep1s0f0", (65536, 900, None, 0.16, 0.000299)),
    ("loss1.server", "rocep1s0f1", (65536, 900, None, 0.16, 0.000299)),
    ("mtu1500-nft.client", "rocep1s0f0", (65536, 50, 0.25, 0.25, 0.000478)),
    ("mtu1500-nft.server", "rocep1s0f1", (65536, 50, 0.25, 0.25, 0.000478)),
    ("mtu1500-tap.client", "rocep1s0f0", (65536, 50, 0.28, 0.27, 0.000520)),
    ("mtu1500-tap.server", "rocep1s0f1", (65536, 50, 0.28, 0.27, 0.000520)),
    ("same-subnet-twin-b.client", "roceP2p1s0f0", (65536, 50, 0.23, 0.21, 0.000397)),
    ("same-subnet-twin-b.server", "roceP2p1s0f1", (65536, 50, 0.23, 0.21, 0.000397)),
    ("tbf50-1to2-b.client", "rocep1s0f0", (65536, 143, None, 0.073604, 0.000140)),
    ("tbf50-1to2-b.server", "rocep1s0f1", (65536, 281, None, 0.073604, 0.000140)),
    ("tbf50-1to2.client", "rocep1s0f0", (65536, 147, None, 0.025611, 0.000049)),
    ("tbf50-1to2.server", "rocep1s0f1", (65536, 147, None, 0.025611, 0.000049)),
    ("tbf50-deep.client", "rocep1s0f0", (65536, 297, None, 0.051790, 0.000099)),
    ("tbf50-deep.server", "rocep1s0f1", (65536, 297, None, 0.051790, 0.000099)),
]

# name, (avg, min, max, typical, stdev, p99, p99.9) in microseconds
LATENCY = [
    ("ib_write_lat-n100.client", (1081.74, 366.23, 4468.99, 533.63, 1008.11, 4468.99, 4468.99)),
    ("ib_write_lat-n100.server", (1087.64, 357.66, 5147.33, 536.58, 1014.17, 5147.33, 5147.33)),
    ("ib_write_lat-json.client", (1065.61, 326.66, 5516.85, 494.86, 1089.26, 5516.85, 5516.85)),
    ("ib_write_lat-json.server", (1098.14, 327.79, 5625.54, 511.99, 1118.59, 5625.54, 5625.54)),
]

# runs without a measurement, and the class of failure that their text shows (None: killed without a word)
FAILED = [
    ("block4791.client", None), ("block4791.server", None), ("block4791-retry3.client", None), ("block4791-retry3.server", None),
    ("fail-cut-setlink.client", "link_down"), ("fail-cut-setlink.server", None),
    ("fail-cut-tapdown.client", None), ("fail-cut-tapdown.server", None),
    ("fail-device-other-cable.client", "peer_lost"), ("fail-device-other-cable.server", "qp_connect"),
    ("fail-gid-index-out-of-range.client", "gid_index"), ("fail-gid-index-out-of-range.server", None),
    ("fail-gid0-linklocal.client", "qp_connect"), ("fail-gid0-linklocal.server", "qp_connect"),
    ("fail-mismatched-params.client", "remote_access"), ("fail-mismatched-params.server", "peer_lost"),
    ("clock-unstable.client", "clock_unstable"), ("fail-no-route.client", "connect_failed"), ("fail-no-route.server", None),
    ("fail-no-server-listening.client", "connect_failed"), ("fail-no-server-listening.server", None),
    ("fail-wrong-device.client", "device_missing"), ("fail-wrong-device.server", None),
    ("fail-wrong-gid-index-client.client", "gid_mismatch"), ("fail-wrong-gid-index-client.server", "gid_mismatch"),
    ("kill-clientproc.client", None), ("kill-clientproc.server", "peer_lost"),
    ("kill-serverproc.client", "peer_lost"), ("kill-serverproc.server", None),
    ("mid-setlink.client", "link_lost"), ("mid-setlink.server", None),
    ("mid-tapdown.client", "peer_lost"), ("mid-tapdown.server", None),
    ("mtu1500-dir.client", None), ("mtu1500-dir.server", None),
]


def test_every_sample_is_in_a_table() -> None:
    named = {row[0] for table in (BANDWIDTH, LATENCY, FAILED) for row in table}
    assert {path.name.removesuffix(".txt") for path in SAMPLES.glob("*.txt")} == named


@pytest.mark.parametrize(("name", "device", "row"), BANDWIDTH, ids=[row[0] for row in BANDWIDTH])
def test_bandwidth_samples(name: str, device: str, row: tuple) -> None:
    output = reader.parse(text(name))
    found = reader.bandwidth_of(output)
    assert (found.size_bytes, found.iterations, found.peak_gbps, found.average_gbps, found.message_rate_mpps) == row
    assert (output.kind, output.unit, output.device, output.rdma_mtu, output.gid_index, output.error) == ("bandwidth", "Gb/sec", device, 4096, 1, None)
    assert output.bidirectional == name.startswith(("ib_write_bw-b-", "tbf50-1to2-b."))
    rail = ("192.168.112.1", "192.168.112.2") if "twin-b" in name else RAIL
    assert (output.local_ipv4, output.remote_ipv4) == (rail if name.endswith("client") else rail[::-1])


@pytest.mark.parametrize(("name", "row"), LATENCY, ids=[row[0] for row in LATENCY])
def test_latency_samples(name: str, row: tuple) -> None:
    output = reader.parse(text(name))
    found = reader.latency_of(output)
    assert (found.average_us, found.min_us, found.max_us, found.typical_us, found.stdev_us, found.p99_us, found.p99_9_us) == row
    assert (output.kind, found.size_bytes, found.iterations, output.rdma_mtu) == ("latency", 2, 100, 4096)


@pytest.mark.parametrize(("name", "error"), FAILED, ids=[row[0] for row in FAILED])
def test_failed_samples_have_no_number(name: str, error: str | None) -> None:
    try:
        output = reader.parse(text(name))
    except reader.PerftestOutputError:
        assert error is None
        return
    assert reader.bandwidth_of(output) is None
    assert (output.error.name if output.error else None) == error


def test_all_sizes_of_a_sweep() -> None:
    output = reader.parse(text("ib_write_bw-a-n5.client"))
    assert [row.size_bytes for row in output.bandwidth] == [2**power for power in range(1, 24)]
    assert reader.bandwidth_of(output, 4096).average_gbps == 0.089259
    assert reader.bandwidth_of(output, 3) is None


def test_four_queue_pairs_have_four_gids() -> None:
    output = reader.parse(text("ib_write_bw-x1-q4.client"))
    assert (len(output.local_gids), len(output.remote_gids), output.fields["Number of qps"]) == (4, 4, "4")


def test_json_is_a_cross_check() -> None:
    recorded = text("ib_write_bw-json.client")
    document = recorded[recorded.index("\n{\n"):recorded.index("[exit")]
    assert reader.json_results(document)["BW_average"] == reader.bandwidth_of(reader.parse(recorded)).average_gbps
    assert reader.json_results("{ results: { MsgSize: 65536, BW_average: 92.57, }, }") is None
    assert reader.json_results('{"results": {"bw_avg": 92.570000,\n\n}\n}') is None
    assert reader.json_results("[" * 100000) is None


HEAD = " #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]{more}\n"


@pytest.mark.parametrize("unit", ["MB/sec", "MiB/sec"])
def test_mebibytes_become_gigabits(unit: str) -> None:
    row = " 8388608    5000             24110.20            24101.87\t\t     0.003013\n"
    found = reader.bandwidth_of(reader.parse(HEAD.format(unit=unit, more="") + row))
    assert found.average_gbps == pytest.approx(202.18, abs=0.01)


def test_low_bandwidth_format_with_processor_column() -> None:
    row = " 2          48213           0.000000            0.051427            3.214200\t     97.40\n"
    found = reader.bandwidth_of(reader.parse(HEAD.format(unit="Gb/sec", more="    CPU_Util[%]") + row))
    assert (found.average_gbps, found.message_rate_mpps, found.peak_gbps) == (0.051427, 3.2142, None)


def test_service_level_column() -> None:
    head = " #bytes     #sl      #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    found = reader.bandwidth_of(reader.parse(head + " 65536      3       1000             0.00               98.50  \t\t     0.187874\n"))
    assert (found.iterations, found.average_gbps) == (1000, 98.5)


def test_message_between_heading_and_row() -> None:
    noise = "Conflicting CPU frequency values detected: 2808.000000 != 3900.000000. CPU Frequency is not max.\n"
    row = " 65536      20000            111.72             111.71             0.213070\n"
    assert reader.bandwidth_of(reader.parse(HEAD.format(unit="Gb/sec", more="") + noise + row)).average_gbps == 111.71


def test_degraded_adapter() -> None:
    row = " 65536      126170           0.00               13.23\t\t     0.025236\n"
    assert reader.bandwidth_of(reader.parse(HEAD.format(unit="Gb/sec", more="") + row)).average_gbps == 13.23


@pytest.mark.parametrize("value", ["0.00", "nan", "-nan", "inf", "-12.50", "0.000000"])
def test_what_is_no_measurement(value: str) -> None:
    row = f" 65536      0                0.00               {value}\t\t     0.000000\n"
    output = reader.parse(HEAD.format(unit="Gb/sec", more="") + row)
    assert reader.bandwidth_of(output) is None
    assert output.bandwidth[0].average_gbps is None


def test_infinite_run_takes_the_middle_row() -> None:
    rows = "".join(f" 65536      600              0.00               {value}\t\t     0.2\n" for value in ("61.00", "98.10", "98.20", "98.30", "12.00"))
    assert reader.bandwidth_of(reader.parse(HEAD.format(unit="Gb/sec", more="") + rows)).average_gbps == 98.1


def test_report_of_both_ends_takes_the_sum() -> None:
    head, row = HEAD.format(unit="Gb/sec", more=""), " 65536      600              0.00               {}\t\t     0.2\n"
    sections = ("", "190.00"), (" Local results: \n", "95.10"), (" Remote results: \n", "94.90")
    whole = "".join(section + head + row.format(value) for section, value in sections)
    output = reader.parse(whole)
    assert reader.bandwidth_of(output).average_gbps == 190.0
    assert [item.section for item in output.bandwidth] == ["", "local", "remote"]


def test_duration_latency_and_cycles() -> None:
    rows = "    tps average\n 8             801223            1.87           267379.68\n"
    found = reader.latency_of(reader.parse(" #bytes        #iterations       t_avg[usec]" + rows))
    assert (found.average_us, found.per_second, found.size_bytes) == (1.87, 267379.68, 8)
    cycles = reader.parse(" #bytes        #iterations       t_avg[cycles]" + rows)
    assert reader.latency_of(cycles) is None


def test_new_header_fields() -> None:
    lines = ("                    RDMA_Write Bidirectional BW Test\n Mtu             : 1024[B]\n"
             " PCIe relax order: ON\t\tLock-free      : OFF\n CQE Poll Batch  : Dynamic\n")
    output = reader.parse(lines)
    assert (output.bidirectional, output.rdma_mtu, output.fields["Lock-free"], output.fields["CQE Poll Batch"]) == (True, 1024, "OFF", "Dynamic")


@pytest.mark.parametrize(("gid", "address"), [
    ("00:00:00:00:00:00:00:00:00:00:255:255:10:21:01:02", "10.21.1.2"),
    ("254:128:00:00:00:00:00:00:78:45:18:255:254:01:02:03", None),
    ("00:00:00:00:00:00:00:00:00:00:255:255:10:21:01:256", None),
    ("10.21.1.2", None), ("", None),
])
def test_gid_to_address(gid: str, address: str | None) -> None:
    assert reader.gid_ipv4(gid) == address


@pytest.mark.parametrize(("message", "name", "status"), [
    ("Couldn't connect to 10.20.0.12:18515\nUnable to open file descriptor for socket connection Unable to init the socket connection", "connect_failed", None),
    ("Couldn't listen to port 18600\n Unable to init the socket connection", "port_taken", None),
    (" Port number 1 state is Down\n Couldn't set the link layer", "link_down", None),
    ("IB device rocep1s0f9 not found", "device_missing", None),
    (" Did not detect devices ", "device_missing", None),
    (" Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\nscnt=128, ccnt=0", "transport_retry_exceeded", 12),
    (" Failed status-transport retry counter exceeded (12): wr_id 0 syndrom 0x81", "transport_retry_exceeded", 12),
    (" Failed status 13: wr_id 0 syndrom 0x87", "rnr_retry_exceeded", 13),
    (" Failed status 5: wr_id 0 syndrom 0xf9", "link_lost", 5),
    (" Failed status 9: wr_id 0 syndrom 0x89", "remote_invalid_request", 9),
    (" Failed status 21: wr_id 0 syndrom 0x0", "completion_error", 21),
    (" Found Incompatibility issue with GID types.", "gid_mismatch", None),
    (" Gid index should be between 0 and 64", "gid_index", None),
    ("Failed to modify QP 300 to RTR\n Unable to Connect the HCA's through the link", "qp_connect", None),
    ("Unexpected CM event bl blka 8", "rdma_cm", None),
    (" Duplicated argument: -q", "bad_option", None),
    ("ib_write_bw: unrecognized option '--ipv6-addr'", "bad_option", None),
    (" QPs mismatch: local=1, remote=4", "parameter_mismatch", None),
    ("Error: BW result is below bw limit", "below_limit", None),
    (" Current implementation is not compatible with versions older than 5.70", "version_gap", None),
    ("Couldn't allocate MR\n failed to create mr\n Failed to create MR", "memory_registration", None),
    (" Unable to read to socket/rdma_cm", "peer_lost", None),
    ("ethernet_read_keys: Couldn't read remote address", "peer_lost", None),
])
def test_error_classes(message: str, name: str, status: int | None) -> None:
    found = reader.parse(message).error
    assert (found.name, found.completion_status) == (name, status)
    assert found.means and found.line in message


def test_the_data_path_outranks_the_exchange_that_broke_after_it() -> None:
    whole = " Unable to read to socket/rdma_cm\n Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n"
    assert perftest_errors.classify(whole).name == "transport_retry_exceeded"


def test_version() -> None:
    assert reader.parse_version("Version: 6.24\n") == "6.24"
    assert reader.parse_version("ib_write_bw: command not found") is None


@pytest.mark.parametrize("value", ["", "hello\n", "\x00" * 50, 5, None, b"bytes", "x" * (reader.TEXT_LIMIT + 1)])
def test_what_is_not_perftest(value: object) -> None:
    with pytest.raises(reader.PerftestOutputError):
        reader.parse(value)


def test_tail_ends_with_the_messages() -> None:
    kept = reader.tail("-----\n one\n\n two\n", "three\n")
    assert kept == " one\n two\nthree"
    assert len(reader.tail("x\n" * 5000, "y" * 5000)) <= reader.TAIL_CHARACTERS


PIECES = st.sampled_from([
    "                    RDMA_Write BW Test\n", HEAD.format(unit="Gb/sec", more=""), HEAD.format(unit="MiB/sec", more="    CPU_Util[%]"),
    " 65536      600              0.00               98.10\t\t     0.2\n",
    " 2       1000          1.71           9.88         1.83  \t       1.86     \t0.00\t\t2.40 \t\t5.12   \n",
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n",
    " GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:21:01:01\n", " local address: LID 0000\n", " remote address: LID 0000\n", " Mtu             : 4096[B]\n",
    " Failed status 12:", " Failed status-", " Local results:\n", "\r\n", "9" * 5000, " 65536      nan ", "\n",
])


@examples(300)
@given(st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=20), st.floats().map(str))).map("".join)))
def test_any_text_is_read_or_refused(value: str) -> None:
    try:
        output = reader.parse(value)
    except reader.PerftestOutputError:
        return
    row = reader.bandwidth_of(output)
    assert row is None or 0 < row.average_gbps < float("inf")
    assert reader.latency_of(output) is None or reader.latency_of(output).average_us > 0
    assert output.rdma_mtu is None or output.rdma_mtu >= 0
    reader.tail(value, value)


@examples(100)
@given(st.text())
def test_any_json_is_read_or_refused(value: str) -> None:
    assert reader.json_results(value) is None or isinstance(reader.json_results(value), dict)
