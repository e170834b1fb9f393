# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every recorded or written input to its finding: field problems, situations, outputs of nccl-tests, perftest, iperf3 and the lab."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.explaining import FIXTURES, finding, ids, of_file, of_text, words

# file, verdict, ids that are fail or unknown (all of them), id and words of the finding that counts
FIELD: list[tuple[str, str, set[str], str, tuple[str, ...]]] = [
    (
        "F01-twins-in-one-subnet.yaml",
        "fail",
        {"address.shared_network"},
        "address.shared_network",
        ("enp1s0f0np0", "enP2p1s0f0np0", "192.168.0.0/24", "NVIDIA's helper"),
    ),
    ("F03-link-local-on-both.yaml", "fail", {"address.link_local"}, "address.link_local", ("enp1s0f1np1", "enP2p1s0f1np1", "one network", "both rails")),
    (
        "F04-nmcli.txt",
        "fail",
        {"address.auto_profile"},
        "address.auto_profile",
        ("Wired connection 2", "Wired connection 3", "enp1s0f0np0", "nmcli con delete"),
    ),
    ("F05-default-route.txt", "fail", {"address.default_route"}, "address.default_route", ("enp1s0f0np0", "10.20.0.254")),
    ("F05-stderr.txt", "fail", {"address.default_route"}, "address.default_route", ("Conflicting default route declarations for IPv4",)),
    ("F05-management-subnet.yaml", "fail", {"address.management_network"}, "address.management_network", ("enp1s0f0np0", "192.0.2.0/24")),
    ("F05-renderer-empty.txt", "fail", {"address.netplan_error"}, "address.netplan_error", ("unknown renderer ''", "40-cx7.yaml line 3")),
    ("F05-renderer-wrong.yaml", "fail", {"address.netplan_error"}, "address.netplan_error", ("unknown renderer 'systemd-networkd'",)),
    ("F05-no-prefix.yaml", "fail", {"address.netplan_error"}, "address.netplan_error", ("missing /prefixlength", "10.20.0.11")),
    ("F05-tab.txt", "fail", {"address.netplan_error"}, "address.netplan_error", ("line 4", "\\t")),
    ("F05-mtu.yaml", "fail", {"address.netplan_error"}, "address.netplan_error", ("9000b",)),
    ("F07-mtu-of-both-ends.txt", "fail", {"address.mtu"}, "address.mtu", ("node1 enP2p1s0f0np0 9000", "node2 enP2p1s0f0np0 1500")),
    ("F12-permissions.txt", "pass", set(), "address.netplan_note", ("/etc/netplan/40-cx7.yaml", "no failure")),
    ("F19-cabling.txt", "fail", {"link.cabling"}, "link.cabling", ("n1:0-n2:0", "n2:1-n3:1", "port 0", "port 1")),
    ("F19-prefixes.yaml", "fail", {"address.prefix_length"}, "address.prefix_length", ("10.20.0.0/30", "10.20.0.8/30", "NCCL_IB_SUBNET_PREFIX_LEN")),
    (
        "F21-no-cable-to-peer.log",
        "fail",
        {"nccl.no_cable_to_peer"},
        "nccl.no_cable_to_peer",
        ("n2", "rocep1s0f0", "10.20.2.12", "10.20.6.13", "no cable to that peer", "2.30.7", "port 0 to port 1"),
    ),
    ("F27-four-up.txt", "pass", set(), "link.ports_up", ("0, 1", "no proof of a mesh")),
    ("F28-functions.txt", "pass", set(), "link.receptacles", ("enp1s0f0np0 (0000:01:00.0) and enP2p1s0f0np0 (0002:01:00.0) are one port",)),
    ("F29-neighbour-without-dev.json", "pass", set(), "path.neighbour", ("10.20.0.12 is REACHABLE",)),
    ("F34-one-rail-without-ipv4.txt", "pass", set(), "address.no_ipv4", ("enP2p1s0f0np0", "no IPv4")),
    ("F39-degraded-nic.txt", "fail", {"rdma.degraded_nic"}, "rdma.degraded_nic", ("13.2 Gb/s", "Power off", "unplug", "wait")),
    ("F40-pcie-width.txt", "fail", {"pcie.width"}, "pcie.width", ("0002:01:00.0", "x2 of x4", "fwupdmgr")),
    ("F44-speed.txt", "fail", {"link.speed"}, "link.speed", ("100000", "200000", "200G-baseCR4")),
    ("F44-no-link.txt", "fail", {"link.carrier"}, "link.carrier", ("enp1s0f0np0 has no link",)),
    ("F46-one-twin.txt", "fail", {"link.one_twin"}, "link.one_twin", ("rocep1s0f0", "roceP2p1s0f0", "not from a setting")),
    ("F54-gid-index.txt", "fail", {"rdma.gid_index"}, "rdma.gid_index", ("index 3 is empty", "5 on rocep1s0f0", "better leave unset")),
    ("F56-empty-index.env", "fail", {"nccl.gid_index_empty"}, "nccl.gid_index_empty", ("set to nothing",)),
    ("F57-hca-list.env", "pass", set(), "nccl.hca_list", ("2 devices: rocep1s0f0, roceP2p1s0f0",)),
    ("F58-socket.log", "fail", {"nccl.transport"}, "nccl.transport", ("Socket", "No device found", "/dev/infiniband")),
    ("F67-two-jobs.txt", "fail", {"nccl.not_one_job"}, "nccl.not_one_job", ("node1", "node2", "Not one job", "MPI=1")),
    ("F68-library.txt", "fail", {"launch.library_missing"}, "launch.library_missing", ("libnccl.so.2",)),
    ("F70-cpu-frequency.txt", "pass", set(), "rdma.rail_bandwidth", ("111.7 Gb/s",)),
    ("F72-old.json", "fail", {"rdma.json"}, "rdma.json", ("JSON unusable, text used", "92.57")),
    ("F72-broken.json", "fail", {"rdma.json"}, "rdma.json", ("JSON unusable, text used", "92.57")),
    ("F75-connect.txt", "fail", {"rdma.connect_failed"}, "rdma.connect_failed", ("10.20.0.12:18515", "firewall")),
    ("F75-device.txt", "fail", {"rdma.device_missing"}, "rdma.device_missing", ("rocep1s0f9",)),
    ("F75-gid-types.txt", "fail", {"rdma.gid_mismatch"}, "rdma.gid_mismatch", ("Incompatibility",)),
    ("F75-rtr.txt", "fail", {"rdma.qp_connect"}, "rdma.qp_connect", ("QP 300",)),
    ("F75-cm.txt", "fail", {"rdma.cm"}, "rdma.cm", ("without -R",)),
    ("F75-no-devices.txt", "fail", {"rdma.device_missing"}, "rdma.device_missing", ("Did not detect devices",)),
    ("F82-environment.json", "fail", {"nccl.no_number"}, "nccl.no_number", ("out_of_place time at 1073741824 bytes",)),
    ("F84-not-checked.txt", "fail", {"nccl.no_log"}, "nccl.not_checked", ("not checked",)),
    ("F84-wrong-data.txt", "fail", {"nccl.no_log", "nccl.wrong_data"}, "nccl.wrong_data", ("3 values out of bounds",)),
]

