# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Everything that is judged, laid out with its facts: nodes, interfaces, rails, cables, segments and the cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_address import (
    duplicate_owners, gid_texts, has_address, has_gid, prefix_of, shared_networks)
from ansible_collections.dgxspark.fabric.plugins.plugin_utils import checks_chip, checks_parity
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.busy_cluster import uses
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_cabling import cabling_facts, cabling_verdicts, hearing_facts
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_edges import edge_facts, outliers
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_latency import figures_by_rail, others_of
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_nccl import nccl_fact, nccl_facts, nccl_skip
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_node import attendance, clock_facts, left_alone, measuring
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_path import far_facts, rail_paths
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_rdma import (
    Limits,
    RailView,
    all_results,
    cable_facts,
    put_down,
    rail_facts,
    retests_by_test,
    where_faults_sit,
)
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.checks_tcp import cable_tcp_facts, dispersion, tcp_facts
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.evaluate import Subject
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import LAYERS, RailKey
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_facts import inference_facts, inference_skip

RAILS = ("a", "b")
IN_CHECK_MODE = "not measured in check mode"
NO_TCP = "the plan has no TCP test for this rail: fabric_iperf3_streams is empty"
NO_ADDRESS = "not measured: the plan gives this rail no IPv4 address, so it has no test of its own"


