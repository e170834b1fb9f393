# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The executor on a loopback cluster: peers that are absent, die, fall silent or stand behind a firewall, and strangers."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import typing as t

import pytest

from ansible_collections.dgxspark.fabric.plugins.module_utils import job_state, rendezvous

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from loopback_cluster import Loopback, left_behind, wait_for_nothing_left  # noqa: E402


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


def test_a_node_that_never_comes_does_not_stop_the_step(tmp_path: pathlib.Path) -> None:
    cluster = Loopback(tmp_path, 3)
    ids = [cluster.test(0, "n1", "n2"), cluster.test(1, "n2", "n3"), cluster.test(2, "n2", "n1")]
    peers = {name: {"address": address} for name, address in cluster.addresses.items()}
    records = cluster.run("n3", in_step=True, peers=peers)
    assert [records["n2"][identity]["status"] for identity in ids] == ["ok", "peer_absent", "ok"]


def test_absent_peer_costs_its_own_tests_alone(tmp_path: pathlib.Path) -> None:
    cluster = Loopback(tmp_path, 3)
    good = cluster.test(0, "n1", "n2")
    lost = [cluster.test(0, "n2", "n3"), cluster.test(1, "n3", "n1"), cluster.test(2, "n1", "n3")]
    later = cluster.test(3, "n2", "n1")
    began = time.monotonic()
    records = cluster.run("n3")
    assert time.monotonic() - began < 6
    assert records["n1"][good]["status"] == records["n2"][good]["status"] == "ok"
    assert records["n1"][later]["status"] == records["n2"][later]["status"] == "ok"
    for name, identity in (("n2", lost[0]), ("n1", lost[1]), ("n1", lost[2])):
        record = records[name][identity]
        assert (record["status"], record["error"]) == ("peer_absent", "connect_refused")
        assert "n3" in record["message"] and str(cluster.control_port) in record["message"]
    # the second test with the dead peer did not wait for it again
    assert cluster.jobs["n1"]._spent[2] < 0.3


@pytest.mark.parametrize("answers", [True, False])
def test_control_port_that_swallows_everything(pair: Loopback, answers: bool) -> None:
    """A listener whose queue is full answers no SYN, as a firewall that drops does."""
    identity = pair.test(0, "n1", "n2")
    with socket.socket() as hole:
        hole.bind((pair.addresses["n2"], pair.control_port))
        hole.listen(0)
        plugs = [socket.socket() for dummy in range(3)]
        for plug in plugs:
            plug.setblocking(False)
            plug.connect_ex((pair.addresses["n2"], pair.control_port))
        time.sleep(0.1)
        pair.answers = answers
        record = pair.run("n2")["n1"][identity]
        for plug in plugs:
            plug.close()
    assert (record["status"], record["error"]) == (("control_blocked", "control_timeout") if answers else ("peer_absent", "connect_timeout"))
    assert pair.addresses["n2"] in record["message"] and "firewall" in record["message"] and "n2" in record["message"]


