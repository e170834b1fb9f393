# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Readers of NCCL's log, launch messages and listings: recorded texts to records, and no text to any other error than their own."""

from __future__ import annotations

import json
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.module_utils import (
    address_watch,
    cabling_list,
    environment_text,
    ip_link,
    iperf3_output,
    kernel_log,
    log_line,
    mpirun_output,
    nccl_debug_log,
    netplan_messages,
    networkmanager_listing,
    nic_listings,
    rdma_listings,
)
from ansible_collections.dgxspark.fabric.tests.unit.fuzzing import examples

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "explain"
HOST = "spark-a:9001:9030 [0] "


def lines(name: str) -> list[str]:
    """Return the lines of a fixture."""
    return (FIXTURES / name).read_text(encoding="utf-8").splitlines()


def test_a_recorded_log() -> None:
    log = nccl_debug_log.read(lines("nccl-tests/all_gather_2ranks_socket_nccl_debug_info.txt"))
    assert log.host_of_rank == {0: "spark1", 1: "spark2"} and log.rings == {0: (0, 1), 1: (0, 1)} and not log.warnings and not log.full
    for process in log.processes.values():
        assert (process.version, process.networks, process.no_device, process.devices) == ("2.28.9", ["Socket"], True, {})
        assert process.rings_connected and process.init_complete and process.settings == {"NCCL_P2P_DISABLE": "1"}
    assert log.channels[("spark1", 2148, 0, 1, "send", "NET", "Socket", 0)] == {0, 1}


@pytest.mark.parametrize(
    ("texts", "devices", "interface"),
    [
        (["NET/IB : Using [0]rocep1s0f1:1/RoCE [1]roceP2p1s0f1:1/RoCE [RO]; OOB enP7s7:10.0.0.1<0>"], {0: ("rocep1s0f1",), 1: ("roceP2p1s0f1",)}, "enP7s7"),
        (["NET/IB : Using [0]={[0] rocep1s0f1:1/RoCE, [1] roceP2p1s0f1:1/RoCE} [RO]; OOB enP7s7:10.0.0.1<0>"], {0: ("rocep1s0f1", "roceP2p1s0f1")}, "enP7s7"),
        (
            [
                "NET/IB : Made virtual device [2] name=rocep1s0f1+roceP2p1s0f1 speed=400000 ndevs=2",
                "NET/IB : Using [0]rocep1s0f1:1/RoCE [1]roceP2p1s0f1:1/RoCE [RO]; OOB enP7s7:10.0.0.1<0>",
            ],
            {0: ("rocep1s0f1",), 1: ("roceP2p1s0f1",), 2: ("rocep1s0f1", "roceP2p1s0f1")},
            "enP7s7",
        ),
        (["NET/IB : No device found.", "NET/IB : Using [RO]; OOB enP7s7:10.0.0.2<0>"], {}, "enP7s7"),
    ],
    ids=["2.18", "2.20 merged", "2.24 merged", "none"],
)
def test_devices_of_all_versions(texts: list[str], devices: dict, interface: str) -> None:
    process = next(iter(nccl_debug_log.read(f"{HOST}NCCL INFO {text}" for text in texts).processes.values()))
    assert (process.devices, process.oob_interface) == (devices, interface)


@pytest.mark.parametrize(
    "text",
    [
        "Channel 00/0 : 1[f01000] -> 0[f01000] [receive] via NET/IB/0",
        "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0",
        "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0(1)/GDRDMA",
        "Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA(PCI)/Shared",
    ],
)
def test_channels_of_all_versions(text: str) -> None:
    assert nccl_debug_log.read([f"{HOST}NCCL INFO {text}"]).channels == {("spark-a", 9001, 1, 0, "receive", "NET", "IB", 0): {0}}


