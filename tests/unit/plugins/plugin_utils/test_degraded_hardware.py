# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hardware that a virtual machine does not have: constructed sysfs trees go through the reader of facts and the rules that judge them."""

from __future__ import annotations

import json
import pathlib
import shutil
from typing import Any, Callable

import pytest

from ansible_collections.dgxspark.fabric.plugins.module_utils import fabric_traffic, node_facts
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import NOT_FOUND, Completed
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.busy_cluster import without_measuring
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_parity import difference_text, differences
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.judge import judge
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils import spark_root
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy

A0, B0, A1, B1 = "enp1s0f0np0", "enP2p1s0f0np0", "enp1s0f1np1", "enP2p1s0f1np1"
KERNEL_LOG = "Nov 02 08:01:20 n1 kernel: pcieport 0002:00:00.0: AER: Uncorrectable (Fatal) error message received from 0002:00:00.0\n"

Root = pathlib.Path


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fabric_traffic, "INTERVAL", 0.0)


Commands = dict[str, Completed]


def runner(root: Root, plan: dict[str, Any], node: str, answers: Commands, asked: list[str]) -> Callable[..., Completed]:
    """Return a runner of the programs of a node that is as its plan has it."""
    addresses = [{"ifname": name, "addr_info": [{"family": "inet", "local": planned["address"], "prefixlen": planned["prefix"]}]}
                 for name, planned in plan["nodes"][node]["interfaces"].items()]
    known = {"ip -j addr": Completed((), 0, json.dumps(addresses), ""), "ip -j": Completed((), 0, "[]", ""), "rdma -j": Completed((), 0, "[]", ""),
             "ib_write_bw": Completed((), 1, "Version: 6.24\n", ""), "dcb -j pfc": Completed((), 0, '{"prio-pfc":[false,false,false,false]}', ""),
             "dcb -j apptrust": Completed((), 0, '{"order":["pcp"]}', ""), "journalctl": Completed((), 1, "", ""), **answers}

    def run(argv, timeout=20.0):
        text = " ".join(argv)
        asked.append(text)
        for words in sorted(known, key=len, reverse=True):
            if text.startswith(words):
                return known[words]
        return Completed(tuple(argv), NOT_FOUND, "", f"{argv[0]} is not installed")

    return run


def spark(folder: Root, plan: dict[str, Any], node: str) -> Root:
    """Build the tree of a healthy node."""
    root = spark_root.spark(folder / node)
    shutil.rmtree(root / "sys/class/infiniband")
    for name, planned in plan["nodes"][node]["interfaces"].items():
        spark_root.put(root, f"sys/class/net/{name}/address", healthy.mac(node, name, plan))
        gids = {3: (spark_root.mapped(planned["address"]), "RoCE v2"), 2: (spark_root.mapped(planned["address"]), "IB/RoCE v1")}
        spark_root.add_rdma(root, planned["rdma_device"], name, gids, function=root / f"sys/devices/pci{planned['pci_address'][:7]}/{planned['pci_address']}")
        for role in ("roce_np", "roce_rp"):
            for priority in range(8):
                spark_root.put(root, f"sys/class/net/{name}/ecn/{role}/enable/{priority}", 0)
    spark_root.put(root, "etc/dgx-release", 'DGX_PRETTY_NAME="NVIDIA DGX Spark"\nDGX_OTA_VERSION="7.5.0"')
    spark_root.put(root, "sys/class/dmi/id/bios_version", "5.36_0ACUM023")
    return root


def set_firmware(root: Root, version: str) -> None:
    for device in (root / "sys/class/infiniband").iterdir():
        spark_root.put(root, f"sys/class/infiniband/{device.name}/fw_ver", version)


def narrow(root: Root, _answers: Commands) -> None:
    for pci in ("0002:01:00.0", "0002:01:00.1"):
        spark_root.put(root, f"sys/devices/pci0002:01/{pci}/current_link_width", 2)


def slow(root: Root, _answers: Commands) -> None:
    spark_root.put(root, "sys/devices/pci0000:01/0000:01:00.0/current_link_speed", "16.0 GT/s PCIe")


