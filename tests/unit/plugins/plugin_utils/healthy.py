# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Results of a run on a cluster where all is well, from its plan alone; tests then break one thing."""

from __future__ import annotations

from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan import make_plan
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import wired


def plan_of(topology: str, count: int, **variables: Any) -> dict[str, Any]:
    """Return the plan of a cluster of spark1 … sparkN."""
    hosts = {f"spark{number}": {"fabric_topology": topology, "ansible_host": f"10.77.0.{10 + number}", **variables} for number in range(1, count + 1)}
    return make_plan(hosts)


def take_addresses(plan: dict[str, Any], rail: str) -> None:
    """Take the addresses of a rail out of a plan, and with them its tests."""
    for node in plan["nodes"].values():
        for interface in node["interfaces"].values():
            if interface["rail"] == rail:
                interface.update(address=None, prefix=None, peers=[])
    plan["tests"] = [test for test in plan["tests"] if test["rail"] != rail]


def mac(node: str, interface: str, plan: dict[str, Any]) -> str:
    """Return a MAC address that no other interface has."""
    place = list(plan["nodes"][node]["interfaces"]).index(interface)
    return f"02:00:00:00:{plan['nodes'][node]['number']:02x}:{place:02x}"


def node_facts(plan: dict[str, Any], node: str) -> dict[str, Any]:
    """Return what fabric_facts says of a healthy node."""
    interfaces: dict[str, Any] = {}
    devices: dict[str, Any] = {}
    for name, planned in plan["nodes"][node]["interfaces"].items():
        address = planned["address"]
        interfaces[name] = {
            "mac": mac(node, name, plan),
            "mtu": planned["mtu"],
            "operstate": "up",
            "carrier": True,
            "admin_up": True,
            "speed_mbps": int(plan["link_gbps"] * 1000),
            "duplex": "full",
            "phys_port_name": None,
            "driver": "mlx5_core",
            "firmware": "28.45.4028",
            "pci_address": planned["pci_address"],
            "pcie": {"width": 4, "speed_gts": 32.0, "max_width": 4, "max_speed_gts": 32.0},
            "addresses": [f"{address}/{planned['prefix']}"] if address else [],
            "addresses6": [],
            "master": None,
            "kind": None,
            "renderer": "networkd",
            "arp_ignore": 1,
            "arp_announce": 2,
            "rdma_device": planned["rdma_device"],
            "fec": "rs",
            "flow_control": {"pause": {"autoneg": False, "rx": False, "tx": False}, "pfc_priorities": [], "trust": "pcp", "ecn_priorities": []},
            "counters": {},
        }
        devices[planned["rdma_device"]] = {
            "netdev": name,
            "state": "ACTIVE",
            "physical_state": "LINK_UP",
            "active_mtu": plan["rdma_mtu"],
            "rate_gbps": plan["link_gbps"],
            "firmware": "28.45.4028",
            "gids": [{"index": 3, "gid": f"::ffff:{address}", "type": "RoCE v2", "ipv4": address, "netdev": name}] if address else [],
            "counters": {},
        }
    functions = {live["pci_address"]: {"driver": "mlx5_core", "interfaces": [name], "errors": {"fatal": 0, "nonfatal": 0}} for name, live in interfaces.items()}
    return {"facts_version": 1, "hostname": node, "interfaces": interfaces, "rdma_devices": devices, "busy": [], "unavailable": {}, "pci_functions": functions,
            "kernel": "6.17.0-1021-nvidia", "os": {"pretty": "Ubuntu 24.04.3 LTS"}, "tools": {"perftest": "6.24", "nccl": "2.30.7"},
            "machine": {"firmware": "5.36_0ACUM023"}, "kernel_events": [], "kernel_options": {}, "memlock_bytes": "unlimited"}


def path_entries(plan: dict[str, Any], node: str) -> list[dict[str, Any]]:
    """Return what path_probe says on a healthy node."""
    entries = []
    for name, planned in plan["nodes"][node]["interfaces"].items():
        for peer in planned["peers"]:
            entries.append(
                {
                    "segment": planned["segment"],
                    "interface": name,
                    "rail": planned["rail"],
                    "cable": planned["cable"],
                    "address": planned["address"],
                    "peer_node": peer["node"],
                    "peer_interface": peer["interface"],
                    "peer_address": peer["address"],
                    "mtu": planned["mtu"],
                    "sent": 3,
                    "received": 3,
                    "small_received": 3,
                    "largest_mtu": None,
                    "neighbour_mac": mac(peer["node"], peer["interface"], plan),
                    "expected_mac": None,
                    "route_interface": name,
                    "error": None,
                }
            )
    return entries


