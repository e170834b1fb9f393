# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Readers of links: probe frames, lldpd's neighbours, ports by name, flow control, machine, traffic. Samples, and any text at all."""

from __future__ import annotations

import json
import pathlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.module_utils import (
    ethtool_ioctl, fabric_ports, fabric_traffic, flow_control, job_state, kernel_log, lldp_neighbours, platform_facts, probe_frame, sysfs)
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import NOT_FOUND, Completed
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils import spark_root

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "node"
NAMES = st.text(st.characters(categories=["L", "N"], codec="utf-8"), max_size=60)
HELLO = probe_frame.Hello(probe_frame.run_digest("run1"), "lab", "spark1", "enp1s0f0np0", 0, "a")


# --- frames ---

@given(NAMES, NAMES, NAMES, st.sampled_from([0, 1, None]), st.sampled_from(["a", "b", None]), st.booleans())
def test_a_frame_says_what_was_put_into_it(cluster, node, interface, port, rail, nearest) -> None:
    hello = probe_frame.Hello(probe_frame.run_digest(node), cluster, node, interface, port, rail)
    destination = probe_frame.NEAREST_BRIDGE if nearest else probe_frame.BROADCAST
    frame = probe_frame.encode(hello, bytes.fromhex("020000000001"), destination)
    assert len(frame) >= 60
    assert probe_frame.decode(frame) == probe_frame.Received(hello, "02:00:00:00:00:01", nearest)
    assert probe_frame.decode(frame + bytes(20)) is not None, "drivers pad frames"


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    assert probe_frame.decode(raw) is None
    frame = probe_frame.encode(HELLO, bytes(6), probe_frame.BROADCAST)
    for place in (0, 14, 23, 40, 60):
        probe_frame.decode(frame[:place] + raw)


def test_text_that_would_spoil_a_terminal_is_refused() -> None:
    hello = probe_frame.Hello(HELLO.run, "lab", "spark\x1b[2J", "x", 0, "a")
    assert probe_frame.decode(probe_frame.encode(hello, bytes(6), probe_frame.BROADCAST)) is None


# --- LLDP ---

def test_lldp_of_the_lab() -> None:
    found = lldp_neighbours.parse_neighbours((FIXTURES / "lldp-neighbors.json").read_text(encoding="utf-8"))
    assert {(entry["interface"], entry["system"], entry["port"]) for entry in found} == {
        ("enp1s0f0np0", "spark2", "enp1s0f1np1"), ("enp1s0f0np0", "spark2", "enP2p1s0f1np1"), ("enp1s0f1np1", "spark3", "enp1s0f0np0"),
        ("enp1s0f1np1", "spark3", "enP2p1s0f0np0"), ("enP2p1s0f0np0", "spark2", "enp1s0f1np1"), ("enP2p1s0f0np0", "spark2", "enP2p1s0f1np1"),
        ("enP2p1s0f1np1", "spark3", "enp1s0f0np0"), ("enP2p1s0f1np1", "spark3", "enP2p1s0f0np0")}
    assert found[0]["mac"] == "52:54:00:02:01:01" and not any(entry["bridge"] for entry in found)


@pytest.mark.parametrize("text", [
    # one neighbour: an object; json0: lists of everything
    '{"lldp": {"interface": {"enp1s0f1np1": {"chassis": {"crs812": {"id": {"type": "mac", "value": "x"}, "capability": [{"type": "Bridge", "enabled": true}]}},'
    ' "port": {"id": {"type": "ifname", "value": "qsfp1"}}}}}}',
    '{"lldp": [{"interface": [{"name": "enp1s0f1np1", "chassis": [{"id": [{"type": "mac", "value": "x"}], "name": [{"value": "crs812"}],'
    ' "capability": [{"type": "Bridge", "enabled": true}]}], "port": [{"id": [{"type": "ifname", "value": "qsfp1"}]}]}]}]}',
])
def test_a_switch_in_both_forms(text: str) -> None:
    assert lldp_neighbours.parse_neighbours(text) == [{"interface": "enp1s0f1np1", "system": "crs812", "port": "qsfp1", "mac": None, "bridge": True}]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["lldp", "interface", "chassis", "port", "id", "name", "value", "type", "capability", "enabled", "descr", "prio-pfc", "order"]),
        inner), max_leaves=12)