@pytest.mark.parametrize(
    "front",
    [
        "n1:4:5 [0] misc/ibvwrap.cc:376 NCCL WARN ",
        "[2026-10-02 09:14:07] n1:4:5 [0] misc/ibvwrap.cc:376 NCCL WARN ",
        "n1:4:5 [0] misc/ibvwrap.cc:376 (wrap_ibv_modify_qp) NCCL WARN ",
    ],
)
def test_warnings_of_all_versions(front: str) -> None:
    text = (
        "Call to ibv_modify_qp failed with 110 Connection timed out, on dev rocep1s0f0:1, curr state INIT, next state RTR, "
        "local GID index 3, local GID ::ffff:10.20.2.12, "
        "remote GID ::ffff:10.20.6.13"
    )
    warning = next(iter(nccl_debug_log.read([log_line.clean(front + text).text] * 3).warnings.values()))
    assert (warning.host, warning.errno, warning.device, warning.gid_index, warning.local_gid, warning.remote_gid, warning.count) == (
        "n1",
        110,
        "rocep1s0f0",
        3,
        "::ffff:10.20.2.12",
        "::ffff:10.20.6.13",
        3,
    )


def test_memory_has_limits() -> None:
    log = nccl_debug_log.read(f"h{number}:1:1 [0] x.cc:1 NCCL WARN text {chr(97 + number % 26) * (number % 40)} NET/{number}" for number in range(6000))
    assert log.full and len(log.processes) == nccl_debug_log.PROCESS_LIMIT and len(log.warnings) == nccl_debug_log.WARNING_LIMIT


def test_launch_failures_name_the_cause_first() -> None:
    failures = mpirun_output.classify(lines("lab/mpi-fail-wrong-if.txt"))
    assert [(failure.name, failure.cause) for failure in failures] == [
        ("interface", True),
        ("processes_unreachable", True),
        ("mpi_error", False),
        ("exit_status", False),
    ]
    assert failures[0].subject == "btl_tcp_if_include nosuch0"


@pytest.mark.parametrize(("name", "streams", "reverse"), [("P1", 1, False), ("P4", 4, False), ("R", 1, True)])
def test_recorded_iperf3(name: str, streams: int, reverse: bool) -> None:
    text = (FIXTURES / f"lab/iperf3-{name}.json").read_text(encoding="utf-8")
    output, document = iperf3_output.parse(text), json.loads(text)
    assert output.received_gbps == document["end"]["sum_received"]["bits_per_second"] / 1e9
    assert (output.streams, output.reverse, output.error, output.remote_host, output.one_thread) == (streams, reverse, None, "192.168.12.2", False)


def test_iperf3_error_though_its_status_is_0() -> None:
    output = iperf3_output.parse(
        '{"start":{"connected":[],"version":"iperf 3.12","system_info":"Linux x"},"intervals":[],"end":{},'
        '"error":"error - unable to connect to server: Connection refused"}'
    )
    assert output.error and output.received_gbps is None and output.one_thread


def test_choice_of_devices() -> None:
    choice = environment_text.device_choice("=rocep1s0f0:1,roceP2p1s0f0:1")
    assert (choice.names, choice.exact, choice.excluded) == (("rocep1s0f0", "roceP2p1s0f0"), True, False)
    assert environment_text.device_choice("^=mlx5_0").excluded
    found = environment_text.parse(['export NCCL_IB_GID_INDEX=""', "NCCL_DEBUG=INFO # noise", "HF_TOKEN=x", "-x NCCL_NET=IB"])
    assert found["NCCL_IB_GID_INDEX"].empty and found["NCCL_DEBUG"].value == "INFO" and "HF_TOKEN" not in found and found["NCCL_NET"].value == "IB"


def test_show_gids_with_tabs_and_empty_columns() -> None:
    gids = rdma_listings.show_gids(
        [
            "rocep1s0f1\t1\t0\tfe80:0000:0000:0000:4ebb:47ff:fe00:0102\t\t\tv1\tenp1s0f1np1",
            "rocep1s0f1\t1\t3\t0000:0000:0000:0000:0000:ffff:0a15:0101\t10.21.1.1  \tv2\tenp1s0f1np1",
            "n_gids_found=3",
        ]
    )
    assert [(gid.index, gid.ipv4, gid.version, gid.link_local) for gid in gids] == [(0, None, "v1", True), (3, "10.21.1.1", "v2", False)]


