# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The named causes of the field, each by the words that tools print: cabling, links, GIDs, NCCL, mpirun, output formats."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_causes import load_causes
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_list import explain_document
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.explaining import finding, ids, of_text, words

ROOT = pathlib.Path(__file__).resolve().parents[4]
N = "n1:10:11 [0] NCCL INFO "
QP = "n1:10:11 [0] misc/ibvwrap.cc:376 NCCL WARN Call to ibv_modify_qp failed with "
IN_ONE = "local GID index 3, local GID ::ffff:10.20.2.12, remote GID ::ffff:10.20.2.13"
ON = ", on dev rocep1s0f0:1, curr state INIT, next state RTR, "
HEAD = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
RANKS = "".join(f"#  Rank  {rank} Group  0 Pid   {100 + rank} on n{rank + 1} device  0 [000f:01:00] NVIDIA GB10\n" for rank in range(2))
COLUMNS = "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong\n"
IB = "".join(
    f"n{rank}:{rank}:1 [0] NCCL INFO NET/IB : Using [0]rocep1s0f0:1/RoCE [1]roceP2p1s0f0:1/RoCE [RO]; OOB enP7s7:192.0.2.{rank}<0>\n"
    f"n{rank}:{rank}:1 [0] NCCL INFO Using network IB\n"
    for rank in (1, 2)
)


def table(busbw: float, ranks: str = RANKS, size: int = 2**30, rows: int = 1) -> str:
    """Return output of nccl-tests whose rows all have one bus bandwidth, the largest size being ``size``."""
    body = "".join(f" {size >> place} 268435456 float none -1 23110 46.46 {busbw} 0 23085 46.51 {busbw} 0\n" for place in reversed(range(rows)))
    return f"# Using devices\n{ranks}#\n{COLUMNS}{body}# Out of bounds values : 0 OK\n# Avg bus bandwidth    : {busbw}\n#\n"


def kernel(text: str) -> str:
    """Return a line of a kernel log."""
    return f"Nov 02 08:00:11 n3 kernel: {text}\n"