def fatal_error(root: Root, _answers: Commands) -> None:
    spark_root.put(root, "sys/devices/pci0000:01/0000:01:00.1/aer_dev_fatal", "DLP 2\nTOTAL_ERR_FATAL 2")


def fatal_in_the_log(_root: Root, answers: Commands) -> None:
    answers["journalctl"] = Completed((), 0, KERNEL_LOG, "")


def crc(root: Root, _answers: Commands) -> None:
    spark_root.put(root, f"sys/class/net/{A0}/statistics/rx_crc_errors", 1234)


def port_names(root: Root, _answers: Commands) -> None:
    for name in (A0, B0):
        spark_root.put(root, f"sys/class/net/{name}/phys_port_name", "p1")


def functions_gone(root: Root, _answers: Commands) -> None:
    for name in (A0, B0):
        shutil.rmtree(root / f"sys/class/net/{name}")
    for pci, device in (("0000:01:00.0", "rocep1s0f0"), ("0002:01:00.0", "roceP2p1s0f0")):
        (root / f"sys/bus/pci/devices/{pci}").unlink()
        shutil.rmtree(root / f"sys/class/infiniband/{device}")
    spark_root.put(root, "etc/nvidia/cx7-hotplug-enabled", "")


def other_firmware(root: Root, _answers: Commands) -> None:
    set_firmware(root, "28.43.1014")


def other_kernel(root: Root, _answers: Commands) -> None:
    spark_root.put(root, "proc/sys/kernel/osrelease", "6.11.0-1016-nvidia")


def kho(root: Root, _answers: Commands) -> None:
    spark_root.put(root, "proc/sys/kernel/osrelease", "7.0.0-1019-nvidia")
    spark_root.put(root, "proc/cmdline", "root=/dev/nvme0n1p2 quiet")


def pfc_at_one_end(_root: Root, answers: Commands) -> None:
    answers["dcb -j pfc"] = Completed((), 0, '{"prio-pfc":[false,false,false,true]}', "")


# what is done to spark1, the findings (id, subject, status), words of the first one's message
FAULTS = [
    (narrow, [("pcie.width", "spark1", "fail")], [B0, B1, "2 lanes instead of 4"]),
    (slow, [("pcie.speed", f"spark1:{A0}", "fail")], ["16.0 GT/s instead of 32.0"]),
    (fatal_error, [("pcie.errors", f"spark1:{A1}", "warn")], ["2 fatal"]),
    (fatal_in_the_log, [("pcie.kernel_log", "spark1", "warn")], ["fatal PCIe error at 0002:00:00.0, 1 time"]),
    (crc, [("link.crc", f"spark1:{A0}", "warn")], ["rx_crc_errors 1234"]),
    (port_names, [("link.port_name", "spark1:0-spark2:1", "fail")], [A0, B0, "port p1"]),
    (functions_gone, [("link.interface", "spark1:0-spark2:1", "fail")],
     ["2 of 4 PCIe functions of the network chip are there", "hot-plug power saving is on"]),
    (other_firmware, [("link.parity", "spark", "warn")], ["network firmware: spark1 has 28.43.1014, the other 2 have 28.45.4028"]),
    (other_kernel, [("node.parity", "spark", "warn")], ["kernel: spark1 has 6.11.0-1016-nvidia, the other 2 have 6.17.0-1021-nvidia"]),
    (kho, [("node.kernel_pinning", "spark1", "warn"), ("node.parity", "spark", "warn")], ["7.0.0-1019-nvidia without kho=off"]),
    (pfc_at_one_end, [("link.uneven", "spark1:0-spark2:1", "warn"), ("link.pfc_without_ecn", "spark1:0-spark2:1", "warn"),
                      ("link.uneven", "spark1:1-spark3:0", "warn"), ("link.pfc_without_ecn", "spark1:1-spark3:0", "warn")],
     [f"priorities with PFC: spark1 {A0} has 3; spark2 {A1} has none"]),
]


