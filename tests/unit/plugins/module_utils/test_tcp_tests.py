# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""TCP tests in the executor: the ladder, its evidence, errors in spite of status 0, and dead paths told from absent peers."""

from __future__ import annotations

import json
import pathlib
import sys
import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.module_utils import iperf3_run, perftest_spec

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from loopback_cluster import Loopback, left_behind, wait_for_nothing_left  # noqa: E402

CLIENT = perftest_spec.LoadTest("t", 0, "client", "n2", "iperf3", "d", "i", "10.0.0.1", "10.0.0.2", "127.0.0.1", 5201, 3, streams=4)
SERVER = perftest_spec.LoadTest("t", 0, "server", "n1", "iperf3", "d", "i", "10.0.0.2", "10.0.0.1", "127.0.0.1", 5201, 3, streams=4)


@pytest.fixture
def pair(tmp_path: pathlib.Path) -> t.Iterator[Loopback]:
    """Return a cluster of two nodes; no tool may be left behind."""
    yield Loopback(tmp_path, 2)
    wait_for_nothing_left(tmp_path)
    assert left_behind(tmp_path) == []


def tcp(cluster: Loopback, number: int, client: str = "n1", server: str = "n2", **more: t.Any) -> str:
    """Add a TCP test."""
    return cluster.test(number, client, server, tool="iperf3", stage="tcp", **more)


def test_command_lines() -> None:
    assert iperf3_run.command(SERVER, "/usr/bin/iperf3") == ["/usr/bin/iperf3", "-J", "-B", "10.0.0.2", "-p", "5201", "-s", "-1"]
    assert iperf3_run.command(CLIENT, "iperf3") == ["iperf3", "-J", "-B", "10.0.0.1", "-p", "5201", "-c", "10.0.0.2", "-t", "3", "-P", "4", "-i", "1",
                                                    "--connect-timeout", "8000"]


def test_ladder_runs_beside_rdma_tests_in_one_job(pair: Loopback) -> None:
    rdma = pair.test(0, "n1", "n2", stage="directed")
    ladder = [tcp(pair, number, streams=streams) for number, streams in enumerate((1, 4, 8), 1)]
    records = pair.run()
    assert (records["n1"][rdma]["status"], records["n1"][rdma]["version"], records["n1"][rdma]["tool"]) == ("ok", "6.24", "ib_write_bw")
    for identity, streams in zip(ladder, (1, 4, 8)):
        client, server = records["n1"][identity], records["n2"][identity]
        assert (client["status"], server["status"], client["streams"], client["version"]) == ("ok", "ok", streams, "3.18")
        assert (round(client["gbps"], 2), round(client["sent_gbps"], 2), client["retransmits"], client["path_mtu_bytes"]) == (93.06, 94.0, 3, 9000)
        assert server["gbps"] is None, "the receiver's figure comes with the client's"
        assert "-P" in client["command"] and client["counters"] == {"tx_bytes": 0}
    assert pair.results["n1"]["version"] == "6.24"


@pytest.mark.parametrize(("fault", "status", "error"), [
    ("refused", "failed", "fabric_tcp_refused"), ("zero", "failed", "zero_row"), ("status", "failed", "exit_status"), ("hang", "timeout", "hang")])
def test_a_client_without_a_figure_is_no_measurement(pair: Loopback, fault: str, status: str, error: str) -> None:
    identity = tcp(pair, 0)
    pair.faults[f"{pair.port(identity)}/client"] = fault
    record = pair.run()["n1"][identity]
    assert (record["status"], record["error"], record["gbps"]) == (status, error, None)


def test_a_killed_server_is_named(pair: Loopback) -> None:
    identity = tcp(pair, 0)
    pair.faults[f"{pair.port(identity)}/server"] = "die"
    records = pair.run()
    assert {records[name][identity]["status"] for name in records} == {"failed"}
    assert records["n1"][identity]["gbps"] is None


def test_a_dead_path_is_no_absent_peer_and_no_firewall_of_the_management_network(pair: Loopback) -> None:
    identity = tcp(pair, 0)
    pair.faults[f"{pair.port(identity)}/client"] = "deaf_path"
    records = pair.run(grace_seconds=4.0)
    assert (records["n2"][identity]["status"], records["n2"][identity]["error"]) == ("failed", "fabric_tcp_dead")
    assert "nothing arrives over the fabric" in records["n2"][identity]["message"]
    assert (records["n1"][identity]["status"], records["n1"][identity]["error"]) == ("failed", "fabric_tcp_dead")


def test_an_address_that_is_missing(pair: Loopback) -> None:
    identity = tcp(pair, 0, server_address="10.99.99.1")
    records = pair.run()
    assert (records["n2"][identity]["status"], records["n2"][identity]["error"]) == ("failed", "address_missing")
    assert records["n1"][identity]["error"] == "address_missing"


def test_a_missing_tool_names_its_package(pair: Loopback) -> None:
    identity = tcp(pair, 0)
    del pair.tools["iperf3"]
    record = pair.run()["n1"][identity]
    assert (record["status"], record["error"]) == ("failed", "tool_missing")
    assert "package iperf3" in record["message"]


def test_an_absent_peer_is_an_absent_peer(pair: Loopback) -> None:
    identity = tcp(pair, 0)
    record = pair.run("n2")["n1"][identity]
    assert record["status"] == "peer_absent"


@pytest.mark.parametrize(("text", "error"), [
    ("unable to connect to server: Connection refused", "fabric_tcp_refused"), ("unable to connect to server: No route to host", "fabric_tcp_dead"),
    ("error - unable to connect to server: Connection timed out", "fabric_tcp_dead"), ("the server is busy running a test. try again later", "port_taken"),
    ("unable to start listener for connections: Address already in use", "port_taken"), ("control socket has closed unexpectedly", "peer_lost"),
    ("unable to create a new stream: Cannot assign requested address", "address_missing"), ("something new", "tool_error")])
def test_errors_in_spite_of_status_0(text: str, error: str) -> None:
    document = json.dumps({"start": {"version": "iperf 3.12"}, "intervals": [], "end": {}, "error": text})
    outcome = iperf3_run.read_run(CLIENT, document, "", 0)
    assert (outcome.status, outcome.error, outcome.details["version"]) == ("failed", error, "3.12")
    assert text in str(outcome.message)


def test_a_server_that_prints_nothing_has_served() -> None:
    assert iperf3_run.read_run(SERVER, "", "", 0).status == "ok"
    assert iperf3_run.read_run(SERVER, "", "iperf3: unrecognized option '--connect-timeout'", 1).error == "bad_option"
    assert iperf3_run.read_run(CLIENT, "", "", 0).error == "no_output"


@given(st.text(), st.text(), st.integers(-9, 255) | st.none())
def test_any_output_is_judged(stdout: str, stderr: str, code: int | None) -> None:
    outcome = iperf3_run.read_run(CLIENT, stdout, stderr, code)
    assert outcome.status == "failed" and outcome.message