@given(JSON_VALUES)
def test_any_json_is_read_or_refused(document) -> None:
    text = json.dumps(document)
    for read, error in ((lldp_neighbours.parse_neighbours, lldp_neighbours.LldpError), (flow_control.parse_pfc, flow_control.FlowControlError),
                        (flow_control.parse_trust, flow_control.FlowControlError)):
        try:
            read(text)
        except error:
            pass


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    for read, error in ((lldp_neighbours.parse_neighbours, lldp_neighbours.LldpError), (flow_control.parse_pfc, flow_control.FlowControlError),
                        (flow_control.parse_trust, flow_control.FlowControlError)):
        try:
            read(text)
        except error:
            pass
    flow_control.parse_mlnx_qos(text)
    platform_facts.parse_dgx_release(text)
    platform_facts.parse_nvidia_driver(text)
    platform_facts.parse_kernel_options(text)
    platform_facts.parse_aer_total(text)
    fabric_traffic.parse_tcp(text, {"10.0.0.1"})


@pytest.mark.parametrize(("answer", "reason"), [
    (Completed((), NOT_FOUND, "", "lldpcli is not installed"), "package lldpd"),
    (Completed((), 1, "", "unable to get socket"), "does not answer: unable to get socket"),
    (Completed((), 0, "[lldpcli] hm", ""), "expected JSON"),
])
def test_no_lldpd_is_no_error(answer: Completed, reason: str) -> None:
    witness, told = lldp_neighbours.ask(lambda argv, timeout=0: answer)
    assert witness is None and reason in told


# --- ports ---

@pytest.mark.parametrize(("name", "port_name", "pci", "driver", "place"), [
    ("enp1s0f0np0", "p0", "0000:01:00.0", "mlx5_core", (0, "a")),
    ("enP2p1s0f1np1", "p1", "0002:01:00.1", "mlx5_core", (1, "b")),
    ("fabric0", "p1", "0002:01:00.1", "mlx5_core", (1, "b")),  # renamed: the driver and the bus tell
    ("enp1s0f0np0", "p1", "0000:01:00.0", "mlx5_core", (1, "a")),  # the driver's word outranks the name
    ("enP2p1s0f0np0", None, "0000:02:00.0", "virtio_net", (0, "b")),  # emulated: the name tells
    ("enP7s7", None, "0007:01:00.0", "r8127", None),
    ("fabric0", None, "0000:01:00.0", "mlx5_core", None),
    ("eth0", "p0", "0000:05:00.0", "bnxt_en", None),
])
def test_port_and_rail(name, port_name, pci, driver, place) -> None:
    assert fabric_ports.place(name, port_name, pci, driver) == place


@pytest.mark.parametrize("layout", ["mlx5", "rxe"])
def test_twins_of_a_spark(tmp_path, layout: str) -> None:
    places = fabric_ports.fabric_interfaces(sysfs.Tree(spark_root.spark(tmp_path, layout)))
    assert places == {"enp1s0f0np0": (0, "a"), "enp1s0f1np1": (1, "a"), "enP2p1s0f0np0": (0, "b"), "enP2p1s0f1np1": (1, "b")}
    assert fabric_ports.twin(places, "enp1s0f1np1") == "enP2p1s0f1np1" and fabric_ports.twin(places, "enP7s7") is None


# --- flow control ---

MLNX_QOS = """DCBX mode: OS controlled
Priority trust state: dscp
PFC configuration:
\tpriority    0   1   2   3   4   5   6   7
\tenabled     0   0   0   1   0   0   0   0
\tbuffer      0   0   0   1   0   0   0   0
tc: 0 ratelimit: unlimited, tsa: vendor
"""


@pytest.mark.parametrize(("text", "priorities"), [
    ('{"pfc-cap":8,"macsec-bypass":"off","delay":0,"prio-pfc":[false,false,false,true,false,false,false,false]}', [3]),
    ('[{"pfc-cap":8,"prio-pfc":["0:off","1:on"]}]', [1]), ('{"prio-pfc":["off","off"]}', []), ("{}", None),
])
def test_pfc_of_dcb(text: str, priorities) -> None:
    assert flow_control.parse_pfc(text) == priorities


