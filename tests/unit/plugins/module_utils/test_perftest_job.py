# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The executor on a loopback cluster: rounds, evidence, tools that fail, ends that are not fit, tests that are void."""

from __future__ import annotations

import json
import pathlib
import socket
import sys
import threading
import typing as t

import pytest

from ansible_collections.dgxspark.fabric.plugins.module_utils import perftest_spec

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import loopback_cluster  # noqa: E402
from loopback_cluster import Loopback, left_behind, wait_for_nothing_left, write_device  # noqa: E402


@pytest.fixture(autouse=True)
def nothing_left_behind(tmp_path: pathlib.Path) -> t.Iterator[None]:
    """No test may leave a tool running."""
    yield
    wait_for_nothing_left(tmp_path)
    assert left_behind(tmp_path) == []


@pytest.fixture
def pair(tmp_path: pathlib.Path) -> Loopback:
    """Return a cluster of two nodes."""
    return Loopback(tmp_path, 2)


def test_three_nodes_walk_two_rounds(tmp_path: pathlib.Path) -> None:
    cluster = Loopback(tmp_path, 3)
    clockwise = [cluster.test(0, *ends) for ends in (("n1", "n2"), ("n2", "n3"), ("n3", "n1"))]
    back = [cluster.test(1, *ends, bidirectional=True) for ends in (("n2", "n1"), ("n3", "n2"), ("n1", "n3"))]
    records = cluster.run()
    for name, tests in records.items():
        for identity, record in tests.items():
            assert (record["status"], record["error"], record["version"], record["attempts"]) == ("ok", None, "6.24", 1), (name, record)
            assert (record["gbps"], record["size_bytes"], record["rdma_mtu"], record["gid_index"], record["exit_code"]) == (98.21, 65536, 4096, 1, 0)
            assert record["command"][1:5] == ["-d", record["device"], "-x", "1"]
            assert record["peer_status"] == "ok"
            assert record["started"] <= record["ended"]
        assert {record["role"] for identity, record in tests.items() if identity in clockwise} == {"client", "server"}
        first = max(record["ended"] for identity, record in tests.items() if identity in clockwise)
        assert first <= min(record["started"] for identity, record in tests.items() if identity in back)
    client = records["n1"][clockwise[0]]
    assert client["command"][-1] == cluster.addresses["n2"]
    assert "-b" in records["n1"][back[2]]["command"]
    assert cluster.results["n1"]["status"] == "done"
    on_disk = json.loads((tmp_path / "n1/state/run-of-the-test/result.json").read_text())
    assert on_disk["tests"] == cluster.results["n1"]["tests"]
    progress = json.loads((tmp_path / "n1/state/run-of-the-test/progress.json").read_text())
    assert (progress["status"], progress["round"], progress["rounds"], progress["seconds_left"]) == ("done", 2, 2, 0.0)
    assert (tmp_path / "n1/state/run-of-the-test").stat().st_mode & 0o777 == 0o700


def test_both_rails_of_a_cable_start_together(pair: Loopback) -> None:
    ids = [pair.test(0, "n1", "n2"), pair.test(0, "n1", "n2")]
    records = pair.run()
    starts = [records["n1"][identity]["started"] for identity in ids]
    assert abs(starts[0] - starts[1]) < 0.1
    assert all(records["n1"][identity]["status"] == "ok" for identity in ids)


def test_nodes_keep_step_where_tests_at_once_are_limited(tmp_path: pathlib.Path) -> None:
    """Two pairs that share no node: without keeping step their rounds would overlap."""
    cluster = Loopback(tmp_path, 4)
    cluster.faults["seconds"] = 0.3
    ids = [cluster.test(0, "n1", "n2"), cluster.test(1, "n3", "n4"), cluster.test(2, "n2", "n1"), cluster.test(3, "n4", "n3")]
    peers = {name: {"address": address} for name, address in cluster.addresses.items()}
    records = cluster.run(in_step=True, peers=peers)
    spans = [(records[client][identity]["started"], records[client][identity]["ended"]) for client, identity in zip(["n1", "n3", "n2", "n4"], ids, strict=True)]
    assert all(records[name][identity]["status"] == "ok" for name in records for identity in records[name])
    assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:]))