# what the field has seen, text, id that is fail, unknown or warn, words
CAUSES: list[tuple[str, str, str, tuple[str, ...]]] = [
    ("22 tree connect", f"{N}Connected all rings\n{QP}110 Connection timed out{ON}{IN_ONE}\n", "nccl.tree_connect", ("NCCL_ALGO=Ring", "opposite nodes")),
    (
        "22 tree connect by name",
        f"{N}Connected all rings\nn1:10:11 [0] NCCL INFO transport/generic.cc:180 -> 2 ncclTransportTreeConnect failed\n",
        "nccl.tree_connect",
        (),
    ),
    (
        "23 merged over two cables",
        f"{N}NET/IB : Made virtual device [4] name=rocep1s0f0+rocep1s0f1 speed=400000 ndevs=2\n{N}Using network IB\n",
        "nccl.merged_cables",
        ("NCCL_IB_MERGE_NICS=0",),
    ),
    ("26 no direct cable", "ssh: connect to host 10.20.3.13 port 22: Connection timed out\n", "launch.ssh_unreachable", ("10.20.3.13", "no direct cable")),
    ("33 GIDs of different kinds", f"{QP}22 Invalid argument{ON}local GID index 3, local GID ::ffff:10.20.2.12, remote GID fe80::1\n", "nccl.gid_kinds", ()),
    ("35 in one network", f"{QP}110 Connection timed out{ON}{IN_ONE}\n", "nccl.qp_timeout", ("NCCL_CROSS_NIC=0",)),
    ("39 degraded, in NCCL", IB + table(1.62), "nccl.bandwidth", ("degraded state", "Power off")),
    ("41 flat and low", table(3.04, rows=4), "nccl.bandwidth", ("same at 4 sizes", "NCCL_IB_HCA", "MTU 9000")),
    ("42 MTU 1500", table(20.95), "nccl.bandwidth", ("MTU is 1500",)),
    (
        "43 one of two twins",
        f"{N}NET/IB : Using [0]rocep1s0f0:1/RoCE [RO]; OOB enP7s7:192.0.2.1<0>\n{N}Using network IB\n{N}Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0\n",
        "nccl.one_rail",
        ("roceP2p1s0f0", "half the bandwidth"),
    ),
    ("43 one of two twins, in the environment", "NCCL_IB_HCA=rocep1s0f0\n", "nccl.hca_one_twin", ("roceP2p1s0f0",)),
    ("43 half of the cable", IB + table(12.2), "nccl.bandwidth", ("one rail of two",)),
    ("47 fatal PCIe error", kernel("pcieport 0002:00:00.0: AER: Uncorrected (Fatal) error received: 0002:01:00.0"), "pcie.aer", ("support case",)),
    ("47 health", kernel("mlx5_core 0000:01:00.0: poll_health:800:(pid 0): Fatal error 1 detected"), "node.nic_health", ("0000:01:00.0",)),
    (
        "50 memory of NCCL",
        "n1:10:11 [0] misc/ibvwrap.cc:200 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory\n",
        "nccl.memory_registration",
        ("memlock", "CmaTotal"),
    ),
    ("51 memory of perftest", "Couldn't allocate MR\n", "rdma.memory_registration", ("ulimit -l",)),
    ("53 small messages", HEAD + " 2          5000             0.10              0.09     6.13\n", "rdma.not_judged", ()),
    (
        "54 link-local GID",
        f"{QP}110 Connection timed out{ON}local GID index 1, local GID fe80::200:ff:fe00:11, remote GID fe80::200:ff:fe00:12\n",
        "nccl.gid_link_local",
        ("index 1",),
    ),
    ("55 stale index", f"{QP}61 No data available{ON}local GID index 3\n", "nccl.gid_index", ("stale", "Unset NCCL_IB_GID_INDEX")),
    ("55 pinned index", "export NCCL_IB_GID_INDEX=3\n", "nccl.gid_index_pinned", ("3",)),
    ("59 no plugin", f"{N}Failed to initialize any NET plugin\n", "nccl.no_net_plugin", ("/dev/infiniband",)),
    ("59 no plugin, older", "n1:10:11 [0] net.cc:50 NCCL WARN Error: network IB not found.\n", "nccl.no_net_plugin", ()),
    ("no interface", "n1:10:11 [0] bootstrap.cc:118 NCCL WARN Bootstrap : no socket interface found\n", "nccl.no_interface", ("NCCL_SOCKET_IFNAME",)),
    ("one GPU twice", "n1:10:11 [0] init.cc:910 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 60\n",
     "nccl.duplicate_gpu", ("NCCL_HOSTID",)),
    ("61 no route", f"{QP}101 Network is unreachable{ON}{IN_ONE}\n", "nccl.no_route", ("101",)),
    ("61 no route to host", f"{QP}113 No route to host{ON}{IN_ONE}\n", "nccl.no_route", ("113",)),
    (
        "61 retry",
        "n1:10:11 [0] transport/net_ib.cc:1295 NCCL WARN NET/IB: Got completion from peer 10.20.2.13<4791> with status=12 opcode=0 len=0 vendor err 129\n",
        "nccl.completion",
        ("12",),
    ),
    ("62 different NCCL", "n1:10:11 [0] bootstrap.cc:77 NCCL WARN wrong type 4 != 3\n", "nccl.bootstrap_mismatch", ("NCCL version",)),
    (
        "62 versions",
        "n1:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0\nn2:1:1 [0] NCCL INFO NCCL version 2.30.7+cuda13.0\n",
        "nccl.version_mismatch",
        ("n1 has 2.28.9", "n2 has 2.30.7"),
    ),
    (
        "21 too old for routing",
        f"{N}NCCL version 2.28.9+cuda13.0\n{N}NCCL_IB_SUBNET_AWARE_ROUTING set by environment to 1.\n",
        "nccl.routing_ignored",
        ("2.30.7",),
    ),
    (
        "GID table changed",
        "n2:5120:5233 [0] transport/net_ib.cc:150 NCCL WARN NET/IB : rocep1s0f0:1 GID table changed\n",
        "nccl.gid_table_changed",
        ("n2", "rocep1s0f0", "void"),
    ),
    (
        "async event",
        "n2:5120:5233 [0] transport/net_ib.cc:99 NCCL WARN NET/IB : rocep1s0f0:1 Got async event : port error\n",
        "nccl.async_event",
        ("rocep1s0f0",),
    ),
    (
        "bootstrap on the fabric",
        "".join(
            f"n{rank}:1:1 [0] NCCL INFO Bootstrap: Using enp1s0f0np0:10.20.0.{rank}<0>\nn{rank}:1:1 [0] NCCL INFO ncclCommInitRank comm 0x5 rank {rank} "
            f"nranks 3 "
            f"cudaDev 0 - Init COMPLETE\nn{rank}:1:1 [0] NCCL INFO Using network IB\n"
            for rank in range(3)
        ),
        "nccl.bootstrap_interface",
        ("enp1s0f0np0",),
    ),
    ("63 TCP of Open MPI", "WARNING: Open MPI failed to TCP connect to a peer MPI process.\n", "launch.tcp", ("btl_tcp_if_include",)),
    ("64 communication lost", "PRTE has lost communication with a remote daemon.\n", "launch.communication_lost", ("mpirun -np N hostname",)),
    ("64 ssh refused", "ssh: connect to host node2 port 22: Connection refused\n", "launch.ssh_unreachable", ("node2",)),
    (
        "64 hostfile taken for a host",
        "ssh: Could not resolve hostname hostfile: Name or service not known\n",
        "launch.name_resolution",
        ("hostfile", "--hostfile"),
    ),
    ("65 daemons", "ORTE was unable to reliably start one or more daemons.\n", "launch.daemons", ("orted",)),
    ("65 orted", "bash: line 1: orted: command not found\n", "launch.daemon_missing", ("orted",)),
    ("65 key", "user@node2: Permission denied (publickey,password).\n", "launch.ssh_denied", ("BatchMode",)),
    ("65 host key", "Host key verification failed.\n", "launch.host_key", ("do not switch the check off",)),
    ("66 slots", "There are not enough slots available in the system to satisfy the 4 slots that were requested\n", "launch.slots", ("host:1",)),
    (
        "181 s, 3/4 clients",
        "torch.distributed.DistStoreError: Timed out after 181 seconds waiting for clients. 3/4 clients joined.\n",
        "launch.rendezvous",
        ("3/4", "management address"),
    ),
    ("16 GB test", kernel("Out of memory: Killed process 4711 (all_gather_perf)"), "node.out_of_memory", ("1 to 4 GB",)),
    ("71 no peak is fine, zero is not", HEAD + " 65536      5000             0.00              0.00     0.000000\n", "rdma.zero", ("no measurement",)),
    ("76 completion with error", " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\n", "rdma.transport_retry", ("data path is dead",)),
    ("76 completion, 26.01", " Completion with error at client\n Failed status-transport retry counter exceeded (12): wr_id 0\n", "rdma.transport_retry", ()),
    ("77 rdma_cm", "rdma_bind_addr failed: Cannot assign requested address\n", "rdma.cm", ()),
    ("78 negative average", HEAD + " 65536      5000             0.00              -12.50     0.000000\n", "rdma.zero", ("-12.50",)),
    ("86 timeout", f"# Collective test starting: all_reduce_perf\n# Using devices\n{RANKS}n1: Test timeout (60s) common.cu:40\n", "nccl.timeout", ("60s",)),
    (
        "86 no end",
        f"# Collective test starting: all_reduce_perf\n# Using devices\n{RANKS}#\n{COLUMNS} 1024 256 float sum -1 4.10 0.25 0.20 0 0.31 3.29 0.20 0\n",
        "nccl.incomplete",
        ("1024",),
    ),
    ("NCCL_DEBUG left in nccl.conf", "NCCL_DEBUG=INFO\n", "nccl.debug_left_on", ()),
    ("more than a rail carries", HEAD + " 65536      5000             0.00              213.20     0.4\n", "rdma.ceiling", ("both ways",)),
    ("more than the fabric carries", table(44.5), "nccl.ceiling", ()),
    (
        "one wire, two MACs",
        json.dumps(
            [
                {"dst": "10.20.0.12", "dev": "enp1s0f0np0", "lladdr": "02:00:00:00:00:12", "state": ["REACHABLE"]},
                {"dst": "10.20.1.12", "dev": "enP2p1s0f0np0", "lladdr": "02:00:00:00:00:12", "state": ["REACHABLE"]},
            ]
        ),
        "path.arp",
        ("arp_ignore",),
    ),
    ("nobody answers", json.dumps([{"dst": "10.20.0.12", "dev": "enp1s0f0np0", "state": ["FAILED"]}]), "path.neighbour", ("10.20.0.12",)),
    (
        "up and no address at all",
        json.dumps([{"ifname": name, "mtu": 9000, "operstate": "UP", "addr_info": []} for name in ("enp1s0f0np0", "enP2p1s0f0np0")]),
        "address.not_provisioned",
        ("Nothing is broken",),
    ),
    (
        "live default route",
        json.dumps([{"dst": "default", "gateway": "10.20.0.254", "dev": "enp1s0f0np0", "flags": []}]),
        "address.default_route",
        ("10.20.0.254",),
    ),
]


