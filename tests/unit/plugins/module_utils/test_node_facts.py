# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pathlib

import pytest
from ansible_collections.dgxspark.fabric.plugins.module_utils import ethtool_ioctl, iproute, management, node_facts, rdma, sysfs, tool_versions, verbs_mtu
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import NOT_FOUND, Completed
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils import spark_root

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "node"


def fixture(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def answering(answers: dict[str, str]):
    """Return a runner that answers commands by their words, and lacks all other programs."""

    def run(argv, timeout=20.0):
        text = " ".join(argv)
        for words, out in answers.items():
            if text.startswith(words):
                return Completed(tuple(argv), 0, out, "")
        return Completed(tuple(argv), NOT_FOUND, "", f"{argv[0]} is not installed")

    return run


IP = {"ip -j addr": "ip-addr.json", "ip -j -4 route": "ip-route.json", "ip -j neigh": "ip-neigh.json"}


@pytest.fixture(params=["mlx5", "rxe"])
def layout(request):
    return request.param


@pytest.fixture
def root(tmp_path, layout):
    return spark_root.spark(tmp_path, layout)


def test_a_node_in_one_go(root, layout):
    node = node_facts.gather(answering({words: fixture(name) for words, name in IP.items()}), str(root), use_ssh=False, peers=["10.77.0.12"])
    assert sorted(node["interfaces"]) == ["docker0", "enP2p1s0f0np0", "enP2p1s0f1np1", "enP7s7", "enp1s0f0np0", "enp1s0f1np1"]
    rail = node["interfaces"]["enP2p1s0f1np1"]
    assert rail["pci_address"] == "0002:01:00.1"
    assert rail["pcie"] == {"width": 4, "speed_gts": 32.0, "max_width": 4, "max_speed_gts": 32.0}
    assert rail["driver"] == ("mlx5_core" if layout == "mlx5" else "virtio_net")
    assert rail["phys_port_name"] == ("p1" if layout == "mlx5" else None)
    assert rail["rdma_device"] == "roceP2p1s0f1"
    assert (rail["mtu"], rail["speed_mbps"], rail["carrier"], rail["admin_up"]) == (9000, 200000, True, True)
    assert (rail["arp_ignore"], rail["arp_announce"]) == (1, 2)
    assert node["interfaces"]["docker0"]["kind"] == "bridge"
    device = node["rdma_devices"]["rocep1s0f0"]
    assert (device["netdev"], device["state"], device["rate_gbps"]) == ("enp1s0f0np0", "ACTIVE", 200.0)
    assert [gid["index"] for gid in device["gids"] if gid["ipv4"] and gid["type"] == "RoCE v2"] == ([3] if layout == "mlx5" else [1])
    assert device["counters"] == {"out_of_sequence": 3, "port_rcv_data": 77}
    assert rail["firmware"] == ("28.45.4028" if layout == "mlx5" else None)
    assert node["management"] == {"interface": "enP7s7", "address": "10.77.0.11", "prefix": 24, "source": "peers"}
    assert node["os"] == {"id": "ubuntu", "version": "24.04", "pretty": "Ubuntu 24.04.3 LTS"}
    assert node["memory"]["total_bytes"] == 128_000_000_000
    assert node["tools"]["perftest"] is None and "package perftest" in node["unavailable"]["perftest"]


def test_a_node_without_any_tool_is_still_described(root):
    node = node_facts.gather(answering({}), str(root), use_ssh=False)
    assert node["interfaces"]["enp1s0f0np0"]["mtu"] == 9000
    assert node["interfaces"]["enp1s0f0np0"]["addresses"] == []
    assert node["management"] is None
    assert "package iproute2" in node["unavailable"]["ip"]


def test_a_degraded_or_unknown_pcie_link(tmp_path):
    spark_root.add_interface(tmp_path, "enp1s0f0np0", 2)
    function = spark_root.add_function(tmp_path, "enp1s0f0np0", "0000:01:00.0", width=2)
    assert sysfs.pcie(function)["width"] == 2
    assert sysfs.parse_link_speed("Unknown") is None and sysfs.parse_link_width("255") is None
    assert sysfs.pcie(None) is None


def test_a_disabled_interface_has_no_carrier_value(tmp_path):
    spark_root.add_interface(tmp_path, "enp1s0f0np0", 2, carrier=None, flags="0x1002")
    entry = sysfs.read_interface(sysfs.Tree(tmp_path), "enp1s0f0np0")
    assert entry["carrier"] is None and entry["admin_up"] is False


def test_who_renders(tmp_path):
    for name, index in (("one", 2), ("two", 3), ("three", 4)):
        spark_root.add_interface(tmp_path, name, index)
    spark_root.put(tmp_path, "run/systemd/netif/links/2", "ADMIN_STATE=configured\nOPER_STATE=routable")
    spark_root.put(tmp_path, "run/systemd/netif/links/3", "ADMIN_STATE=unmanaged")
    spark_root.put(tmp_path, "run/NetworkManager/devices/3", "[device]\nmanaged=true\nconnection-uuid=05ec54af")
    tree = sysfs.Tree(tmp_path)
    assert [sysfs.renderer(tree, name) for name in ("one", "two", "three")] == ["networkd", "NetworkManager", None]


def test_gid_table_stops_after_a_long_empty_run(tmp_path):
    spark_root.add_rdma(tmp_path, "rocep1s0f0", "x", {0: ("fe80::1", "RoCE v2"), 90: ("fe80::2", "RoCE v2")}, entries=100)
    assert [gid["index"] for gid in rdma.read_gids(sysfs.Tree(tmp_path), "rocep1s0f0")] == [0]


@pytest.mark.parametrize(("gid", "address"), [
    ("0000:0000:0000:0000:0000:ffff:c0a8:b10b", "192.168.177.11"),
    ("fe80:0000:0000:0000:0200:00ff:fe00:0001", None),
    ("nonsense", None),
])
def test_ipv4_of_gid(gid, address):
    assert rdma.ipv4_of_gid(gid) == address


def test_ip_output():
    addresses = iproute.parse_addresses('[{}, {"ifname":"a@b","addr_info":[{"family":"inet","local":"192.0.2.1","prefixlen":24},{"family":"inet6"}]}]')
    assert addresses == {"a": {"inet": ["192.0.2.1/24"], "inet6": []}}
    routes = iproute.parse_routes('[{"dst":"default","nexthops":[{"dev":"x","gateway":"192.0.2.9"},{"dev":"y"}],"metric":5},'
                                  '{"type":"local","dst":"192.0.2.1","dev":"x"},{"dst":"198.51.100.7","dev":"wg0"}]')
    assert [(route["dst"], route["dev"], route["metric"]) for route in routes] == [("default", "x", 5), ("default", "y", 5), ("198.51.100.7/32", "wg0", None)]
    # iproute2 6.1 leaves "dev" out when the command named it.
    assert iproute.parse_neighbours('[{"dst":"10.20.0.12","lladdr":"02:00:00:00:00:12","state":["REACHABLE"]}]') == [
        {"address": "10.20.0.12", "interface": None, "mac": "02:00:00:00:00:12", "state": "REACHABLE"}]
    with pytest.raises(iproute.IprouteError, match="expected a JSON list"):
        iproute.parse_addresses("Object \"addr\" is unknown")


def test_only_programs_hold_queue_pairs():
    text = ('[{"ifname":"rocep1s0f0","port":1,"lqpn":1,"type":"GSI","comm":"ib_core"},'
            '{"ifname":"rocep1s0f0","port":1,"lqpn":17,"type":"RC","pid":4711,"comm":"ib_write_bw"},'
            '{"ifname":"rocep1s0f0","port":1,"lqpn":18,"type":"RC","pid":4711,"comm":"ib_write_bw"}]')
    assert iproute.parse_queue_pairs(text) == [{"pid": 4711, "command": "ib_write_bw", "device": "rocep1s0f0", "what": "rdma queue pair"}]


ADDRESSES = {"enP7s7": ["10.77.0.11/24"], "wlP9s9": ["192.168.0.20/24"], "enp1s0f0np0": ["192.168.177.11/24"]}
ROUTES = [{"dst": "default", "dev": "wlP9s9", "metric": 600}, {"dst": "default", "dev": "enP7s7", "metric": 100}]


@pytest.mark.parametrize(("arguments", "interface", "source"), [
    ({"interface": "wlP9s9", "address": "10.77.0.11"}, "wlP9s9", "configured"),
    ({"address": "10.77.0.11", "ssh_address": "192.168.0.20"}, "enP7s7", "address"),
    ({"address": "spark1.example.org", "ssh_address": "192.168.0.20"}, "wlP9s9", "ssh"),
    ({"address": "203.0.113.5", "peers": ["spark2", "192.168.0.21"]}, "wlP9s9", "peers"),
    ({}, "enP7s7", "default_route"),
])
def test_management(arguments, interface, source):
    found = management.find_management(ADDRESSES, ROUTES, **arguments)
    assert found is not None and (found["interface"], found["source"]) == (interface, source)


def test_ssh_connection_of_an_ancestor(tmp_path):
    for pid, parent, environment in ((300, 200, "PATH=/bin"), (200, 100, "HOME=/root"), (100, 1, "SSH_CONNECTION=10.77.0.1 51234 ::ffff:10.77.0.11 22\0A=b")):
        spark_root.put(tmp_path, f"proc/{pid}/stat", f"{pid} (sh) x) S {parent} 1 1")
        spark_root.put(tmp_path, f"proc/{pid}/environ", environment)
    assert management.ssh_server_address(sysfs.Tree(tmp_path), 300) == "10.77.0.11"
    assert management.ssh_server_address(sysfs.Tree(tmp_path), 1) is None


def test_versions():
    run = answering({"dpkg-query": "iproute2 6.1.0-1ubuntu6\nnetplan.io 1:1.1.2-7+b1\nethtool \n", "ib_write_bw": "Version: 6.24\n",
                     "iperf3": "iperf 3.16 (cJSON 1.7.15)\n", "ldconfig": "\tlibnccl.so.2 (libc6,AArch64) => /usr/lib/libnccl.so.2\n"})
    versions, missing = tool_versions.find_versions(run, lambda path: path + ".30.7")
    assert versions == {"perftest": "6.24", "iproute2": "6.1.0", "ethtool": None, "iperf3": "3.16", "netplan": "1.1.2", "nccl": "2.30.7"}
    assert list(missing) == ["ethtool"]


def test_ethtool_structure():
    raw = ethtool_ioctl.DRVINFO.pack(3, b"mlx5_core", b"6.17", b"28.45.4028 (NVD1)", b"0000:01:00.0", b"", b"", 0, 1500, 0, 0, 0)
    assert ethtool_ioctl.parse_driver_info(raw) == {"driver": "mlx5_core", "firmware": "28.45.4028 (NVD1)", "bus": "0000:01:00.0", "counters": 1500}


def test_devinfo_text():
    text = "hca_id:\trocep1s0f0\n\t\tport:\t1\n\t\t\tactive_mtu:\t\t4096 (5)\nhca_id:\trocep1s0f1\n\t\t\tactive_mtu:\t\t1024 (3)\n"
    assert verbs_mtu.parse_devinfo(text) == {"rocep1s0f0": 4096, "rocep1s0f1": 1024}