def test_tool_hangs(pair: Loopback) -> None:
    identity = pair.test(0, "n1", "n2")
    after = pair.test(1, "n2", "n1")
    pair.faults[f"{pair.port(identity)}/client"] = "hang"
    records = pair.run()
    assert (records["n1"][identity]["status"], records["n1"][identity]["error"], records["n1"][identity]["gbps"]) == ("timeout", "hang", None)
    assert (records["n2"][identity]["status"], records["n2"][identity]["gbps"]) == ("timeout", None)
    assert records["n1"][after]["status"] == records["n2"][after]["status"] == "ok"


def test_children_of_a_tool_are_ended_with_it(pair: Loopback) -> None:
    identity = pair.test(0, "n1", "n2")
    pair.faults[f"{pair.port(identity)}/client"] = "child"
    assert pair.run()["n1"][identity]["status"] == "timeout"


@pytest.mark.parametrize(("fault", "error"), [("zero", "zero_row"), ("no_row", "zero_row"), ("error12", "transport_retry_exceeded")])
def test_no_number_is_no_measurement(pair: Loopback, fault: str, error: str) -> None:
    identity = pair.test(0, "n1", "n2")
    pair.faults[f"{pair.port(identity)}/client"] = fault
    record = pair.run()["n1"][identity]
    assert (record["status"], record["error"], record["gbps"]) == ("failed", error, None)
    assert record["tail"]


def test_broken_work_request_is_tried_again_and_not_forgotten(pair: Loopback, tmp_path: pathlib.Path) -> None:
    identity = pair.test(0, "n1", "n2")
    script = tmp_path / "once"
    script.write_text(f"import pathlib, sys\nmark = pathlib.Path({str(tmp_path / 'seen')!r})\n"
                      "if not mark.exists():\n    mark.touch()\n    print(' Failed status 9: wr_id 0 syndrom 0x89', file=sys.stderr)\n    sys.exit(1)\n",
                      encoding="utf-8")
    pair.faults[f"{pair.port(identity)}/client"] = f"script:{script}"
    records = pair.run()
    for name in ("n1", "n2"):
        assert (records[name][identity]["status"], records[name][identity]["attempts"]) == ("ok", 2)
        assert [one["error"] for one in records[name][identity]["earlier"]] == ["remote_invalid_request"]


def test_tool_that_crashed_is_tried_again_and_not_forgotten(pair: Loopback, tmp_path: pathlib.Path) -> None:
    identity = pair.test(0, "n1", "n2")
    script = tmp_path / "once"
    script.write_text(f"import os, pathlib, signal\nmark = pathlib.Path({str(tmp_path / 'seen')!r})\n"
                      "if not mark.exists():\n    mark.touch()\n    os.kill(os.getpid(), signal.SIGSEGV)\n", encoding="utf-8")
    pair.faults[f"{pair.port(identity)}/client"] = f"script:{script}"
    records = pair.run()
    for name in ("n1", "n2"):
        assert (records[name][identity]["status"], records[name][identity]["attempts"]) == ("ok", 2)
    assert [one["error"] for one in records["n1"][identity]["earlier"]] == ["tool_crashed"]


def test_client_dies_without_text(pair: Loopback) -> None:
    identity = pair.test(0, "n1", "n2")
    pair.faults[f"{pair.port(identity)}/client"] = "die"
    records = pair.run()
    assert (records["n1"][identity]["status"], records["n1"][identity]["error"], records["n1"][identity]["exit_code"]) == ("failed", "no_output", 1)
    assert records["n2"][identity]["status"] == "failed"