def end_record(test: dict[str, Any], role: str, plan: dict[str, Any]) -> dict[str, Any]:
    """Return the record of one end of a test that reached 99 % of what was expected."""
    sends = role == "client"
    if test["stage"] == "tcp":
        return tcp_record(test, role, plan)
    latency = {"min": 1.42, "max": 9.9, "typical": 1.47, "average": 1.5, "stdev": 0.0, "p99": 1.57, "p99_9": 2.4} if test["stage"].endswith("latency") else None
    return {
        "id": test["id"],
        "role": role,
        "status": "ok",
        "error": None,
        "message": "",
        "gbps": round(0.99 * test["expected_gbps"], 3) if sends and latency is None else None,
        "latency_us": latency if sends else None,
        "peak_gbps": None,
        "message_rate_mpps": None,
        "size_bytes": 65536,
        "iterations": 1000,
        "rdma_mtu": plan["rdma_mtu"],
        "gid_index": 3,
        "gid_ipv4": test[f"{role}_address"],
        "peer_gid_ipv4": test["server_address" if sends else "client_address"],
        "device": test[f"{role}_device"],
        "command": ["ib_write_bw", "-d", test[f"{role}_device"]],
        "version": "6.24",
        "exit_code": 0,
        "tail": "",
        "started": 1.0,
        "ended": 6.0,
        "counters": {},
    }


def tcp_record(test: dict[str, Any], role: str, plan: dict[str, Any]) -> dict[str, Any]:
    """Return the record of one end of a TCP test; one stream gives a third of the rate, eight all of it."""
    sends = role == "client"
    return {
        "id": test["id"],
        "role": role,
        "status": "ok",
        "error": None,
        "message": "",
        "gbps": round(0.98 * test["expected_gbps"] * {1: 0.33, 4: 0.9}.get(test["streams"], 1.0), 3) if sends else None,
        "streams": test["streams"],
        "path_mtu_bytes": plan["mtu"] if sends else None,
        "retransmits": 0,
        "device": test[f"{role}_device"],
        "command": ["iperf3", "-J"],
        "version": "3.18",
        "exit_code": 0,
        "tail": "",
        "started": 7.0,
        "ended": 10.0,
        "counters": {},
    }


def job_of(plan: dict[str, Any], node: str, tcp: bool = False) -> dict[str, Any]:
    """Return what the load tests, of RDMA or of TCP, say on a healthy node."""
    tests = []
    for test in plan["tests"] + plan["further_tests"]:
        if (test["stage"] == "tcp") != tcp:
            continue
        for role in ("client", "server"):
            if test[role] == node:
                tests.append(end_record(test, role, plan))
    return {"run": "n1", "node": node, "status": "done", "message": "", "tests": tests}


def healthy_run(plan: dict[str, Any]) -> dict[str, Any]:
    """Return the input of judge for a run in which all is well."""
    nodes = list(plan["nodes"])
    return {
        "plan": plan,
        "nodes": {node: node_facts(plan, node) for node in nodes},
        "unreachable": {},
        "not_tested": [],
        "neighbours": wired.neighbours(nodes, wired.planned_wires(plan)),
        "paths": {node: path_entries(plan, node) for node in nodes},
        "perftest": {node: job_of(plan, node) for node in nodes},
        "iperf3": {node: job_of(plan, node, tcp=True) for node in nodes},
        "diagnosis": [],
        "drift": [],
        "mode": "validate",
    }


def records(
    data: dict[str, Any],
    cable: str | None = None,
    rail: str | None = None,
    stage: str | None = None,
    client: str | None = None,
    where: str = "perftest",
) -> list[dict[str, Any]]:
    """Return the records that match of the screening, of another ``stage``, or of TCP (``where`` is ``iperf3``); both ends of each test."""
    wanted = set()
    planned = data["plan"]["tests"] if where == "perftest" and stage in (None, "directed", "bidirectional") else data["plan"]["further_tests"]
    for test in planned:
        if (cable is None or cable in test["cables"]) and rail in (None, test["rail"]) and stage in (None, test["stage"]) and client in (None, test["client"]):
            wanted.add(test["id"])
    return [record for result in data[where].values() for record in result["tests"] if record["id"] in wanted]


def entries(data: dict[str, Any], cable: str, rail: str | None = None) -> list[dict[str, Any]]:
    """Return the path entries that leave by a cable or lead to it."""
    found = []
    for node_entries in data["paths"].values():
        for entry in node_entries:
            far = data["plan"]["nodes"][entry["peer_node"]]["interfaces"][entry["peer_interface"]]["cable"]
            if cable in (entry["cable"], far) and rail in (None, entry["rail"]):
                found.append(entry)
    return found