def test_flow_control_from_what_there_is(tmp_path) -> None:
    def tools(**answers):
        def run(argv, timeout=0):
            name = "trust" if "apptrust" in argv else argv[0]
            return answers.get(name, Completed(tuple(argv), NOT_FOUND, "", ""))
        return run

    tree = sysfs.Tree(tmp_path)
    for role in ("roce_np", "roce_rp"):
        for priority in range(8):
            spark_root.put(tmp_path, f"sys/class/net/x/ecn/{role}/enable/{priority}", 1 if priority == 3 or role == "roce_np" else 0)
    assert flow_control.read_flow_control(tools(mlnx_qos=Completed((), 0, MLNX_QOS, "")), tree, "x") == (
        {"pfc_priorities": [3], "trust": "dscp", "ecn_priorities": [3]}, "")
    old = tools(dcb=Completed((), 0, '{"prio-pfc":[false]}', ""), trust=Completed((), 255, "", 'Object "apptrust" is unknown'))
    assert flow_control.read_flow_control(old, tree, "y") == ({"pfc_priorities": [], "trust": None, "ecn_priorities": None}, "")
    found, reason = flow_control.read_flow_control(tools(dcb=Completed((), 1, "", "Operation not supported"), trust=Completed((), 1, "", "x")), tree, "y")
    assert found["pfc_priorities"] is None and "does not tell: Operation not supported" in reason
    assert "package iproute2" in flow_control.read_flow_control(tools(), tree, "y")[1]


def test_structures_of_ethtool() -> None:
    head = ethtool_ioctl.LINK_SETTINGS.pack(0x4C, 200000, 1, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, bytes(28))
    assert len(head) == 48 and ethtool_ioctl.parse_link_settings(head + bytes(36)) is True
    assert ethtool_ioctl.parse_pause(struct.pack("=IIII", 0x12, 0, 1, 0)) == {"autoneg": False, "rx": True, "tx": False}
    assert [ethtool_ioctl.parse_fec(struct.pack("=IIII", 0x50, active, 0, 0)) for active in (1 << 3, 1 << 2, 0, 1)] == ["rs", "off", None, None]
    assert set(ethtool_ioctl.link_settings("lo")) == {"autoneg", "fec", "pause"}


# --- machine ---

def test_machine_and_functions(tmp_path) -> None:
    root = spark_root.spark(tmp_path)
    spark_root.put(root, "sys/bus/pci/devices/000f:01:00.0/vendor", "0x10de")
    for name, text in {"bios_version": "5.36_0ACUM023", "sys_vendor": "NVIDIA"}.items():
        spark_root.put(root, f"sys/class/dmi/id/{name}", text)
    tree = sysfs.Tree(root)
    functions = platform_facts.read_functions(tree)
    assert sorted(functions) == ["0000:01:00.0", "0000:01:00.1", "0002:01:00.0", "0002:01:00.1"]
    assert functions["0002:01:00.1"] == {
        "driver": "mlx5_core", "interfaces": ["enP2p1s0f1np1"], "pcie": {"width": 4, "speed_gts": 32.0, "max_width": 4, "max_speed_gts": 32.0},
        "errors": {"correctable": None, "nonfatal": 0, "fatal": 0}}
    assert platform_facts.read_machine(tree) == {"vendor": "NVIDIA", "product": None, "firmware": "5.36_0ACUM023", "firmware_date": None}
    assert platform_facts.read_hotplug(tree) == {"present": False, "enabled": None, "state": None}
    spark_root.put(root, f"{platform_facts.HOTPLUG}/hotplug_enabled", 1)
    assert platform_facts.read_hotplug(tree)["enabled"] is True


def test_small_texts_of_the_machine() -> None:
    text = 'DGX_NAME="DGX Spark"\nDGX_PRETTY_NAME="NVIDIA DGX Spark"\nDGX_SWBUILD_VERSION="7.2.3"\nDGX_OTA_VERSION="7.4.0"\nDGX_OTA_VERSION="7.5.0"\n'
    assert platform_facts.parse_dgx_release(text) == {"name": "NVIDIA DGX Spark", "version": "7.5.0"}
    assert platform_facts.parse_kernel_options("BOOT_IMAGE=/vmlinuz root=UUID=x kho=off quiet") == {"kho": "off"}
    version = "NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  580.95.05  Release Build  (dvs)  Tue Sep 23\nGCC version:  gcc 13.3.0\n"
    assert platform_facts.parse_nvidia_driver(version) == "580.95.05"