# file, verdict, id, its status, words, words that must not be told
SITUATIONS: list[tuple[str, str, str, str, tuple[str, ...], tuple[str, ...]]] = [
    ("01-twins-in-a-bond.json", "fail", "link.enslaved", "fail", ("bond0", "enp1s0f0np0", "enP2p1s0f0np0", "enslaved", "no address on the rail"), ()),
    (
        "02-primary-only-linklocal16.yaml",
        "pass",
        "address.no_ipv4",
        "warn",
        ("enP2p1s0f1np1", "no IPv4", "169.254.0.0/16"),
        ("half bandwidth", "half the bandwidth"),
    ),
    ("04-nm-mirror-tree", "fail", "address.dhcp", "fail", ("90-NM-11111111", "dhcp4 true", "dhcp6 true", "different renderers", "enp1s0f0np0"), ()),
    ("05-management-blip.log", "pass", "address.management_blip", "pass", ("back after 1.00 s", "192.0.2.21/24"), ()),
    ("10-pair-with-two-cables.tsv", "pass", "link.two_cables", "pass", ("two cables", "same pair", "no extra bandwidth", "four subnets"), ("mesh",)),
    (
        "12-gid-table-changed-during-run.log",
        "fail",
        "nccl.gid_table_changed",
        "fail",
        ("GID table changed", "node2", "rocep1s0f0", "result void", "23.24 not counted"),
        (),
    ),
    (
        "15-nic-powered-off-without-cable.txt",
        "fail",
        "link.no_cable",
        "fail",
        ("no cable", "hot-plug", "28.45.4028"),
        ("broken", "missing driver", "reinstall"),
    ),
    ("16-runtime-mtu-differs-from-file.txt", "fail", "address.mtu_drift", "fail", ("MTU 1500", "wanted 9000", "file unchanged", "active_mtu 1024"), ()),
    ("18-pair-on-different-ports.log", "pass", "nccl.different_ports", "pass", ("different ports", "per-host interface names", "NET/IB"), ()),
]