def test_ibdev2netdev_forms() -> None:
    links = rdma_listings.ibdev2netdev(
        [
            "rocep1s0f0 port 1 ==> enp1s0f0np0 (Down)",
            "roceP2p1s0f0 port 1 ==>  (NA)",
            "rocep1s0f1 port 1 <===> enp1s0f1np1 (Up)",
            "0000:01:00.0 rocep1s0f0 (MT4129 - X) ConnectX fw 28.45.4028 port 1 (ACTIVE) ==> enp1s0f0np0 (Up)",
        ]
    )
    assert [(link.device, link.netdev, link.up) for link in links] == [
        ("rocep1s0f0", "enp1s0f0np0", False),
        ("roceP2p1s0f0", "", False),
        ("rocep1s0f1", "enp1s0f1np1", True),
        ("rocep1s0f0", "enp1s0f0np0", True),
    ]


def test_terse_nmcli_in_both_orders() -> None:
    found = networkmanager_listing.connections(lines("lab/nm-renderer.txt"))
    assert ("netplan-enp1s0f0np0", "enp1s0f0np0") in {(connection.name, connection.device) for connection in found}
    assert [connection.name for connection in found if connection.generic and connection.device] == []


def test_tags_and_times() -> None:
    assert log_line.clean("[1,3]<stderr>: #bytes\r\n") == ("1,3", " #bytes")
    assert log_line.clean("[spark1:00000] *** An error\n") == ("", "[spark1:00000] *** An error")
    assert log_line.clean("0.25 enP7s7 UP\n").text == "0.25 enP7s7 UP"
    assert log_line.clean("# \x1b[1mtext\x1b[0m").text == "# text"


READERS = [
    rdma_listings.ibdev2netdev,
    rdma_listings.show_gids,
    rdma_listings.ibv_devinfo,
    nic_listings.ethtool,
    nic_listings.lspci,
    nic_listings.pci_functions,
    kernel_log.events,
    netplan_messages.messages,
    cabling_list.cables,
    address_watch.watches,
    environment_text.parse,
    networkmanager_listing.connections,
    mpirun_output.classify,
    nccl_debug_log.read,
]
KNOWN = [
    line
    for folder in ("field", "lab", "situations")
    for path in sorted((FIXTURES / folder).glob("*.*"))
    if path.is_file()
    for line in path.read_text(encoding="utf-8").splitlines()
    if len(line) < 300
]


@examples(100)
@given(
    st.lists(
        st.sampled_from(KNOWN)
        | st.text(max_size=100)
        | st.sampled_from(KNOWN).flatmap(lambda line: st.integers(0, len(line)).map(lambda at: line[:at] + line[at + 1 :])),
        max_size=20,
    )
)
def test_no_text_breaks_a_reader(texts: list[str]) -> None:
    for read in READERS:
        read(texts)
    for text in texts:
        log_line.clean(text)


@examples(80)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "start",
                    "end",
                    "intervals",
                    "error",
                    "streams",
                    "sum_received",
                    "bits_per_second",
                    "ifname",
                    "mtu",
                    "state",
                    "physical_state",
                    "link-detected",
                    "linkinfo",
                    "addr_info",
                    "local",
                    "prefixlen",
                    "family",
                    "version",
                    "sender",
                    "mean_rtt",
                    "pmtu",
                ]
            ),
            inner,
            max_size=5,
        ),
        max_leaves=20,
    )
)
def test_no_json_breaks_a_reader(document: object) -> None:
    ip_link.interfaces(document)
    rdma_listings.rdma_link_json(document)
    nic_listings.ethtool_json(document)
    try:
        iperf3_output.read(document)
    except iperf3_output.Iperf3OutputError:
        pass
    try:
        iperf3_output.parse(json.dumps({"start": document, "intervals": document, "end": document}))
    except iperf3_output.Iperf3OutputError:
        pass