def test_kernel_events_are_told_once() -> None:
    lines = ["Nov 02 08:00:14 n1 kernel: mlx5_core 0000:01:00.0: Port module event: module 0, Cable unplugged",
             "Nov 02 08:01:14 n1 kernel: mlx5_core 0000:01:00.0: Port module event: module 0, Cable unplugged",
             "Nov 02 08:01:20 n1 kernel: pcieport 0000:00:00.0: AER: Uncorrectable (Fatal) error message received from 0000:00:00.0"]
    assert [(entry["name"], entry["function"], entry["count"]) for entry in kernel_log.summary(kernel_log.events(lines))] == [
        ("unplugged", "0000:01:00.0", 2), ("aer_fatal", "0000:00:00.0", 1)]


# --- traffic ---

def test_traffic_of_the_kernel_and_of_rdma(tmp_path) -> None:
    for interface, count in (("x", 1000), ("y", 0)):
        spark_root.put(tmp_path, f"sys/class/net/{interface}/statistics/rx_bytes", count)
        spark_root.put(tmp_path, f"sys/class/net/{interface}/statistics/tx_bytes", count)
    spark_root.put(tmp_path, "sys/class/infiniband/mlx/ports/1/counters/port_xmit_data", 10)
    spark_root.put(tmp_path, "sys/class/infiniband/mlx/ports/1/counters/port_rcv_data", 10)
    now = [100.0]
    meter = fabric_traffic.Meter(sysfs.Tree(tmp_path), {"x": None, "y": "mlx"}, lambda: now[0])
    spark_root.put(tmp_path, "sys/class/net/x/statistics/rx_bytes", 1000 + 250_000_000)
    spark_root.put(tmp_path, "sys/class/infiniband/mlx/ports/1/counters/port_xmit_data", 10 + 500_000_000)
    waited = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        now[0] += 2.0

    rates = meter.rates(sleep)
    assert waited == [fabric_traffic.INTERVAL]
    assert rates == {"x": {"rx_gbps": 1.0, "tx_gbps": 0.0}, "y": {"rx_gbps": 0.0, "tx_gbps": 8.0}}
    assert fabric_traffic.busy_interfaces(rates) == ["x", "y"]


def test_what_is_left_of_our_own_measuring_keeps_nobody_from_measuring(tmp_path) -> None:
    spark_root.put(tmp_path, "run/x/processes.json", json.dumps({"job": 5, "tools": [711, 712], "started": {"711": "42", "712": "42"}}))
    for pid, start in ((711, 42), (712, 99)):
        spark_root.put(tmp_path, f"proc/{pid}/stat", f"{pid} (ib_write_bw) S " + " ".join(["0"] * 18) + f" {start} 0 0")
    assert job_state.own_processes(tmp_path / "run", tmp_path / "proc") == {711}, "712 is another program that got the number"
    spark_root.put(tmp_path, "run/y/processes.json", "[]")
    assert job_state.own_processes(tmp_path / "run", tmp_path / "proc") == {711}


def test_owners_of_sockets(tmp_path) -> None:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    row = "   0: 0BB1A8C0:1451 0CB1A8C0:A2B4 01 00000000:00000000 00:00000000 00000000     0        0 4242 1 0 100 0\n"
    spark_root.put(tmp_path, "proc/net/tcp", head + row)
    spark_root.put(tmp_path, "proc/711/comm", "iperf3")
    (tmp_path / "proc/711/fd").mkdir()
    (tmp_path / "proc/711/fd/3").symlink_to("socket:[4242]")
    tree = sysfs.Tree(tmp_path)
    assert fabric_traffic.socket_owners(tree, {"192.168.177.11"}) == [{"pid": 711, "command": "iperf3"}]
    assert fabric_traffic.socket_owners(tree, {"192.168.178.11"}) == []