# What the finding is about, where the file itself names a node, an interface or a device; else it is the file.
SUBJECTS = {
    "F07-mtu-of-both-ends.txt": "node1, node2",
    "F19-cabling.txt": "n1, n2, n3",
    "F21-no-cable-to-peer.log": "n2",
    "F40-pcie-width.txt": "0002:01:00.0",
    "F44-speed.txt": "enp1s0f0np0",
    "F44-no-link.txt": "enp1s0f0np0",
    "F58-socket.log": "the host of this log",
    "05-management-blip.log": "enP7s7",
    "10-pair-with-two-cables.tsv": "node1, node2",
    "12-gid-table-changed-during-run.log": "node2",
    "15-nic-powered-off-without-cable.txt": "node3",
    "18-pair-on-different-ports.log": "node1, node2",
}


def check_parts(entry: dict[str, Any], path: str) -> None:
    """A finding names what it is about, and one that is no pass has a cause and a fix."""
    assert entry["subject"] == SUBJECTS.get(path.rpartition("/")[2], str(FIXTURES / path))
    assert entry["status"] in ("pass", "skip") or entry["cause"] and entry["fix"]


@pytest.mark.parametrize(("name", "verdict", "broken", "cause", "told"), FIELD, ids=[row[0] for row in FIELD])
def test_field_problems(name: str, verdict: str, broken: set[str], cause: str, told: tuple[str, ...]) -> None:
    document = of_file(f"explain/field/{name}")
    assert document["verdict"]["status"] == verdict
    assert ids(document, "fail", "unknown") == broken
    entry = finding(document, cause)
    check_parts(entry, f"explain/field/{name}")
    text = " ".join([entry["message"], entry["cause"], entry["fix"]])
    assert [word for word in told if word not in text] == []


@pytest.mark.parametrize(("name", "verdict", "cause", "status", "told", "untold"), SITUATIONS, ids=[row[0] for row in SITUATIONS])
def test_situations(name: str, verdict: str, cause: str, status: str, told: tuple[str, ...], untold: tuple[str, ...]) -> None:
    document = of_file(f"explain/situations/{name}")
    assert document["verdict"]["status"] == verdict
    assert finding(document, cause)["status"] == status
    check_parts(finding(document, cause), f"explain/situations/{name}")
    assert [word for word in told if word not in words(document)] == []
    assert [word for word in untold if word in words(document)] == []


