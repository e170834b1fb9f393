# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One thing is broken in an otherwise healthy run: exactly one finding says so, in the right layer, and names the right thing."""

from __future__ import annotations

import copy
import math
import time
from typing import Any, Callable

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.judge import INPUTS, OPTIONAL_INPUTS, judge
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy

CABLE = "spark1:0-spark2:1"
A1, B1 = "enp1s0f0np0", "enP2p1s0f0np0"  # spark1's end of the cable
A2, B2 = "enp1s0f1np1", "enP2p1s0f1np1"  # spark2's end

Data = dict[str, Any]
PLANS: dict[tuple[str, int], Data] = {}


def run_of(topology: str = "mesh", count: int = 3, **variables: Any) -> Data:
    """Return a healthy run that a test may break."""
    if variables:
        return healthy.healthy_run(healthy.plan_of(topology, count, **variables))
    key = (topology, count)
    if key not in PLANS:
        PLANS[key] = healthy.plan_of(topology, count)
    return healthy.healthy_run(copy.deepcopy(PLANS[key]))


def live(data: Data, node: str, interface: str) -> Data:
    return data["nodes"][node]["interfaces"][interface]


def rdma(data: Data, node: str, interface: str) -> Data:
    return data["nodes"][node]["rdma_devices"][data["plan"]["nodes"][node]["interfaces"][interface]["rdma_device"]]


def unplug(data: Data, node: str, interface: str) -> None:
    """Take the link of one interface away, with what the kernel drops along with it."""
    live(data, node, interface).update(carrier=False, operstate="down", addresses=[], speed_mbps=None)
    rdma(data, node, interface).update(state="DOWN", physical_state="POLLING", gids=[])


def silence(data: Data, cable: str, rail: str | None = None, small: int = 0, largest: int | None = None) -> None:
    """Make pings fail; load tests over the cable hang."""
    for entry in healthy.entries(data, cable, rail):
        entry.update(received=0, small_received=small, largest_mtu=largest, neighbour_mac=entry["neighbour_mac"] if small else None)
    for record in healthy.records(data, cable, rail):
        record.update(status="timeout", gbps=None, message="no end within the deadline")


def cut(data: Data) -> None:
    for node, interface in (("spark1", A1), ("spark1", B1), ("spark2", A2), ("spark2", B2)):
        unplug(data, node, interface)
    silence(data, CABLE)


def cut_one_end(data: Data) -> None:
    unplug(data, "spark1", A1)
    unplug(data, "spark1", B1)
    silence(data, CABLE)


def twin_down(data: Data) -> None:
    unplug(data, "spark1", A1)
    silence(data, CABLE, "a")


def twin_down_both_ends(data: Data) -> None:
    twin_down(data)
    unplug(data, "spark2", A2)


def interface_gone(data: Data) -> None:
    del data["nodes"]["spark1"]["interfaces"][A1]
    silence(data, CABLE, "a")


def set_down(data: Data) -> None:
    unplug(data, "spark1", A1)
    live(data, "spark1", A1).update(admin_up=False, carrier=None)
    unplug(data, "spark2", A2)
    silence(data, CABLE, "a")


def slow_link(data: Data) -> None:
    live(data, "spark1", A1)["speed_mbps"] = 100000


def no_rdma_device(data: Data) -> None:
    del data["nodes"]["spark2"]["rdma_devices"]["rocep1s0f1"]
    for record in healthy.records(data, CABLE, "a"):
        record.update(status="failed", gbps=None, error="device_missing")


def rdma_down(data: Data) -> None:
    rdma(data, "spark2", A2)["state"] = "DOWN"


def bond(data: Data) -> None:
    for interface in (A2, B2):
        live(data, "spark2", interface).update(master="bond0", addresses=[])


def narrow_pcie(data: Data) -> None:
    """Rail b of spark1 has one PCIe link, shared by both its ports."""
    for interface in (B1, B2):
        live(data, "spark1", interface)["pcie"]["width"] = 2
    for record in healthy.records(data, rail="b", client="spark1"):
        record["gbps"] = None if record["gbps"] is None else record["gbps"] / 2


def no_address(data: Data) -> None:
    live(data, "spark2", A2)["addresses"] = []
    rdma(data, "spark2", A2)["gids"] = []
    silence(data, CABLE, "a")


def same_network(data: Data) -> None:
    live(data, "spark2", A2)["addresses"] = ["192.168.177.12/24"]
    live(data, "spark2", B2)["addresses"] = ["192.168.177.112/24"]
    rdma(data, "spark2", B2)["gids"] = []
    silence(data, CABLE, "b")


def duplicate(data: Data) -> None:
    live(data, "spark2", A2)["addresses"] = ["192.168.177.11/24"]
    rdma(data, "spark2", A2)["gids"] = []


def low_mtu(data: Data) -> None:
    live(data, "spark2", A2)["mtu"] = 1500
    silence(data, CABLE, "a", small=3, largest=1500)


def no_gid(data: Data) -> None:
    rdma(data, "spark1", A1)["gids"] = [{"index": 0, "gid": "fe80::1", "type": "RoCE v2", "ipv4": None, "netdev": A1}]


def gid_v1_only(data: Data) -> None:
    rdma(data, "spark1", A1)["gids"][0]["type"] = "IB/RoCE v1"


def mtu_hole(data: Data) -> None:
    silence(data, CABLE, small=3, largest=1500)