def judged(folder: Root, breaks: Callable[[Root, Commands], None] | None) -> list[dict[str, Any]]:
    """Read three trees, of which spark1's is broken, judge, and return what is neither pass nor skip."""
    plan = healthy.plan_of("mesh", 3)
    data = healthy.healthy_run(plan)
    for node in plan["nodes"]:
        answers: Commands = {}
        root = spark(folder, plan, node)
        if breaks is not None and node == "spark1":
            breaks(root, answers)
        asked: list[str] = []
        data["nodes"][node] = node_facts.gather(runner(root, plan, node, answers, asked), str(root), use_ssh=False)
        data["nodes"][node]["memlock_bytes"] = "unlimited"
        assert not [command for command in asked if any(word in command for word in ("mstflint", "mlxfwmanager", "flint"))]
    return [one for one in judge(data)["findings"] if one["status"] in ("fail", "unknown", "warn")]


def test_healthy_trees_have_no_finding(tmp_path: Root) -> None:
    assert judged(tmp_path, None) == []


@pytest.mark.parametrize(("breaks", "wanted", "words"), FAULTS, ids=[fault[0].__name__ for fault in FAULTS])
def test_degraded_hardware_is_named(tmp_path: Root, breaks: Any, wanted: Any, words: list[str]) -> None:
    found = judged(tmp_path, breaks)
    assert sorted((one["id"], one["subject"], one["status"]) for one in found) == sorted(wanted)
    first = next(one for one in found if one["id"] == wanted[0][0])
    for word in words:
        assert word in first["message"], first["message"]
    assert "unknown" not in first["message"] + first["cause"] + first["fix"]


@pytest.mark.parametrize(("limit", "status"), [(65536, "fail"), (4194304, "warn"), (8388608, None), ("unlimited", None)])
def test_memlock(limit: Any, status: str | None) -> None:
    data = healthy.healthy_run(healthy.plan_of("pair", 2))
    data["nodes"]["spark1"]["memlock_bytes"] = limit
    assert [one["status"] for one in judge(data)["findings"] if one["id"] == "node.memlock" and one["status"] != "pass"] == ([status] if status else [])


def test_the_majority_is_told_and_a_tie_has_none() -> None:
    assert difference_text({"1": ["a", "b", "c"], "2": ["d"]}) == "d has 2, the other 3 have 1"
    assert difference_text({"1": ["a"], "2": ["b"]}) == "a has 1; b has 2"
    assert differences({"a": {"x": "1"}, "b": {"x": "1", "y": "2"}}) == []


# --- a cluster in use ---

USES = [
    ({"pid": 4711, "command": "vllm", "device": "rocep1s0f0", "what": "rdma queue pair"}, "vllm (process 4711) holds an RDMA queue pair on rocep1s0f0"),
    ({"pid": 12, "command": "python3", "device": "gpu", "what": "gpu process"}, "python3 (process 12) computes on the GPU"),
    ({"pid": None, "command": None, "device": A0, "what": "traffic", "rx_gbps": 12.3, "tx_gbps": 0.0}, f"traffic on {A0} (12.3 Gb/s in, 0.00 Gb/s out)"),
    ({"pid": 711, "command": "iperf3", "device": A0, "what": "socket"}, f"iperf3 (process 711) has connections on {A0}"),
]


@pytest.mark.parametrize(("entry", "words"), USES)
def test_a_cluster_in_use_is_not_measured_and_the_finding_names_who(entry: dict[str, Any], words: str) -> None:
    data = healthy.healthy_run(healthy.plan_of("mesh", 3))
    data["nodes"]["spark2"]["busy"] = [entry]
    records = without_measuring(data["nodes"], list(data["nodes"]))
    data["perftest"] = records
    report = judge(data)
    found = [one for one in report["findings"] if one["status"] in ("fail", "unknown", "warn")]
    assert [(one["id"], one["subject"]) for one in found] == [("node.busy", "spark2")]
    assert words in found[0]["message"] and "fabric_force_busy" in found[0]["message"]
    assert report["verdict"]["status"] == "fail"
    assert {cable["status"] for cable in report["cables"]} == {"skip"}
    assert "not measured: spark2 is in use" in report["cables"][0]["rails"]["a"]["message"]


def test_a_free_cluster_is_measured() -> None:
    data = healthy.healthy_run(healthy.plan_of("mesh", 3))
    assert without_measuring(data["nodes"], list(data["nodes"])) == {}
