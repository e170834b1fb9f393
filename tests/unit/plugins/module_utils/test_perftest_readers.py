# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Small readers of the executor: listening sockets, device state, owners of queue pairs, records of runs."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import sys

import pytest

from ansible_collections.dgxspark.fabric.plugins.module_utils import device_state, listening_socket, perftest_record, rdma_users
from ansible_collections.dgxspark.fabric.plugins.module_utils.perftest_spec import LoadTest
from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from loopback_cluster import write_device  # noqa: E402

SAMPLES = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "perftest"
TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:48A8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 30112 1 0000000000000000 100 0 0 10 0
   1: 0B004D0A:48A8 0C004D0A:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 30200 1 0000000000000000 100 0 0 10 0
   2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 20000 1 0000000000000000 100 0 0 10 0
"""


def test_rows_of_the_socket_table() -> None:
    assert listening_socket.table_inodes(TABLE, 18600, listening_socket.LISTEN) == {"30112"}
    assert listening_socket.table_inodes(TABLE, 18600, listening_socket.ESTABLISHED) == {"30200"}
    assert listening_socket.table_inodes(TABLE, 23, listening_socket.LISTEN) == set()
    assert listening_socket.table_inodes("garbage\n\nx y z\n", 22, listening_socket.LISTEN) == set()


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_own_sockets_are_seen(family: int, address: str) -> None:
    try:
        server = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip("no such address family here")
    with server:
        port = server.getsockname()[1]
        assert listening_socket.listens(os.getpid(), port)
        assert not listening_socket.listens(1, port)
        assert not listening_socket.connected(os.getpid(), port)
        with socket.create_connection((address, port)):
            taken, dummy = server.accept()
            with taken:
                assert listening_socket.connected(os.getpid(), port)
    assert not listening_socket.listens(os.getpid(), port)


def test_gid_of_an_address_is_looked_up(tmp_path: pathlib.Path) -> None:
    write_device(tmp_path, "rocep1s0f0", "enp1s0f0np0", "192.168.177.11")
    kinds = tmp_path / "sys/class/infiniband/rocep1s0f0/ports/1"
    state = device_state.look(Tree(tmp_path), "rocep1s0f0", "enp1s0f0np0")
    assert (state.exists, state.port, state.gid_index("192.168.177.11"), state.gid_index("192.168.177.12")) == (True, "ACTIVE", 1, None)
    assert state.addresses() == ["192.168.177.11"]
    (kinds / "gid_attrs/types/1").write_text("IB/RoCE v1\n")
    assert device_state.look(Tree(tmp_path), "rocep1s0f0", "enp1s0f0np0").gid_index("192.168.177.11") is None
    assert not device_state.look(Tree(tmp_path), "rocep9s0f0", "enp1s0f0np0").exists


def test_changes_of_the_gid_table_are_named(tmp_path: pathlib.Path) -> None:
    write_device(tmp_path, "d", "i", "192.168.177.11")
    before = device_state.look(Tree(tmp_path), "d", "i")
    assert device_state.gid_changes(before, before) is None
    write_device(tmp_path, "d", "i", "192.168.177.99")
    words = device_state.gid_changes(before, device_state.look(Tree(tmp_path), "d", "i"))
    assert "lost index 1 (192.168.177.11, RoCE v2)" in words and "gained index 1 (192.168.177.99, RoCE v2)" in words


def test_kernel_queue_pairs_are_not_users() -> None:
    rows = [{"ifindex": 0, "ifname": "rocep1s0f0", "port": 1, "lqpn": 1, "type": "GSI", "comm": "ib_core"},
            {"ifname": "rocep1s0f0", "lqpn": 17, "pid": 999991, "comm": "python3"}, {"ifname": "roceP2p1s0f0", "lqpn": 18, "pid": 999991, "comm": "python3"},
            {"ifname": "mlx5_9", "lqpn": 17, "pid": 999992, "comm": "other"}, {"ifname": "rocep1s0f0", "lqpn": 20, "pid": os.getpid(), "comm": "me"}]
    users = rdma_users.foreign_users(json.dumps(rows), {"rocep1s0f0", "roceP2p1s0f0"}, {os.getpid()})
    assert rdma_users.describe(users) == "python3 (pid 999991) on roceP2p1s0f0, rocep1s0f0"
    assert rdma_users.foreign_users("not json", {"rocep1s0f0"}, set()) == []
    own = rdma_users.describe([{"pid": os.getpid(), "command": "x", "device": "d"}])
    assert own.startswith(f"x (pid {os.getpid()}: ")


SPEC = LoadTest("t", 0, "client", "n2", "ib_write_bw", "rocep1s0f0", "enp1s0f0np0", "192.168.12.1", "192.168.12.2", "10.77.0.12", 18600, 3)


@pytest.mark.parametrize(("name", "code", "status", "error", "gbps"), [
    ("ib_write_bw-D3.client", 0, "ok", None, 0.34),
    ("ib_write_bw-D3.client", 1, "failed", "exit_status", None),
    ("mid-tapdown.client", 124, "failed", "peer_lost", None),
    ("mid-setlink.client", 1, "failed", "link_lost", None),
    ("fail-cut-setlink.client", 1, "failed", "link_down", None),
    ("block4791.client", -9, "failed", "no_output", None),
    ("block4791.client", -11, "failed", "tool_crashed", None),
    ("ib_write_bw-D3.client", -6, "failed", "tool_crashed", None),
    ("ib_write_bw-b-n50.client", 0, "failed", "zero_row", None),
])
def test_records_of_recorded_runs(name: str, code: int, status: str, error: str | None, gbps: float | None) -> None:
    """A bidirectional row where one direction was asked for is no measurement of it."""
    outcome = perftest_record.read_run(SPEC, (SAMPLES / f"{name}.txt").read_text(), "", code)
    assert (outcome.status, outcome.error, outcome.details.get("gbps")) == (status, error, gbps)


def test_silent_server_that_ended_well() -> None:
    server = LoadTest("t", 0, "server", "n1", "ib_write_bw", "d", "i", "a", "b", "c", 1, 1)
    assert perftest_record.read_run(server, "", "", 0).status == "ok"
    assert perftest_record.read_run(server, "", "", 1).error == "no_output"