def test_one_way_firewall_blocks_the_tests_towards_it(pair: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """n1 cannot reach n2's control port, but n2 reaches n1: n2 is alive, and its port is blocked."""
    towards, away = pair.test(0, "n1", "n2"), pair.test(1, "n2", "n1")
    real = rendezvous.dial

    def dial(address: tuple, family: int, source: str | None) -> tuple[socket.socket, bool]:
        if address[0] == pair.addresses["n2"]:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")
        return real(address, family, source)

    monkeypatch.setattr(rendezvous, "dial", dial)
    records = pair.run()
    record = records["n1"][towards]
    assert (record["status"], record["error"]) == ("control_blocked", "control_refused")
    assert "firewall" in record["message"] and "it speaks to this node" in record["message"]
    assert (records["n2"][towards]["status"], records["n2"][towards]["error"]) == ("control_blocked", "control_refused")
    assert records["n1"][away]["status"] == records["n2"][away]["status"] == "ok"


def test_tool_that_cannot_connect_shows_a_firewall(pair: Loopback) -> None:
    identity = pair.test(0, "n1", "n2")
    pair.faults[f"{pair.port(identity)}/client"] = "refuse"
    records = pair.run()
    for name in ("n1", "n2"):
        assert records[name][identity]["status"] == "control_blocked"
    assert "firewall" in records["n1"][identity]["message"] and str(pair.port(identity)) in records["n1"][identity]["message"]


def test_client_that_never_arrives_shows_a_firewall(pair: Loopback) -> None:
    identity = pair.test(0, "n1", "n2")
    pair.faults[f"{pair.port(identity)}/client"] = "deaf"
    records = pair.run()
    assert (records["n2"][identity]["status"], records["n2"][identity]["error"]) == ("control_blocked", "test_port_blocked")
    assert (records["n1"][identity]["status"], records["n1"][identity]["error"]) == ("control_blocked", "test_port_blocked")


RUNNER = """
import json, pathlib, sys
sys.path[:0] = [{unit!r}, {here!r}]
import conftest
import loopback_cluster as cluster
from ansible_collections.dgxspark.fabric.plugins.module_utils import perftest_job, perftest_spec
folder, name = pathlib.Path(sys.argv[1]), sys.argv[2]
machine = perftest_job.Machine(directory=folder / name / "state", tree=cluster.Tree(folder / name), find_tool=lambda tool: str(folder / "ib_write_bw"),
                               list_users=lambda: "[]", timing=cluster.TIMING, patience=cluster.PATIENCE)
job = perftest_job.PerftestJob(perftest_spec.parse_job(json.loads((folder / name / "job.json").read_text())), machine)
job.open()
job.run()
"""


def start_process(cluster: Loopback, name: str) -> subprocess.Popen:
    """Run a node as a process of its own."""
    here = pathlib.Path(__file__).resolve()
    (cluster.folder / name / "job.json").write_text(json.dumps(cluster.job(name, start_skew_seconds=5.0)))
    return subprocess.Popen([sys.executable, "-c", RUNNER.format(unit=str(here.parents[2]), here=str(here.parent)), str(cluster.folder), name])


def test_peer_that_dies_before_its_first_test_is_absent_not_blocked(tmp_path: pathlib.Path) -> None:
    """Its control port refuses from then on, as a firewall's would."""
    cluster = Loopback(tmp_path, 3)
    first, broken = cluster.test(0, "n1", "n3"), cluster.test(1, "n1", "n2")
    cluster.faults["seconds"] = 1.5
    cluster.write_tool()
    node = start_process(cluster, "n2")
    cluster.start("n2", start_skew_seconds=5.0)
    met = cluster.jobs["n1"].rendezvous.wait("n2", lambda view: view.connected, 5).met
    node.kill()
    node.wait()
    records = cluster.finish()
    job_state.end_processes(tmp_path / "n2/state/run-of-the-test")
    assert met and records["n1"][first]["status"] == "ok"
    assert (records["n1"][broken]["status"], records["n1"][broken]["error"]) == ("peer_absent", "peer_lost")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_peer_dies_in_mid_test(tmp_path: pathlib.Path, how: signal.Signals) -> None:
    cluster = Loopback(tmp_path, 3)
    broken, after = cluster.test(0, "n1", "n2"), cluster.test(1, "n1", "n3")
    again = cluster.test(2, "n1", "n2")
    cluster.faults[f"{cluster.port(broken)}/client"] = "hang"
    cluster.faults[f"{cluster.port(broken)}/server"] = "hang"
    cluster.write_tool()
    node = start_process(cluster, "n2")
    try:
        cluster.start("n2", start_skew_seconds=5.0, grace_seconds=20.0)
        until = time.monotonic() + 10
        while sum(f" -p {cluster.port(broken)} " in line for line in left_behind(tmp_path)) < 2 and time.monotonic() < until:
            time.sleep(0.02)
        died = time.time()
        os.kill(node.pid, how)
        records = cluster.finish()
        record = records["n1"][broken]
        assert (record["status"], record["error"]) == ("peer_absent", "peer_lost")
        assert record["ended"] - died < 4
        assert "n2" in record["message"]
        assert records["n1"][after]["status"] == records["n3"][after]["status"] == "ok"
        assert records["n1"][again]["status"] == "peer_absent"
        assert cluster.jobs["n1"]._spent[2] < 0.3
    finally:
        if how == signal.SIGSTOP:
            os.kill(node.pid, signal.SIGKILL)
        node.wait()
        job_state.end_processes(tmp_path / "n2/state/run-of-the-test")


def test_next_run_ends_what_a_killed_one_left(tmp_path: pathlib.Path) -> None:
    cluster = Loopback(tmp_path, 2)
    identity = cluster.test(0, "n1", "n2")
    cluster.faults[f"{cluster.port(identity)}/server"] = "deaf"
    cluster.write_tool()
    first, second = start_process(cluster, "n1"), start_process(cluster, "n2")
    until = time.monotonic() + 10
    while not left_behind(tmp_path) and time.monotonic() < until:
        time.sleep(0.02)
    second.send_signal(signal.SIGKILL)
    second.wait()
    assert left_behind(tmp_path)
    folder = job_state.StateFolder(tmp_path / "n2/state", "another-run")
    folder.create()
    assert not (tmp_path / "n2/state/run-of-the-test").exists()
    first.kill()
    first.wait()
    # It may have started its client in the meantime.
    job_state.StateFolder(tmp_path / "n1/state", "another-run").create()


def test_old_folder_with_a_stranger_in_it_harms_nobody(tmp_path: pathlib.Path) -> None:
    with subprocess.Popen(["sleep", "30"]) as stranger:
        old = tmp_path / "state" / "old-run"
        old.mkdir(parents=True)
        (old / job_state.PROCESSES).write_text(json.dumps({"job": stranger.pid, "tools": [stranger.pid], "started": {str(stranger.pid): "1"}}))
        job_state.StateFolder(tmp_path / "state", "new-run").create()
        assert stranger.poll() is None
        stranger.kill()


def test_garbage_and_strangers_on_the_control_port(pair: Loopback) -> None:
    identity = pair.test(0, "n1", "n2")
    pair.faults["seconds"] = 0.6
    pair.start()
    target = (pair.addresses["n2"], pair.control_port)
    hello = '{"type":"hello","protocol":1,"run":"%s","from":"%s","to":"n2"}\n'
    lines = [b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfe\x00" * 100, b"x" * 300000,
             hello.encode() % (b"another-run", b"n1"), hello.encode() % (b"run-of-the-test", b"n9"),
             hello.encode() % (b"run-of-the-test", b"n1"), b"[" * 5000 + b"\n", b"{}\n", b""]
    sockets = []
    for line in lines:
        stranger = socket.create_connection(target)
        sockets.append(stranger)
        try:
            stranger.sendall(line)
        except OSError:
            pass  # dropped already
    records = pair.finish()
    for stranger in sockets:
        stranger.close()
    assert records["n1"][identity]["status"] == records["n2"][identity]["status"] == "ok"
    words = " ".join(pair.results["n2"]["strangers"])
    assert "another run" in words and "not a planned peer" in words and "not from its management address" in words


def test_port_of_the_job_taken(pair: Loopback) -> None:
    pair.test(0, "n1", "n2")
    with socket.socket() as other:
        other.bind((pair.addresses["n1"], pair.control_port))
        other.listen(1)
        with pytest.raises(OSError):
            pair.run("n2")