@pytest.mark.parametrize(("text", "cause", "told"), [row[1:] for row in CAUSES], ids=[row[0] for row in CAUSES])
def test_a_known_cause_is_named(text: str, cause: str, told: tuple[str, ...]) -> None:
    document = of_text(text)
    assert cause in ids(document, "fail", "unknown", "warn", "skip")
    entry = finding(document, cause)
    said = " ".join([entry["message"], entry["cause"], entry["fix"]])
    assert [word for word in told if word not in said] == []
    if entry["status"] in ("fail", "unknown"):
        assert document["verdict"]["status"] == "fail"


def test_a_healthy_run_passes() -> None:
    document = of_text(
        IB
        + "n1:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0\nn1:1:1 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[0] [send] via NET/IB/1\n"
        + table(23.2)
    )
    assert document["verdict"] == {"status": "pass", "counts": document["verdict"]["counts"], "message": "nothing is wrong"}
    assert ids(document) == {"nccl.transport", "nccl.bandwidth"}


def test_the_power_line_of_every_spark_is_no_signal() -> None:
    document = of_text(
        kernel("mlx5_core 0000:01:00.0: Detected insufficient power on the PCIe slot (27W).") + kernel("mlx5_core 0000:01:00.0: firmware version: 28.45.4028")
    )
    assert document["verdict"]["status"] == "pass" and "27" not in words(document)


def test_rings_of_four_may_join_equal_ports() -> None:
    document = of_text("n1:0-n2:1\nn2:0-n3:0\nn3:1-n4:1\nn4:0-n1:1\n")
    assert document["verdict"]["status"] == "pass" and "rings of four" in words(document)


def test_the_document_is_current() -> None:
    assert (ROOT / "docs/explain.md").read_text(encoding="utf-8") == explain_document()


def test_every_cause_has_a_fix() -> None:
    for cause in load_causes().values():
        assert cause.status in ("pass", "skip") or (cause.cause and cause.fix), cause.id