def test_server_that_lingers_is_ended(pair: Loopback) -> None:
    identity = pair.test(0, "n1", "n2")
    pair.faults[f"{pair.port(identity)}/server"] = "linger"
    records = pair.run()
    assert records["n1"][identity]["status"] == records["n2"][identity]["status"] == "ok"


def test_server_that_never_listens(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Loopback(tmp_path, 2)
    identity = pair.test(0, "n1", "n2")
    pair.faults[f"{pair.port(identity)}/server"] = "deaf"
    monkeypatch.setattr(loopback_cluster, "PATIENCE", loopback_cluster.Patience(gid=0.2, listen=0.5, peer_end=0.8, exchange=1.0, poll=0.02))
    records = pair.run()
    assert (records["n2"][identity]["status"], records["n2"][identity]["error"]) == ("timeout", "not_listening")
    assert (records["n1"][identity]["status"], records["n1"][identity]["error"]) == ("timeout", "not_listening")


def test_server_port_taken(pair: Loopback) -> None:
    identity = pair.test(0, "n1", "n2")
    with socket.socket() as other:
        other.bind(("0.0.0.0", pair.port(identity)))
        other.listen(1)
        records = pair.run()
    assert (records["n2"][identity]["status"], records["n2"][identity]["error"]) == ("failed", "port_taken")
    assert (records["n1"][identity]["status"], records["n1"][identity]["error"]) == ("failed", "port_taken")
    assert records["n1"][identity]["message"].startswith("n2 says: ")


def test_tool_missing_names_the_package(pair: Loopback) -> None:
    identity = pair.test(0, "n1", "n2")
    pair.tools.clear()
    records = pair.run()
    for name in ("n1", "n2"):
        assert (records[name][identity]["status"], records[name][identity]["error"]) == ("failed", "tool_missing")
    assert "package perftest" in records["n1"][identity]["message"]


@pytest.mark.parametrize(("what", "error"), [("device", "device_missing"), ("gid", "gid_missing"), ("port", "link_down")])
def test_own_end_not_fit(pair: Loopback, tmp_path: pathlib.Path, what: str, error: str) -> None:
    identity = pair.test(0, "n1", "n2")
    if what == "device":
        (tmp_path / "n2/sys/class/infiniband/roce_n1").rename(tmp_path / "gone")
    elif what == "gid":
        write_device(tmp_path / "n2", "roce_n1", "eth_n1", "10.9.9.9")
    else:
        write_device(tmp_path / "n2", "roce_n1", "eth_n1", "10.1.2.2", "1: DOWN")
    records = pair.run()
    assert (records["n2"][identity]["status"], records["n2"][identity]["error"]) == ("failed", error)
    assert (records["n1"][identity]["status"], records["n1"][identity]["error"]) == ("failed", error)
    assert "n2" in records["n1"][identity]["message"]


def change_gids(script: pathlib.Path, root: pathlib.Path, times: int) -> str:
    """Return a fault that changes the GID table of ``root`` during the first ``times`` runs of a tool."""
    port = root / "sys/class/infiniband/roce_n1/ports/1"
    script.write_text(
        f"import pathlib\ncount = pathlib.Path({str(script)!r} + '.count')\ndone = int(count.read_text()) if count.exists() else 0\n"
        f"count.write_text(str(done + 1))\nport = pathlib.Path({str(port)!r})\n"
        f"if done < {times}:\n    (port / 'gid_attrs/types/2').write_text('RoCE v2')\n"
        "    (port / 'gids/2').write_text('0000:0000:0000:0000:0000:ffff:0a09:0%d01' % (done + 1))\n", encoding="utf-8")
    return f"script:{script}"


def test_changed_addresses_make_a_test_void_and_it_is_repeated(pair: Loopback, tmp_path: pathlib.Path) -> None:
    identity = pair.test(0, "n1", "n2")
    pair.faults[f"{pair.port(identity)}/server"] = change_gids(tmp_path / "change", tmp_path / "n2", 1)
    records = pair.run()
    for name in ("n1", "n2"):
        assert (records[name][identity]["status"], records[name][identity]["attempts"], records[name][identity]["gbps"]) == ("ok", 2, 98.21)


def test_changing_twice_is_void(pair: Loopback, tmp_path: pathlib.Path) -> None:
    identity = pair.test(0, "n1", "n2")
    pair.faults[f"{pair.port(identity)}/server"] = change_gids(tmp_path / "change", tmp_path / "n2", 9)
    records = pair.run()
    for name in ("n1", "n2"):
        assert (records[name][identity]["status"], records[name][identity]["attempts"], records[name][identity]["gbps"]) == ("void", 2, None)
    assert "GID table changed" in records["n2"][identity]["message"]
    assert len(records["n2"][identity]["earlier"]) == 1


def test_counters_are_deltas(pair: Loopback, tmp_path: pathlib.Path) -> None:
    identity = pair.test(0, "n1", "n2")
    script = tmp_path / "count"
    counter = tmp_path / "n2/sys/class/infiniband/roce_n1/ports/1/hw_counters/rcvd_pkts"
    script.write_text(f"import pathlib\npathlib.Path({str(counter)!r}).write_text('742')\n", encoding="utf-8")
    pair.faults[f"{pair.port(identity)}/server"] = f"script:{script}"
    records = pair.run()
    assert records["n2"][identity]["counters"] == {"rcvd_pkts": 642, "tx_bytes": 0}
    assert records["n1"][identity]["counters"] == {"tx_bytes": 0}


def test_busy_node_refuses_and_says_so_to_its_peer(pair: Loopback) -> None:
    identity = pair.test(0, "n1", "n2")
    pair.users["n2"] = json.dumps([{"ifname": "roce_n1", "lqpn": 1, "comm": "ib_core"}, {"ifname": "roce_n1", "lqpn": 17, "pid": 999999, "comm": "vllm"}])
    records = pair.run()
    assert pair.results["n2"]["status"] == "refused_busy"
    assert "vllm (pid 999999) on roce_n1" in pair.results["n2"]["message"]
    assert (records["n1"][identity]["status"], records["n1"][identity]["error"]) == ("not_run", "busy")
    assert "vllm" in records["n1"][identity]["message"]


def test_busy_node_measures_when_told_to(pair: Loopback) -> None:
    identity = pair.test(0, "n1", "n2")
    pair.users["n2"] = json.dumps([{"ifname": "roce_n1", "pid": 999999, "comm": "vllm"}])
    assert pair.run(force_busy=True)["n2"][identity]["status"] == "ok"


def test_left_out_tests_are_in_the_result(pair: Loopback) -> None:
    pair.test(0, "n1", "n2")
    left_out = [{"id": "r0-n1-n9-a", "role": "client", "error": "not_observed", "message": "n9 was not observed"}]
    record = pair.run(not_run=left_out)["n1"]["r0-n1-n9-a"]
    assert (record["status"], record["message"], record["gbps"], record["counters"]) == ("not_run", "n9 was not observed", None, {})


def test_deadline_of_the_job(tmp_path: pathlib.Path) -> None:
    """n2 is held up by a long test with n3; n1's patience ends with its job."""
    cluster = Loopback(tmp_path, 3)
    slow, waiting = cluster.test(0, "n2", "n3"), cluster.test(1, "n1", "n2")
    cluster.faults["seconds"] = 1.6
    cluster.start("n1")
    parsed = perftest_spec.parse_job(cluster.job("n1", deadline_seconds=0.7))
    job = cluster.jobs["n1"] = loopback_cluster.perftest_job.PerftestJob(parsed, cluster.machine("n1"))
    job.open()
    thread = threading.Thread(target=lambda: cluster.results.__setitem__("n1", job.run()))
    thread.start()
    cluster.threads.append(thread)
    records = cluster.finish()
    assert records["n2"][slow]["status"] == "ok"
    assert (records["n1"][waiting]["status"], records["n1"][waiting]["error"]) == ("not_run", "job_deadline")