def test_every_situation_of_the_index_is_tried() -> None:
    lines = (FIXTURES / "explain/situations/index.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert {line.split("\t")[0].rstrip("/") for line in lines} == {row[0] for row in SITUATIONS}


def test_every_field_file_is_tried() -> None:
    assert {path.name for path in (FIXTURES / "explain/field").iterdir()} == {row[0] for row in FIELD}


def test_what_is_known_of_the_cluster_changes_the_judgement() -> None:
    assert finding(of_file("explain/field/F34-one-rail-without-ipv4.txt", topology="ring"), "address.no_ipv4")["status"] == "fail"
    declared = of_file("explain/field/F27-four-up.txt", ports=(0,), topology="pair")
    assert declared["verdict"]["status"] == "pass" and "Port 1 is up and not declared" in words(declared)
    assert of_file("explain/field/F44-speed.txt", link_gbps=100.0)["verdict"]["status"] == "pass"
    text = (FIXTURES / "explain/field/F19-prefixes.yaml").read_text(encoding="utf-8")
    assert of_text(text, "NCCL_IB_SUBNET_PREFIX_LEN=30\n")["verdict"]["status"] == "pass"


# file, ids that are fail or unknown
NCCL_TESTS: list[tuple[str, set[str]]] = [
    ("all_gather_1rank.json", {"nccl.one_rank"}),
    ("all_gather_1rank.txt", {"nccl.one_rank"}),
    ("all_gather_2ranks_socket_nccl_debug_info.txt", {"nccl.transport"}),
    ("all_gather_nccl_net_ib_without_device.stderr.txt", {"launch.exit_status"}),
    ("all_gather_nccl_net_ib_without_device.stdout.txt", {"nccl.test_failure"}),
    ("all_reduce_1rank_min_bw_failed.txt", {"nccl.below_minimum", "nccl.one_rank"}),
    ("all_reduce_1rank_per_iteration_timestamp_nccl_debug_info.txt", {"nccl.one_rank"}),
    ("all_reduce_2ranks_socket.json", {"nccl.no_log", "nccl.bandwidth"}),
    ("all_reduce_2ranks_socket.txt", {"nccl.no_log", "nccl.bandwidth"}),
    ("all_reduce_4ranks_socket.txt", {"nccl.no_log", "nccl.bandwidth"}),
    ("all_reduce_too_few_gpus.txt", {"nccl.too_few_gpus"}),
    ("alltoall_2ranks_socket.txt", {"nccl.no_log"}),
]


@pytest.mark.parametrize(("name", "broken"), NCCL_TESTS, ids=[row[0] for row in NCCL_TESTS])
def test_recorded_runs_of_nccl_tests(name: str, broken: set[str]) -> None:
    assert ids(of_file(f"explain/nccl-tests/{name}"), "fail", "unknown") == broken


def test_standard_output_and_standard_error_are_judged_together() -> None:
    folder = "explain/nccl-tests/all_gather_nccl_net_ib_without_device"
    assert ids(of_file(f"{folder}.stdout.txt", f"{folder}.stderr.txt"), "fail", "unknown") == {"nccl.test_failure"}


def test_socket_is_the_expected_transport_when_one_says_so() -> None:
    document = of_file("explain/nccl-tests/all_gather_2ranks_socket_nccl_debug_info.txt", network="Socket")
    assert document["verdict"]["status"] == "pass" and finding(document, "nccl.transport")["status"] == "pass"


# file, verdict, id
LAB: list[tuple[str, str, str]] = [
    ("explain/lab/ethtool-enp1s0f0np0.txt", "pass", "link.speed"),
    ("explain/lab/ethtool-json.txt", "pass", "link.speed"),
    ("explain/lab/ibv_devinfo.txt", "pass", "rdma.mtu"),
    ("explain/lab/ip-addr.json", "pass", "address.present"),
    ("explain/lab/ip-link.json", "pass", "address.mtu"),
    ("explain/lab/ip-neigh.json", "pass", "path.neighbour"),
    ("explain/lab/ip-route.json", "pass", "address.default_route"),
    ("explain/lab/iperf3-P1.json", "pass", "tcp.bandwidth"),
    ("explain/lab/iperf3-P4.json", "pass", "tcp.bandwidth"),
    ("explain/lab/iperf3-R.json", "pass", "tcp.bandwidth"),
    ("explain/lab/iperf3-fail-refused.json", "fail", "tcp.failed"),
    ("explain/lab/mpi-default.txt", "fail", "explain.unrecognised"),
    ("explain/lab/mpi-fail-wrong-if.txt", "fail", "launch.interface"),
    ("explain/lab/mpi-ucx.txt", "fail", "launch.ucx"),
    ("explain/lab/netplan-get.txt", "pass", "address.netplan"),
    ("explain/lab/nm-renderer.txt", "pass", "address.profiles"),
    ("explain/lab/rdma-link.json", "pass", "link.ports_up"),
    ("explain/lab/rdma-link.txt", "pass", "link.ports_up"),
    ("perftest/block4791.client.txt", "fail", "rdma.measured"),
    ("perftest/fail-cut-setlink.client.txt", "fail", "rdma.link_down"),
    ("perftest/fail-device-other-cable.client.txt", "fail", "rdma.peer_lost"),
    ("perftest/fail-device-other-cable.server.txt", "fail", "rdma.qp_connect"),
    ("perftest/fail-gid-index-out-of-range.client.txt", "fail", "rdma.gid_index_range"),
    ("perftest/fail-gid0-linklocal.client.txt", "fail", "rdma.qp_connect"),
    ("perftest/fail-mismatched-params.client.txt", "fail", "rdma.completion"),
    ("perftest/fail-no-route.client.txt", "fail", "rdma.connect_failed"),
    ("perftest/fail-no-server-listening.client.txt", "fail", "rdma.connect_failed"),
    ("perftest/fail-wrong-device.client.txt", "fail", "rdma.device_missing"),
    ("perftest/fail-wrong-gid-index-client.client.txt", "fail", "rdma.gid_mismatch"),
    ("perftest/ib_write_bw-D3.client.txt", "pass", "rdma.rail_bandwidth"),
    ("perftest/ib_write_bw-R.server.txt", "pass", "rdma.rail_bandwidth"),
    ("perftest/ib_write_bw-a-n5.client.txt", "pass", "rdma.rail_bandwidth"),
    ("perftest/ib_write_bw-b-n50.client.txt", "fail", "rdma.rail_bidirectional"),
    ("perftest/ib_write_bw-json.client.txt", "pass", "rdma.rail_bandwidth"),
    ("perftest/ib_write_bw-x1-q4.server.txt", "pass", "rdma.rail_bandwidth"),
    ("perftest/ib_write_lat-n100.client.txt", "pass", "rdma.latency"),
    ("perftest/kill-clientproc.server.txt", "fail", "rdma.peer_lost"),
    ("perftest/mid-setlink.client.txt", "fail", "rdma.link_lost"),
    ("perftest/mtu1500-nft.client.txt", "pass", "rdma.rail_bandwidth"),
    ("perftest/tbf50-1to2.client.txt", "fail", "rdma.rail_bandwidth"),
]


@pytest.mark.parametrize(("name", "verdict", "cause"), LAB, ids=[row[0] for row in LAB])
def test_outputs_of_the_lab(name: str, verdict: str, cause: str) -> None:
    document = of_file(name, rail_gbps=0.3)  # emulated machines: a rail gives 0.3 Gb/s there
    assert document["verdict"]["status"] == verdict
    assert cause in ids(document)


def test_every_finding_has_its_parts() -> None:
    every: list[dict[str, Any]] = []
    for folder in ("explain/field", "explain/situations", "explain/nccl-tests", "explain/lab", "perftest"):
        for path in sorted((FIXTURES / folder).iterdir()):
            every.extend(of_file(str(path))["findings"])
    for entry in every:
        assert "{" not in entry["message"].replace("{results", "") and "unknown" not in entry["message"].split()[:1], entry
        if entry["status"] in ("fail", "unknown", "warn"):
            assert entry["cause"] and entry["fix"], entry