class Cluster:
    """The facts of one run, asked by subject. Built once; read only."""

    def __init__(self, data: Mapping[str, Any], limits: Limits) -> None:
        self.data = data
        self.plan = data["plan"]
        self.seats = attendance(data)
        self.silent = {**self.seats["unreachable"], **self.seats["lost"]}
        gone = {node: f"not measured: {node} did not answer" for node in self.silent}
        idle = {node: f"not measured: {reason}" for node, reason in self.seats["idle"].items()}
        absent = {node: f"not tested: {reason}" for node, reason in self.seats["not_tested"].items()}
        self.left_alone = left_alone(data) if data["mode"] == "validate" else ""
        self.duplicates = duplicate_owners(data["nodes"], self.plan)
        self.cabling = cabling_verdicts(data)
        self.paths = rail_paths(data, {**gone, **absent})
        self.limits = limits
        excluded = {**idle, **gone, **absent}
        screened = all_results(self.plan["tests"], data, excluded)
        further = all_results(self.plan.get("further_tests") or [], data, excluded)
        self.results = put_down(screened, limits)
        self.further = put_down([result for result in further if result["stage"] != "tcp"], limits)
        self.tcp = put_down([result for result in further if result["stage"] == "tcp"], limits)
        self.retests = retests_by_test(data, excluded)
        self.faults = where_faults_sit(screened, limits)
        self.latency = figures_by_rail(self.further)
        self.outliers = outliers(self.results)
        self.edges = edge_facts(self.plan, self.results, limits)
        self.with_tests = {node for test in self.plan["tests"] for node in (test["client"], test["server"])}
        self.common = {
            "plan": {
                **{key: self.plan.get(key) for key in ("cluster", "topology", "shape", "mtu", "rdma_mtu", "link_gbps")},
                "switchless": self.plan.get("shape") in ("mesh", "ring", "graph"),
            },
            "mode": data["mode"],
        }
        self.by_cable = interfaces_by_cable(self.plan)

    @property
    def ceilings(self) -> Mapping[str, float]:
        """Rates that no measurement can exceed, Gb/s."""
        return self.plan["expected"].get("ceiling_gbps") or {}

    def subjects(self) -> Iterable[Subject]:
        """Lay out every subject, lowest scope first."""
        for node in self.plan["nodes"]:
            yield self.node(node)
        for cable in self.plan["cables"]:
            if self.untested(cable) is None:
                for interface in self.by_cable.get(cable["name"], []):
                    if interface["node"] not in self.silent:
                        yield self.interface(cable, interface)
                for rail in self.rails_of(cable):
                    yield self.rail(cable, rail)
            yield self.cable(cable)
        for segment in self.plan["segments"].values():
            yield self.segment(segment)
        yield self.whole()

    def whole(self) -> Subject:
        """Lay out the cluster as a whole."""
        fact = nccl_fact(self.data.get("nccl") or {})
        nccl = self.left_alone or nccl_skip(fact, self.data["mode"], IN_CHECK_MODE)
        tcp = IN_CHECK_MODE if self.data["mode"] == "check" else self.left_alone or None
        facts = {
            **self.common,
            "cluster": self.plan["cluster"],
            "nodes": dict(self.data["nodes"]),
            "parity": checks_parity.parity_facts(self.data["nodes"], self.plan),
            "edges": self.edges,
            "tcp": dispersion({cable["name"]: self.cable_tcp(cable) for cable in self.plan["cables"]}, float(self.plan["link_gbps"] or 0)),
            "nccl": nccl_facts(self.plan, fact),
            "inference": inference_facts(self.data.get("inference") or {}),
        }
        inference = inference_skip(self.data.get("inference") or {}, self.data["mode"], IN_CHECK_MODE)
        skips = {layer: reason for layer, reason in (("tcp", tcp), ("nccl", nccl), ("inference", inference)) if reason is not None}
        return Subject("cluster", self.plan["cluster"], facts, not_judged=skips)

    def rails_of(self, cable: Mapping[str, Any]) -> list[str]:
        """Return the rails of a cable that the plan uses."""
        return sorted({interface["rail"] for interface in self.by_cable.get(cable["name"], [])})

    def untested(self, cable: Mapping[str, Any]) -> str | None:
        """Say why a cable is not tested at all, when a node at its ends is outside --limit."""
        reasons = [self.seats["not_tested"][node] for node in cable_nodes(cable) if node in self.seats["not_tested"]]
        return f"not tested: {'; '.join(reasons)}" if reasons else None

    def node(self, node: str) -> Subject:
        """Lay out a node."""
        facts = self.data["nodes"].get(node) or {}
        tested = node not in self.seats["not_tested"]
        skips = {} if tested else {layer: f"not tested: {self.seats['not_tested'][node]}" for layer in LAYERS}
        return Subject(
            "node",
            node,
            {
                **self.common,
                "node": node,
                "number": self.plan["nodes"][node].get("number"),
                "answered": bool(facts),
                "unreachable": self.seats["unreachable"].get(node, ""),
                "lost": self.seats["lost"].get(node, ""),
                "facts": facts,
                "measuring": measuring(self.data, node, node in self.with_tests),
                "busy": uses(facts),
                "far": far_facts(self.data, node),
                "kernel_troubles": checks_chip.kernel_troubles(facts),
                "clock": clock_facts(facts),
                "kho_risk": checks_chip.kho_risk(facts),
            },
            nodes=(node,),
            not_judged=skips,
        )

    def interface(self, cable: Mapping[str, Any], planned: Mapping[str, Any]) -> Subject:
        """Lay out an interface of a node that answered."""
        node, name, rail = planned["node"], planned["name"], planned["rail"]
        node_facts = self.data["nodes"].get(node) or {}
        live = (node_facts.get("interfaces") or {}).get(name)
        rdma = (node_facts.get("rdma_devices") or {}).get(planned["rdma_device"])
        speed = (live or {}).get("speed_mbps")
        link = self.plan["link_gbps"]
        facts = {
            **self.common,
            "node": node,
            "interface": name,
            "port": planned["port"],
            "rail": rail,
            "cable": cable["name"],
            "ends": ends_text(cable),
            "where": interface_text(planned),
            "peers": [f"{peer['node']} {peer['interface']}" for peer in planned.get("peers") or []],
            "planned": {key: planned.get(key) for key in ("address", "prefix", "mtu", "rdma_device")},
            "present": live is not None,
            "live": live or {},
            "rdma": rdma or {},
            "rdma_present": rdma is not None,
            "master": (live or {}).get("master") or "",
            "speed_gbps": None if not speed or speed < 0 else speed / 1000.0,
            "speed_percent": None if not speed or speed < 0 or not link else 100.0 * speed / 1000.0 / link,
            "addresses": list((live or {}).get("addresses") or []),
            "address_present": has_address(live or {}, planned.get("address")),
            "prefix": prefix_of(live or {}, planned.get("address")),
            "gid_present": has_gid(rdma or {}, planned.get("address")),
            "gids": gid_texts(rdma or {}),
            "shared_network": shared_networks(node_facts, name, self.plan["nodes"][node]["interfaces"]),
            "functions": checks_chip.functions_text(node_facts),
            "cable_errors": checks_chip.cable_errors(live or {}),
            "pcie_errors": checks_chip.pcie_errors(node_facts, (live or {}).get("pci_address")),
            "wrong_port_name": checks_chip.wrong_port_name(live or {}, planned["port"]),
            "pfc_without_ecn": checks_parity.pfc_without_ecn(live or {}),
            "duplicate_owners": self.duplicates.get((node, name), []),
        }
        return Subject("interface", f"{node}:{name}", facts, (node,), cable["name"], rail, ((cable["name"], rail),))

    def rail(self, cable: Mapping[str, Any], rail: str) -> Subject:
        """Lay out one rail of a cable."""
        key: RailKey = (cable["name"], rail)
        ends = [self.end(interface) for interface in self.by_cable[cable["name"]] if interface["rail"] == rail]
        twins = [self.end(interface) for interface in self.by_cable[cable["name"]] if interface["rail"] != rail]
        results = self.results.get(key, [])
        facts = {
            **self.common,
            "cable": cable["name"],
            "rail": rail,
            "ends": ends_text(cable),
            "where": f"cable {cable['name']}, rail {rail}",
            "nodes": list(cable_nodes(cable)),
            "interfaces": ends,
            "carrier": all_up(ends),
            "down": [f"{end['node']} {end['interface']}" for end in ends if end["carrier"] is False],
            "twin_up": all_up(twins) is True,
            "hears": hearing_facts(self.cabling.get(cable["name"]), rail),
            "uneven": [] if cable.get("switch") else checks_parity.uneven_ends(self.lives(cable["name"], rail)),
            "path": self.paths.get(key, {}),
            "rdma": {
                **rail_facts(
                    results,
                    RailView(self.further.get(key, []), self.retests, self.faults.get(key), others_of(key, self.latency)),
                    self.limits,
                    self.ceilings,
                ),
                "outlier": self.outliers.get(key),
            },
            "tcp": tcp_facts(self.tcp.get(key, [])),
        }
        return Subject("rail", f"{cable['name']}/{rail}", facts, cable_nodes(cable), cable["name"], rail, (key,), self.not_judged(key, results))

    def not_judged(self, key: RailKey, results: list[dict[str, Any]]) -> dict[str, str]:
        """Say which layers of a rail nobody measured, when that is as it should be."""
        reasons: dict[str, str] = {}
        addressed = any(interface.get("address") for interface in self.by_cable[key[0]] if interface["rail"] == key[1])
        absent = "; ".join(f"not tested: {reason}" for reason in self.seats["not_tested"].values())
        tcp = self.tcp.get(key, [])
        if self.data["mode"] == "check":
            reasons["rdma"] = reasons["tcp"] = IN_CHECK_MODE
            if not self.data["paths"]:
                reasons["path"] = IN_CHECK_MODE
        elif self.left_alone:
            reasons["rdma"] = reasons["tcp"] = self.left_alone
        elif not results:
            reasons["rdma"] = NO_ADDRESS if not addressed else "the plan has no test for this rail"
        elif all(result["state"] == "excluded" and result["message"].startswith("not tested") for result in results):
            reasons["rdma"] = absent
        elif all(result["blamed"] for result in results):
            others = sorted({result["blamed"] for result in results})
            reasons["rdma"] = f"its only tests fall short together with {', '.join(others)}, where they are counted: one test cannot tell the two apart"
        if not tcp:
            reasons.setdefault("tcp", reasons.get("rdma") or NO_TCP)
        elif all(result["state"] == "excluded" for result in tcp) or all(result["blamed"] for result in tcp):
            reasons.setdefault("tcp", reasons.get("rdma") or tcp[0]["message"])
        if key not in self.paths and "path" not in reasons:
            if not addressed:
                reasons["path"] = NO_ADDRESS
            elif absent:
                reasons["path"] = absent
        return reasons

    def cable(self, cable: Mapping[str, Any]) -> Subject:
        """Lay out a cable as a whole."""
        name = cable["name"]
        nodes = cable_nodes(cable)
        silent = {node: self.silent[node] for node in nodes if node in self.silent}
        rails = {rail: self.results.get((name, rail), []) for rail in self.rails_of(cable)}
        untested = self.untested(cable)
        skips = {layer: untested for layer in LAYERS} if untested else {}
        if not untested and (self.data["mode"] == "check" or self.left_alone):
            skips = dict.fromkeys(("rdma", "tcp"), self.left_alone or IN_CHECK_MODE)
        facts = {
            **self.common,
            "cable": name,
            "ends": ends_text(cable),
            "nodes": list(nodes),
            "switch": bool(cable.get("switch")),
            "unanswered": "; ".join(f"{node} did not answer" for node in silent),
            "unanswered_nodes": list(silent),
            "cabling": cabling_facts(self.cabling.get(name)),
            "rdma": cable_facts(rails, self.retests, self.limits, self.ceilings),
            "tcp": self.cable_tcp(cable),
        }
        return Subject("cable", name, facts, nodes, name, None, tuple((name, rail) for rail in self.rails_of(cable)), skips)

    def cable_tcp(self, cable: Mapping[str, Any]) -> dict[str, Any]:
        """Return what TCP does over both rails of a cable."""
        return cable_tcp_facts({rail: self.tcp.get((cable["name"], rail), []) for rail in self.rails_of(cable)})

    def segment(self, segment: Mapping[str, Any]) -> Subject:
        """Lay out a segment; it touches no rail, so what is found on it hides nothing."""
        facts = {**self.common, "segment": segment["name"], "rail": segment["rail"], "network": segment.get("network"), "members": segment.get("members", [])}
        nodes = tuple(dict.fromkeys(member["node"] for member in segment.get("members", [])))
        return Subject("segment", segment["name"], facts, nodes, None, segment["rail"])

    def lives(self, cable: str, rail: str) -> dict[str, Mapping[str, Any]]:
        """Return what fabric_facts saw of the interfaces of a rail, by end."""
        ends = [interface for interface in self.by_cable[cable] if interface["rail"] == rail]
        return {f"{end['node']} {end['name']}": ((self.data["nodes"].get(end["node"]) or {}).get("interfaces") or {}).get(end["name"]) or {} for end in ends}

    def end(self, planned: Mapping[str, Any]) -> dict[str, Any]:
        """Return what matters of one end of a rail."""
        live = ((self.data["nodes"].get(planned["node"]) or {}).get("interfaces") or {}).get(planned["name"]) or {}
        speed = live.get("speed_mbps")
        return {
            "node": planned["node"],
            "interface": planned["name"],
            "port": planned["port"],
            "carrier": live.get("carrier"),
            "admin_up": live.get("admin_up"),
            "speed_gbps": speed / 1000.0 if speed and speed > 0 else None,
            "mtu": live.get("mtu"),
        }