def mtu_hole_one_way(data: Data) -> None:
    """Data from spark2 to spark1 is cut short: no ping of full size returns, but the test the other way is good."""
    mtu_hole(data)
    for record in healthy.records(data, CABLE, stage="directed", client="spark1"):
        record.update(status="ok", gbps=97.0, message="")


def wrong_twin(data: Data) -> None:
    """spark1 holds the other twin's MAC for each of spark2's addresses."""
    for entry in healthy.entries(data, CABLE):
        if entry["interface"] in (A1, B1):
            other = B2 if entry["peer_interface"] == A2 else A2
            entry["neighbour_mac"] = live(data, "spark2", other)["mac"]
    for record in healthy.records(data, CABLE, client="spark1"):
        record["gbps"] = 0.0 if record["role"] == "client" else None


def wrong_route(data: Data) -> None:
    for entry in healthy.entries(data, CABLE, "b"):
        if entry["interface"] == B1:
            entry.update(route_interface=A1, received=0, small_received=0)


def black_hole(data: Data) -> None:
    silence(data, CABLE)


def some_pings_lost(data: Data) -> None:
    for entry in healthy.entries(data, CABLE, "a"):
        entry["small_received"] = 2


def slow_rail(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a"):
        record["gbps"] = None if record["gbps"] is None else 0.6 * record["gbps"]


def a_little_slow(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a", "directed", "spark1"):
        record["gbps"] = None if record["gbps"] is None else 84.0


def slow_one_way(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a", "directed", "spark1"):
        record["gbps"] = None if record["gbps"] is None else 65.0


def half_rail(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a"):
        record["gbps"] = None if record["gbps"] is None else 0.5 * record["gbps"]


def degraded_nic(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a"):
        record["gbps"] = None if record["gbps"] is None else 13.2


def degraded_cable(data: Data) -> None:
    for record in healthy.records(data, CABLE, stage="bidirectional"):
        record["gbps"] = None if record["gbps"] is None else 119.0


def zero_row(data: Data) -> None:
    for record in healthy.records(data, CABLE, "b", "directed", "spark1"):
        record["gbps"] = None if record["gbps"] is None else 0.0


def hanging(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a"):
        record.update(status="timeout", gbps=None, message="no end within the deadline")


def retry_exceeded(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a", "bidirectional"):
        record.update(status="failed", gbps=None, error="transport_retry_exceeded", message="Failed status 12")


def voided(data: Data) -> None:
    healthy.records(data, CABLE, "a", "directed", "spark1")[0].update(status="void", message="the GID table of rocep1s0f0 changed")


def firewall(data: Data) -> None:
    for record in healthy.records(data):
        test = next(test for test in data["plan"]["tests"] if test["id"] == record["id"])
        if test["server"] == "spark2":
            client = record["role"] == "client"
            record.update(status="control_blocked" if client else "peer_absent", gbps=None, message="10.77.0.12:18500 does not answer" if client else "")


def did_not_come(data: Data) -> None:
    for record in healthy.records(data):
        test = next(test for test in data["plan"]["tests"] if test["id"] == record["id"])
        if "spark2" in (test["client"], test["server"]):
            me = test[record["role"]]
            record.update(status="not_run" if me == "spark2" else "peer_absent", gbps=None)


def too_fast(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a", "directed", "spark1"):
        record["gbps"] = None if record["gbps"] is None else 160.0


def small_rdma_mtu(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a"):
        record["rdma_mtu"] = 1024


def wrong_gid(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a", "directed", "spark1"):
        if record["role"] == "client":
            record["gid_ipv4"] = "192.168.99.1"


def not_a_number(data: Data) -> None:
    healthy.records(data, CABLE, "a", "directed", "spark1")[0].update(gbps=math.nan)


def no_figure(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a", "directed", "spark1"):
        record["gbps"] = None


def probe_without_result(data: Data) -> None:
    data["paths"]["spark1"] = [entry for entry in data["paths"]["spark1"] if entry["interface"] != A1]


def read_fails(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a", "read", "spark1"):
        record.update(status="failed", gbps=None, error="remote_access", message="Failed status 10")


def slow_reads(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a", "read"):
        record["gbps"] = None if record["gbps"] is None else 0.6 * record["gbps"]


def late(data: Data) -> None:
    for record in healthy.records(data, CABLE, "b", "write_latency"):
        record["latency_us"] = record["latency_us"] and {**record["latency_us"], "typical": 1.9, "p99": 2.1}


def uneven(data: Data) -> None:
    for record in healthy.records(data, CABLE, "b", "send_latency"):
        record["latency_us"] = record["latency_us"] and {**record["latency_us"], "p99": 7.3}


def no_latency(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a", "write_latency"):
        record["latency_us"] = None


def without_perftest(data: Data) -> None:
    for stage in (None, "read", "send", "write_latency", "send_latency"):
        for record in healthy.records(data, stage=stage):
            test = next(test for test in data["plan"]["tests"] + data["plan"]["further_tests"] if test["id"] == record["id"])
            if "spark2" in (test["client"], test["server"]):
                words = "ib_write_bw is not installed on spark2: install the package perftest there"
                me = test[record["role"]]
                record.update(status="failed", gbps=None, latency_us=None, error="tool_missing", message=words if me == "spark2" else f"spark2 says: {words}")


def bad_node(data: Data) -> None:
    """Rail a of spark1 is slow over both its cables, whatever they are."""
    for cable in (CABLE, "spark1:1-spark3:0"):
        for record in healthy.records(data, cable, "a"):
            record["gbps"] = None if record["gbps"] is None else 0.6 * record["gbps"]


def bad_receiver(data: Data) -> None:
    for test in data["plan"]["tests"]:
        if test["stage"] == "directed" and test["server"] == "spark1" and test["rail"] == "b":
            for result in data["perftest"].values():
                for record in result["tests"]:
                    if record["id"] == test["id"] and record["gbps"] is not None:
                        record["gbps"] = 60.0


def tcp_refused(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a", client="spark2", where="iperf3"):
        record.update(status="failed", gbps=None, error="fabric_tcp_refused", message="Connection refused")


def tcp_slow(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a", where="iperf3"):
        record["gbps"] = None if record["gbps"] is None else 0.7 * record["gbps"]


def tcp_small_packets(data: Data) -> None:
    for record in healthy.records(data, CABLE, "b", where="iperf3"):
        record["path_mtu_bytes"] = record["path_mtu_bytes"] and 1500


def tcp_twins_share(data: Data) -> None:
    for record in healthy.records(data, CABLE, where="iperf3"):
        test = next(test for test in data["plan"]["further_tests"] if test["id"] == record["id"])
        if test["with_twin"] and record["gbps"] is not None:
            record["gbps"] = 50.0
    for cable in data["plan"]["cables"]:  # all cables alike, so that none of them lags behind the others
        for record in healthy.records(data, cable["name"], where="iperf3") if cable["name"] != CABLE else []:
            test = next(test for test in data["plan"]["further_tests"] if test["id"] == record["id"])
            if test["with_twin"] and record["gbps"] is not None:
                record["gbps"] = 55.0


def tcp_lags(data: Data) -> None:
    for record in healthy.records(data, CABLE, where="iperf3"):
        test = next(test for test in data["plan"]["further_tests"] if test["id"] == record["id"])
        if test["with_twin"] and record["gbps"] is not None:
            record["gbps"] = 0.7 * record["gbps"]


def tcp_without_figure(data: Data) -> None:
    for record in healthy.records(data, CABLE, "a", where="iperf3"):
        record["gbps"] = None


def without_iperf3(data: Data) -> None:
    for record in healthy.records(data, where="iperf3"):
        test = next(test for test in data["plan"]["further_tests"] if test["id"] == record["id"])
        if "spark2" in (test["client"], test["server"]):
            words = "iperf3 is not installed on spark2: install the package iperf3 there"
            told = words if test[record["role"]] == "spark2" else f"spark2 says: {words}"
            record.update(status="failed", gbps=None, error="tool_missing", message=told)


# what breaks, the finding's id, layer, scope, subject, status, words that its message has
FAULTS: list[tuple[Callable[[Data], None], str, str, str, str, str, list[str]]] = [
    (cut, "link.carrier", "link", "cable", CABLE, "fail", [CABLE, "both rails", f"spark1 {A1}", f"spark2 {B2}"]),
    (cut_one_end, "link.carrier", "link", "cable", CABLE, "fail", [f"spark1 {A1}", f"spark1 {B1}"]),
    (twin_down, "link.one_twin", "link", "rail", f"{CABLE}/a", "fail", [f"spark1 {A1}", "rail a"]),
    (twin_down_both_ends, "link.one_twin", "link", "rail", f"{CABLE}/a", "fail", [f"spark1 {A1}, spark2 {A2}"]),
    (interface_gone, "link.interface", "link", "interface", f"spark1:{A1}", "fail", ["port 0, rail a"]),
    (set_down, "link.admin_up", "link", "interface", f"spark1:{A1}", "fail", ["switched off"]),
    (slow_link, "link.speed", "link", "interface", f"spark1:{A1}", "fail", ["100.0 Gb/s", "200.0"]),
    (no_rdma_device, "link.rdma_device", "link", "interface", f"spark2:{A2}", "fail", ["rocep1s0f1"]),
    (rdma_down, "link.rdma_state", "link", "interface", f"spark2:{A2}", "fail", ["DOWN", "ACTIVE"]),
    (bond, "link.enslaved", "link", "cable", CABLE, "fail", ["bond0", A2, B2]),
    (narrow_pcie, "pcie.width", "pcie", "node", "spark1", "fail", [B1, B2, "2 lanes instead of 4"]),
    (no_address, "address.present", "address", "interface", f"spark2:{A2}", "fail", ["192.168.177.12"]),
    (same_network, "address.shared_network", "address", "cable", CABLE, "fail", [A2, B2, "spark2"]),
    (duplicate, "address.duplicate", "address", "interface", f"spark2:{A2}", "fail", ["192.168.177.11", f"spark1 {A1}"]),
    (low_mtu, "address.mtu", "address", "interface", f"spark2:{A2}", "fail", ["1500", "9000"]),
    (no_gid, "address.gid", "address", "interface", f"spark1:{A1}", "fail", ["rocep1s0f0", "fe80::1"]),
    (gid_v1_only, "address.gid", "address", "interface", f"spark1:{A1}", "fail", ["v1"]),
    (mtu_hole, "path.mtu", "path", "cable", CABLE, "fail", ["9000", "1500", "both rails"]),
    (mtu_hole_one_way, "path.mtu", "path", "cable", CABLE, "fail", ["1500"]),
    (wrong_twin, "path.neighbour", "path", "cable", CABLE, "fail", [f"which is spark2 {B2}", f"which is spark2 {A2}"]),
    (wrong_route, "path.route", "path", "rail", f"{CABLE}/b", "fail", [f"leave by {A1}"]),
    (black_hole, "path.ping", "path", "cable", CABLE, "fail", ["spark1", "spark2"]),
    (some_pings_lost, "path.ping", "path", "rail", f"{CABLE}/a", "warn", ["66.7"]),
    (probe_without_result, "path.measured", "path", "rail", f"{CABLE}/a", "unknown", ["spark1"]),
    (slow_rail, "rdma.rail_bandwidth", "rdma", "rail", f"{CABLE}/a", "fail", ["58.2 of 98.0 Gb/s (59 %)"]),
    (a_little_slow, "rdma.rail_bandwidth", "rdma", "rail", f"{CABLE}/a", "warn", ["84.0"]),
    (slow_one_way, "rdma.rail_bandwidth", "rdma", "rail", f"{CABLE}/a", "fail", ["spark1 -> spark2"]),
    (half_rail, "rdma.half_rate", "rdma", "rail", f"{CABLE}/a", "fail", ["50 %"]),
    (degraded_nic, "rdma.degraded_nic", "rdma", "rail", f"{CABLE}/a", "fail", ["13.2"]),
    (degraded_cable, "rdma.degraded_cable", "rdma", "cable", CABLE, "fail", ["119.0 of 213.0"]),
    (zero_row, "rdma.zero", "rdma", "rail", f"{CABLE}/b", "fail", ["spark1 -> spark2 0.00"]),
    (hanging, "rdma.timeout", "rdma", "rail", f"{CABLE}/a", "fail", ["deadline"]),
    (retry_exceeded, "rdma.failed", "rdma", "rail", f"{CABLE}/a", "fail", ["transport_retry_exceeded"]),
    (voided, "rdma.void", "rdma", "rail", f"{CABLE}/a", "unknown", ["GID table"]),
    (firewall, "rdma.control_port", "rdma", "node", "spark2", "unknown", ["10.77.0.12:18500"]),
    (did_not_come, "rdma.peer_absent", "rdma", "node", "spark2", "unknown", ["spark2"]),
    (too_fast, "rdma.ceiling", "rdma", "rail", f"{CABLE}/a", "fail", ["160.0"]),
    (small_rdma_mtu, "rdma.mtu", "rdma", "rail", f"{CABLE}/a", "fail", ["1024", "4096"]),
    (wrong_gid, "rdma.gid", "rdma", "rail", f"{CABLE}/a", "fail", ["192.168.99.1", "192.168.177.11"]),
    (not_a_number, "rdma.implausible", "rdma", "rail", f"{CABLE}/a", "fail", ["nan"]),
    (no_figure, "rdma.measured", "rdma", "rail", f"{CABLE}/a", "unknown", ["no figure"]),
    (read_fails, "rdma.failed", "rdma", "rail", f"{CABLE}/a", "fail", ["spark1 <- spark2 read", "remote_access"]),
    (slow_reads, "rdma.read_bandwidth", "rdma", "rail", f"{CABLE}/a", "warn", ["read 58.2 of 98.0"]),
    (late, "rdma.latency", "rdma", "rail", f"{CABLE}/b", "warn", ["write typical 1.90 us", "99 of 100 take at most 1.57 us"]),
    (uneven, "rdma.jitter", "rdma", "rail", f"{CABLE}/b", "warn", ["send 99th percentile 7.30 us", "at most 2.40 us"]),
    (no_latency, "rdma.measured", "rdma", "rail", f"{CABLE}/a", "unknown", ["write latency", "no figure"]),
    (without_perftest, "rdma.tool", "rdma", "node", "spark2", "fail", ["package perftest"]),
    (bad_node, "rdma.node_fault", "rdma", "node", "spark1", "fail", ["all that spark1 sends and receives on rail a", "not its cables"]),
    (bad_receiver, "rdma.node_fault", "rdma", "node", "spark1", "fail", ["all that spark1 receives on rail b"]),
    (tcp_refused, "tcp.failed", "tcp", "rail", f"{CABLE}/a", "fail", ["Connection refused", "although RDMA works"]),
    (tcp_slow, "tcp.rail_bandwidth", "tcp", "rail", f"{CABLE}/a", "warn", ["74.8 of 109.0 Gb/s (69 %) with 8 streams"]),
    (tcp_small_packets, "tcp.mtu", "tcp", "rail", f"{CABLE}/b", "fail", ["1500", "9000"]),
    (tcp_lags, "tcp.dispersion", "tcp", "cluster", "spark", "warn", [CABLE]),
    (tcp_without_figure, "tcp.measured", "tcp", "rail", f"{CABLE}/a", "unknown", ["no figure"]),
    (without_iperf3, "tcp.tool", "tcp", "node", "spark2", "fail", ["package iperf3"]),
]


def troubles(report: Data) -> list[Data]:
    """Return what is neither pass nor skip."""
    return [finding for finding in report["findings"] if finding["status"] in ("fail", "unknown", "warn")]


@pytest.mark.parametrize(("topology", "count"), [("pair", 2), ("mesh", 3), ("ring", 4), ("ring", 5), ("switch", 2), ("switch", 5)])
def test_a_healthy_cluster_passes(topology: str, count: int) -> None:
    report = judge(run_of(topology, count))
    assert [finding for finding in report["findings"] if finding["status"] != "pass"] == []
    assert report["verdict"]["status"] == "pass"
    for cable in report["cables"]:
        assert cable["status"] == "pass"
        for rail in cable["rails"].values():
            assert rail["layer"] is None
            assert rail["measurements"], "every rail shows its figures"
            assert all(one["status"] == "pass" and one["evidence"]["command"] for one in rail["measurements"])


@pytest.mark.parametrize("fault", FAULTS, ids=[fault[0].__name__ for fault in FAULTS])
def test_one_fault_gives_one_finding(fault: Any) -> None:
    breaks, rule_id, layer, scope, subject, status, words = fault
    data = run_of()
    breaks(data)
    report = judge(data)
    found = troubles(report)
    assert [(one["id"], one["subject"]) for one in found] == [(rule_id, subject)]
    finding = found[0]
    assert (finding["layer"], finding["scope"], finding["status"]) == (layer, scope, status)
    for word in words:
        assert word in finding["message"], finding["message"]
    assert finding["cause"] and finding["fix"]
    assert "unknown" not in finding["message"] + finding["cause"] + finding["fix"], finding
    if scope in ("cable", "rail"):
        assert finding["cable"] == CABLE and set(finding["nodes"]) <= {"spark1", "spark2"}
    assert report["verdict"]["status"] == ("pass" if status == "warn" else "fail")


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault[3] in ("cable", "rail", "interface")], ids=lambda fault: fault[0].__name__)
def test_other_cables_keep_their_verdict(fault: Any) -> None:
    data = run_of()
    fault[0](data)
    report = judge(data)
    for cable in report["cables"]:
        for rail, row in cable["rails"].items():
            touched = cable["name"] == CABLE and (fault[3] == "cable" or f"/{rail}" in fault[4] or rail == _rail_of(fault[4]))
            assert row["status"] == (fault[5] if touched else "pass"), (cable["name"], rail, row)
            assert row["layer"] == (fault[2] if touched and fault[5] != "warn" else None)


def _rail_of(subject: str) -> str | None:
    interface = subject.rpartition(":")[2]
    return {"enp1": "a", "enP2": "b"}.get(interface[:4])


def test_what_stands_above_a_broken_layer_is_skipped_with_the_reason() -> None:
    data = run_of()
    mtu_hole(data)
    report = judge(data)
    above = [one for one in report["findings"] if one["cable"] == CABLE and one["layer"] == "rdma"]
    assert above and all(one["status"] == "skip" and "path.mtu" in one["message"] for one in above)
    row = next(cable for cable in report["cables"] if cable["name"] == CABLE)["rails"]["a"]
    assert row["layer"] == "path"
    assert {one["status"] for one in row["measurements"]} == {"skip"}


def test_an_unreachable_node_fails_once_and_its_cables_are_unknown() -> None:
    data = run_of()
    data["nodes"]["spark2"] = None
    data["unreachable"]["spark2"] = "Failed to connect to the host via ssh"
    del data["paths"]["spark2"], data["perftest"]["spark2"]
    for record in healthy.records(data, CABLE) + healthy.records(data, "spark2:0-spark3:1"):
        record.update(status="peer_absent", gbps=None)
    unplug(data, "spark1", A1)
    report = judge(data)
    assert [(one["id"], one["subject"], one["status"]) for one in troubles(report)] == [
        ("node.reachable", "spark2", "fail"),
        ("node.not_measured", CABLE, "unknown"),
        ("node.not_measured", "spark2:0-spark3:1", "unknown"),
    ]
    status = {cable["name"]: cable["status"] for cable in report["cables"]}
    assert status == {CABLE: "unknown", "spark1:1-spark3:0": "pass", "spark2:0-spark3:1": "unknown"}
    assert "spark2 did not answer" in report["cables"][0]["rails"]["a"]["message"]
    assert report["verdict"]["status"] == "fail"


@pytest.mark.parametrize("how", ["fabric_lost", "job", "silent"])
def test_a_node_lost_in_mid_run_keeps_the_other_cables_results(how: str) -> None:
    data = run_of()
    if how == "fabric_lost":
        data["unreachable"]["spark3"] = "no answer for 60 s"
    elif how == "job":
        data["perftest"]["spark3"].update(status="lost", message="no answer for 60 s")
    for record in data["perftest"]["spark3"]["tests"][4:]:
        record.update(status="not_run", gbps=None)
    if how == "silent":
        del data["perftest"]["spark3"]
    report = judge(data)
    assert [(one["id"], one["subject"]) for one in troubles(report)] == [
        ("node.lost", "spark3"),
        ("node.not_measured", "spark1:1-spark3:0"),
        ("node.not_measured", "spark2:0-spark3:1"),
    ]
    assert ("while other nodes measured" if how == "silent" else "no answer for 60 s") in troubles(report)[0]["message"]
    assert report["cables"][0]["status"] == "pass"


def test_a_dead_node_on_a_switch_leaves_the_others_their_verdict() -> None:
    data = run_of("switch", 5)
    data["nodes"]["spark2"] = None
    del data["paths"]["spark2"], data["perftest"]["spark2"]
    report = judge(data)
    assert [(one["id"], one["subject"]) for one in troubles(report)] == [("node.reachable", "spark2"), ("node.not_measured", "spark2:1-switch")]
    assert {cable["name"] for cable in report["cables"] if cable["status"] == "pass"} == {f"spark{number}:1-switch" for number in (1, 3, 4, 5)}


@pytest.mark.parametrize("status", ["refused_busy", "not_started"])
def test_a_node_that_does_not_measure_makes_its_rails_unknown_in_layer_rdma(status: str) -> None:
    data = run_of()
    data["perftest"]["spark2"] = {"run": "n1", "node": "spark2", "status": status, "message": "vllm (process 4711) holds a queue pair", "tests": []}
    for record in healthy.records(data, CABLE) + healthy.records(data, "spark2:0-spark3:1"):
        record.update(status="peer_absent", gbps=None)
    report = judge(data)
    wanted = "node.busy" if status == "refused_busy" else "node.measuring"
    assert [(one["id"], one["subject"]) for one in troubles(report)] == [
        (wanted, "spark2"),
        ("rdma.measured", CABLE),
        ("rdma.measured", "spark2:0-spark3:1"),
    ]
    assert "4711" in troubles(report)[0]["message"]
    assert report["cables"][0]["rails"]["a"]["layer"] == "rdma"


def test_other_programs_beside_the_test_are_a_warning() -> None:
    data = run_of("pair", 2)
    data["nodes"]["spark1"]["busy"] = [{"pid": 7, "command": "vllm", "device": "rocep1s0f1", "what": "rdma queue pair"}]
    found = troubles(judge(data))
    assert [(one["id"], one["status"]) for one in found] == [("node.other_load", "warn")]
    assert "vllm (process 7)" in found[0]["message"]


def test_nothing_measured_is_no_green_light() -> None:
    data = run_of()
    data["perftest"] = {}
    report = judge(data)
    assert report["verdict"]["status"] == "fail"
    assert {one["id"] for one in troubles(report)} == {"node.measuring", "rdma.measured"}
    assert all(cable["status"] == "unknown" for cable in report["cables"])


def test_without_probes_the_path_is_unknown() -> None:
    data = run_of("pair", 2)
    data["paths"] = {}
    report = judge(data)
    assert [(one["id"], one["status"], one["scope"]) for one in troubles(report)] == [("path.measured", "unknown", "cable")]


def test_hosts_outside_limit_are_not_tested_and_never_failed() -> None:
    data = run_of()
    data["not_tested"] = ["spark3"]
    data["nodes"].pop("spark3")
    for part in ("paths", "perftest"):
        data[part].pop("spark3")
    unplug(data, "spark1", A2)  # spark3 is off, so spark1's port to it has no link
    unplug(data, "spark1", B2)
    report = judge(data)
    assert troubles(report) == []
    assert report["verdict"]["status"] == "pass"
    assert {cable["name"]: cable["status"] for cable in report["cables"]} == {CABLE: "pass", "spark1:1-spark3:0": "skip", "spark2:0-spark3:1": "skip"}
    skipped = [one for one in report["findings"] if one["status"] == "skip"]
    assert {one["subject"] for one in skipped} == {"spark3", "spark1:1-spark3:0", "spark2:0-spark3:1"}
    assert all("spark3 is outside --limit" in one["message"] for one in skipped)


def test_limit_on_a_switch_leaves_one_node_without_a_partner() -> None:
    data = run_of("switch", 3)
    data["not_tested"] = ["spark2", "spark3"]
    for part in ("nodes", "paths", "perftest"):
        for node in data["not_tested"]:
            data[part].pop(node)
    report = judge(data)
    assert troubles(report) == []
    assert report["cables"][0]["status"] == "skip"
    assert "spark2 is outside --limit" in report["cables"][0]["rails"]["a"]["message"]


def check_run(**variables: Any) -> Data:
    data = run_of(**variables)
    data.update(mode="check", paths={}, perftest={})
    return data


def test_check_mode_skips_what_it_does_not_measure() -> None:
    report = judge(check_run())
    assert troubles(report) == []
    assert report["verdict"]["status"] == "pass"
    assert all(cable["status"] == "pass" for cable in report["cables"])
    skipped = [one for one in report["findings"] if one["status"] == "skip"]
    unmeasured = ("path.measured", "rdma.measured", "tcp.measured")
    assert {(one["id"], one["message"]) for one in skipped} == {(rule_id, "not measured in check mode") for rule_id in unmeasured}


@pytest.mark.parametrize(("strict", "wanted"), [(True, "fail"), (False, "pass")])
def test_drift_fails_check_mode_when_the_inventory_says_so(strict: bool, wanted: str) -> None:
    data = check_run(fabric_drift_fails=strict)
    live(data, "spark1", A1)["mtu"] = 1500
    data["drift"] = [{"host": "spark1", "subject": A1, "key": "mtu", "wanted": 9000, "live": 1500, "message": "MTU 1500, wanted 9000"}]
    report = judge(data)
    assert [one["id"] for one in troubles(report)] == ["address.mtu"]
    assert report["verdict"]["status"] == wanted


@pytest.mark.parametrize(("strict", "wanted"), [(True, "fail"), (False, "pass")])
def test_a_bond_is_for_provisioning_to_take_apart(strict: bool, wanted: str) -> None:
    data = check_run(fabric_drift_fails=strict)
    bond(data)
    report = judge(data)
    assert [one["id"] for one in troubles(report)] == ["link.enslaved"]
    assert report["verdict"]["status"] == wanted


def test_a_dead_node_fails_check_mode_whatever_drift_may_do() -> None:
    data = check_run(fabric_drift_fails=False)
    data["nodes"]["spark2"] = None
    assert judge(data)["verdict"]["status"] == "fail"


def test_fail_on_warn_makes_a_warning_count() -> None:
    data = run_of(fabric_fail_on="warn")
    a_little_slow(data)
    assert judge(data)["verdict"]["status"] == "fail"


def test_a_link_of_100_is_fine_when_the_plan_says_so() -> None:
    report = judge(run_of("pair", 2, fabric_link_gbps=100))
    assert troubles(report) == []


def test_limits_can_be_lowered() -> None:
    data = run_of(fabric_rules=[{"id": "rdma.rail_bandwidth", "warn": 40, "fail": 40}, {"id": "rdma.rail_bidirectional", "warn": 40, "fail": 40},
                                {"id": "rdma.cable_bandwidth", "warn": 40, "fail": 40}])
    slow_rail(data)
    report = judge(data)
    assert [(one["id"], one["status"]) for one in troubles(report)] == [("rdma.outlier", "warn")]  # it still stands apart from the others
    assert report["verdict"]["status"] == "pass"


def test_what_the_kernel_does_not_tell_of_pcie_is_not_judged() -> None:
    data = run_of()
    for node in data["nodes"].values():
        for facts in node["interfaces"].values():
            facts["pcie"] = None
    report = judge(data)
    assert troubles(report) == []
    assert {one["status"] for one in report["findings"] if one["id"] in ("pcie.width", "pcie.speed")} == {"skip"}


def test_missing_arp_settings_warn_and_hide_nothing() -> None:
    data = run_of()
    for node in data["nodes"].values():
        for facts in node["interfaces"].values():
            facts["arp_ignore"] = 0
    report = judge(data)
    assert {(one["id"], one["status"], one["scope"]) for one in troubles(report)} == {("address.arp", "warn", "cable")}
    assert report["verdict"]["status"] == "pass"


@pytest.mark.parametrize(("count", "breaks", "rule_id", "subject"), [
    (5, "sends", "rdma.rail_bandwidth", "spark3:1-switch/a"),
    (5, "both", "rdma.rail_bandwidth", "spark3:1-switch/a"),
    (4, "mtu", "path.mtu", "spark3:1-switch"),
    (2, "sends", "rdma.rail_bandwidth", "spark2:1-switch/a"),
])
def test_on_a_switch_the_cable_that_explains_most_is_blamed(count: int, breaks: str, rule_id: str, subject: str) -> None:
    data = run_of("switch", count)
    node = subject.partition(":")[0]
    cable = f"{node}:1-switch"
    if breaks == "mtu":
        silence(data, cable, small=3, largest=1500)
    else:
        for record in healthy.records(data, cable, "a", client=node if breaks == "sends" else None):
            record["gbps"] = None if record["gbps"] is None else 0.6 * record["gbps"]
    report = judge(data)
    assert [(one["id"], one["subject"]) for one in troubles(report)] == [(rule_id, subject)]
    assert {row["name"]: row["status"] for row in report["cables"] if row["status"] not in ("pass", "skip")} == {cable: "fail"}


def test_two_bad_cables_on_a_switch_are_both_named() -> None:
    data = run_of("switch", 6)
    for node in ("spark2", "spark5"):
        for record in healthy.records(data, f"{node}:1-switch", "b"):
            record["gbps"] = None if record["gbps"] is None else 0.3 * record["gbps"]
    assert [one["subject"] for one in troubles(judge(data))] == ["spark2:1-switch/b", "spark5:1-switch/b"]


def load(data: Data, share: float) -> None:
    """Let the counters of every sender say that its device moved a share of what its test reports."""
    for record in healthy.records(data):
        if record["role"] == "client":
            record["counters"] = {"tx_bytes": 4000, "port_xmit_data": int(share * record["size_bytes"] * record["iterations"] / 4)}


def scale(data: Data, factor: float, **which: Any) -> None:
    for record in healthy.records(data, **which):
        record["gbps"] = None if record["gbps"] is None else factor * record["gbps"]


@pytest.mark.parametrize(("topology", "count"), [("mesh", 3), ("ring", 4), ("switch", 6)])
@pytest.mark.parametrize(("factor", "shares", "rule_id", "status", "words"), [
    (0.5, 1.02, "rdma.common_ceiling", "fail", ["a common ceiling, not a bad cable", "both rails of each loaded"]),
    (0.85, 1.02, "rdma.common_ceiling", "warn", ["a common ceiling, not a bad cable"]),
    (0.5, None, "rdma.all_low", "fail", ["cannot be said", "do not tell whether both rails"]),
    (0.5, 0.0, "rdma.one_rail_of_two", "fail", ["one rail of two", "carry nothing"]),
    (0.65, 0.0, "rdma.all_low", "fail", ["cannot be said"]),
])
def test_all_cables_equally_low_is_one_finding_with_the_right_reason(
    topology: str, count: int, factor: float, shares: float | None, rule_id: str, status: str, words: list[str]
) -> None:
    data = run_of(topology, count)
    scale(data, factor)
    if shares is not None:
        load(data, shares)
    report = judge(data)
    found = troubles(report)
    assert [(one["id"], one["scope"], one["status"]) for one in found] == [(rule_id, "cluster", status)]
    text = (found[0]["message"] + found[0]["cause"]).lower()
    assert [word for word in words if word not in text] == []
    assert ("not a bad cable" in text) == (rule_id == "rdma.common_ceiling")
    assert {row["layer"] for cable in report["cables"] for row in cable["rails"].values()} == {"rdma" if status == "fail" else None}


def test_a_pair_of_rails_without_addresses_is_one_rail_of_two() -> None:
    """The field's ring: two of four interfaces had no address, and every edge reached 51.4 % of a cable."""
    data = run_of("ring", 4)
    plan = data["plan"]
    healthy.take_addresses(plan, "b")
    plan["tests"] = [{**test, "expected_gbps": 196.1} for test in plan["tests"]]
    data = healthy.healthy_run(plan)
    for record in healthy.records(data):
        record["gbps"] = None if record["gbps"] is None else 0.514 * 196.1
    plan["shape"] = "pair"  # where such a rail is a warning, so that what stands above it is judged
    found = [one for one in troubles(judge(data)) if one["layer"] == "rdma"]
    assert [one["id"] for one in found] == ["rdma.one_rail_of_two"]
    assert "51.4 %" in found[0]["message"] and "spark1:0-spark2:1 rail b" in found[0]["message"]


def test_a_bad_cable_among_low_ones_keeps_its_own_finding() -> None:
    data = run_of("ring", 6)
    scale(data, 0.5)
    load(data, 1.0)
    cut(data)
    assert {one["id"] for one in troubles(judge(data))} == {"link.carrier", "rdma.common_ceiling"}


@pytest.mark.parametrize(("topology", "count", "cable"), [("ring", 6, "spark3:0-spark4:1"), ("switch", 6, "spark3:1-switch")])
@pytest.mark.parametrize("stage", ["directed", "bidirectional"])
def test_a_rail_that_stands_apart_is_a_warning_though_within_its_limits(topology: str, count: int, cable: str, stage: str) -> None:
    data = run_of(topology, count)
    scale(data, 0.925, cable=cable, rail="a", stage=stage)
    report = judge(data)
    found = troubles(report)
    assert [(one["id"], one["subject"], one["status"]) for one in found] == [("rdma.outlier", f"{cable}/a", "warn")]
    assert "the median of" in found[0]["message"] and "99.0 % of expected" in found[0]["message"]
    assert report["verdict"]["status"] == "pass"


def test_scattered_figures_have_no_outlier_and_few_are_not_compared() -> None:
    data = run_of("ring", 6)
    for place, record in enumerate(healthy.records(data, stage="directed")):
        record["gbps"] = None if record["gbps"] is None else record["gbps"] * (0.93 + 0.011 * (place % 7))
    assert troubles(judge(data)) == []
    data = run_of("pair", 2)
    scale(data, 0.93, rail="a", stage="directed", client="spark1")
    assert troubles(judge(data)) == []


@pytest.mark.parametrize(("interface", "words"), [
    ("enP7s7", None), (None, None), ("enp1s0f0np0", "spark3 192.168.187.13 by enp1s0f0np0 through 192.168.177.12"),
])
def test_diagonals_of_a_ring_are_not_reached_over_the_fabric(interface: str | None, words: str | None) -> None:
    data = run_of("ring", 4)
    data["paths"]["spark1"].append({"kind": "far", "interface": None, "peer_node": "spark3", "peer_interface": None, "peer_address": "192.168.187.13",
                                    "route_interface": interface, "gateway": "192.168.177.12"})
    report = judge(data)
    found = [one for one in report["findings"] if one["id"] == "path.far"]
    assert [one["status"] for one in found] == ["warn" if words else "pass"] and report["verdict"]["status"] == "pass"
    assert words is None or words in found[0]["message"]


def test_twins_that_share_what_limits_them_are_named() -> None:
    data = run_of()
    tcp_twins_share(data)
    assert [(one["id"], one["subject"], one["status"]) for one in troubles(judge(data))] == [("tcp.no_gain", CABLE, "warn")]


def test_a_run_without_tcp_says_so_and_passes() -> None:
    report = judge(run_of("mesh", 3, fabric_iperf3_streams=[]))
    assert troubles(report) == []
    assert {one["message"] for one in report["findings"] if one["id"] == "tcp.measured"} == {
        "the plan has no TCP test for this rail: fabric_iperf3_streams is empty"}


def test_one_thread_is_told_with_a_slow_figure() -> None:
    data = run_of()
    tcp_slow(data)
    for record in healthy.records(data, CABLE, "a", where="iperf3"):
        record["version"] = "3.12"
    (finding,) = troubles(judge(data))
    assert "iperf3 3.12 serves in one thread" in finding["message"]


def test_a_direction_is_named_with_what_speaks_for_its_ends() -> None:
    data = run_of()
    slow_one_way(data)
    (finding,) = troubles(judge(data))
    assert "only spark1 -> spark2 falls short, the way back does not; spark1 sends well over its other cable; spark2 receives well" in finding["message"]


def test_judging_again_gives_the_same_findings() -> None:
    data = run_of()
    cut(data)
    report = judge(data)
    again = judge({name: report[name] for name in (*INPUTS, *OPTIONAL_INPUTS)})
    assert again == report


def test_input_is_left_as_it_was() -> None:
    data = run_of()
    before = copy.deepcopy(data)
    judge(data)
    assert data == before


@pytest.mark.parametrize(("change", "words"), [
    ({"mode": "guess"}, "mode is 'guess'"),
    ({"plan": None}, "plan is empty"),
    ({"plan": {"rules": [{"id": "x"}], "cables": [], "nodes": {}}}, "rule x: field layer is missing"),
])
def test_bad_input_is_refused_with_the_reason(change: Data, words: str) -> None:
    with pytest.raises(FabricError, match=words):
        judge({**run_of("pair", 2), **change})


def test_an_incomplete_input_names_what_it_lacks() -> None:
    with pytest.raises(FabricError, match="the input lacks plan, nodes"):
        judge({})


def test_64_nodes_are_judged_within_seconds() -> None:
    data = run_of("switch", 64, fabric_switch_pairs="all")
    started = time.process_time()
    report = judge(data)
    assert report["verdict"]["status"] == "pass"
    assert time.process_time() - started < 10