def interfaces_by_cable(plan: Mapping[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """List the planned interfaces of every cable, with their node, in the order of its ends."""
    found: dict[str, list[dict[str, Any]]] = {}
    for node, planned in plan["nodes"].items():
        for interface in planned["interfaces"].values():
            found.setdefault(interface["cable"], []).append({**interface, "node": node})
    order = {cable["name"]: cable_nodes(cable) for cable in plan["cables"]}
    for cable, interfaces in found.items():
        interfaces.sort(key=lambda interface: (order[cable].index(interface["node"]), interface["rail"]))
    return found


def cable_nodes(cable: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the nodes at the ends of a cable."""
    return tuple(dict.fromkeys(end["node"] for end in (cable["a"], cable["b"]) if end))


def ends_text(cable: Mapping[str, Any]) -> str:
    """Return both ends of a cable in words."""
    ends = [f"{end['node']} port {end['port']}" for end in (cable["a"], cable["b"]) if end]
    return " and ".join([*ends, "the switch"] if cable.get("switch") else ends)


def interface_text(planned: Mapping[str, Any]) -> str:
    """Return an interface in words."""
    return f"{planned['node']} {planned['name']} (port {planned['port']}, rail {planned['rail']})"


def all_up(ends: list[dict[str, Any]]) -> bool | None:
    """Tell whether all ends have a link: false when one says no, else null when one does not say."""
    if any(end["carrier"] is False for end in ends):
        return False
    return None if not ends or any(end["carrier"] is None for end in ends) else True
