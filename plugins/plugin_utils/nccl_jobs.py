# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The job of nccl-tests, from the plan and what was observed of the nodes. Pure functions."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, shown

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv", "alltoall")
#: In these every rank sends to every other: without a cable between each two they hang.
EVERYBODY_WITH_EVERYBODY = ("alltoall",)
SWEEP_BEGIN = 4096
#: Messages of a layer's size, beside the powers of two of the sweep: 10, 20 and 40 KiB.
SMALL_BEGIN, SMALL_END = 10240, 40960
GROUPS = ("usual", "all", "neighbours")
DEFAULTS: dict[str, Any] = {
    "collectives": ["all_reduce", "all_gather"],
    "groups": "usual",
    "repeats": 1,
    "order": [],
    "programs": "",
    "libraries": [],
    "environment_file": "/etc/dgxspark-fabric/nccl.env",
    "require_gpu": True,
    "largest_bytes": 1 << 30,
    "memory_share": 0.25,
    "iterations": 20,
    "warmup": 5,
    "launch_seconds": 60,
    "test_seconds": 180,
    "added": {},
    "image": "",
    "image_engine": "",
    "image_programs": "",
    "image_libraries": [],
    "image_options": ["--ipc=host", "--ulimit=memlock=-1:-1", "--device=/dev/infiniband"],
    "image_pull": False,
    "image_pull_seconds": 1800,
}


def make_nccl_job(plan: Mapping[str, Any], nodes: Mapping[str, Mapping[str, Any]], run: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the job, as the module ``nccl_tests`` takes it.

    :param nodes: ``fabric_node`` of the hosts that were observed
    :param options: any of ``DEFAULTS``
    :raises FabricError: for an option that is not known, or a node that has no management address
    """
    unknown = sorted(set(options) - set(DEFAULTS))
    if unknown:
        raise FabricError(f"nccl_job: there is no option {shown(unknown[0])}; known are {', '.join(DEFAULTS)}")
    chosen = {**DEFAULTS, **{name: value for name, value in options.items() if value is not None}}
    planned = [node for node in plan["rank_order"] if node in nodes]
    if len(planned) < 2:
        names = ", ".join(planned) or "none"
        return {"node": next(iter(planned), ""), "skip": skipped(run, names, "too_few", f"nccl-tests needs two nodes that answered, found {names}")}
    apart = gap(planned, links_of(plan))
    if apart and len(planned) < len(plan["rank_order"]):
        absent = [node for node in plan["rank_order"] if node not in planned]
        message = f"without {', '.join(absent)} the ring is not closed: {apart[0]} and {apart[1]} have no cable between them"
        return {"node": planned[0], "skip": skipped(run, planned[0], "node_missing", message)}
    without = [node for node in planned if nodes[node].get("gpus") == 0]
    if chosen["require_gpu"] and without:
        return {"node": planned[0], "skip": skipped(run, planned[0], "no_gpu", f"no NVIDIA GPU on {', '.join(without)}: nccl-tests needs one on every node")}
    order = [str(node) for node in chosen["order"]] or planned
    management = {node: management_of(plan, node, nodes.get(node) or {}) for node in order if node in plan["nodes"]}
    tests, not_run = tests_of(plan, order, chosen)
    return {
        "run": run,
        "skip": {},
        "node": order[0],
        "user": (plan["nodes"].get(order[0]) or {}).get("ssh_user"),
        "shape": plan["shape"],
        "order": order,
        "planned_order": planned,
        "addresses": {node: place["address"] for node, place in management.items()},
        "links": [list(link) for link in links_of(plan)],
        "networks": sorted({place["network"] for place in management.values() if place["network"]}),
        "fabric_networks": sorted({segment["network"] for segment in plan["segments"].values() if segment.get("network")}),
        "environments": {node: environment_of(plan, node, nodes.get(node) or {}) for node in order if node in plan["nodes"]},
        "environment_file": chosen["environment_file"] or None,
        "profile": plan["nccl"]["profile"],
        "least_version": plan["nccl"]["least_version"],
        **{name: chosen[name] for name in ("programs", "libraries", "require_gpu", "largest_bytes", "memory_share", "iterations", "warmup",
                                           "launch_seconds", "test_seconds", "added")},
        "container": {name: chosen[f"image_{name}"] for name in ("engine", "programs", "libraries", "options", "pull", "pull_seconds")}
        | {"image": chosen["image"] or ""},
        "tests": tests,
        "not_run": not_run,
    }


def gap(order: Sequence[str], links: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """Return the first neighbours in an order that cannot reach each other, None where all can."""
    linked = {frozenset(link) for link in links}
    hops = list(zip(order, [*order[1:], order[0]])) if len(order) > 2 else [(order[0], order[1])]
    return next((hop for hop in hops if frozenset(hop) not in linked), None)


def skipped(run: str, node: str, reason: str, message: str) -> dict[str, Any]:
    """Return the fact of tests that were not asked to run."""
    return {"run": run, "node": node, "status": "skipped", "reason": reason, "message": message, "fix": "", "runs": [], "not_run": [], "nodes": {},
            "problems": [], "stand_in": False}


def management_of(plan: Mapping[str, Any], node: str, seen: Mapping[str, Any]) -> dict[str, str | None]:
    """Return address and network of a node's management interface, as it was observed, else as the plan has it."""
    found = seen.get("management") or {}
    address = found.get("address") or plan["nodes"][node]["management"]["address"]
    if not address:
        raise FabricError(f"{node} has no management address: set fabric_management_address for it")
    network = None
    if found.get("address") and found.get("prefix") is not None:
        network = str(ipaddress.ip_interface(f"{found['address']}/{found['prefix']}").network)
    return {"address": str(address), "network": network}


def environment_of(plan: Mapping[str, Any], node: str, seen: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return NCCL's environment of a node; what follows the management interface takes the one that was observed."""
    interface = (seen.get("management") or {}).get("interface")
    result = []
    for entry in plan["nodes"][node]["nccl_environment"]:
        follows = entry.get("follows") == "management.interface" and interface
        result.append({**entry, "value": interface} if follows else dict(entry))
    return result


def links_of(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the pairs of nodes that share a segment, which is a cable or a switch."""
    found: dict[tuple[str, str], None] = {}
    for segment in plan["segments"].values():
        for first, second in combinations(dict.fromkeys(member["node"] for member in segment["members"]), 2):
            found[(first, second)] = None
    return list(found)


def tests_of(plan: Mapping[str, Any], order: Sequence[str], chosen: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the tests, two nodes before all, and what is left out with the reason."""
    bad = [name for name in chosen["collectives"] if name not in COLLECTIVES]
    if bad or not chosen["collectives"]:
        raise FabricError(f"nccl_tests_collectives has {shown(bad[0]) if bad else 'no entry'}; expected any of {', '.join(COLLECTIVES)}")
    if chosen["groups"] not in GROUPS:
        raise FabricError(f"nccl_tests_groups is {shown(chosen['groups'])}; expected one of {', '.join(GROUPS)}")
    linked = {frozenset(link) for link in links_of(plan)}
    tests, not_run = [], []
    for collective in chosen["collectives"]:
        for group, nodes in groups_of(order, chosen["groups"], linked):
            name = f"{collective}-{group if group != 'pair' else '-'.join(nodes)}"
            apart = [pair for pair in combinations(nodes, 2) if frozenset(pair) not in linked]
            if collective in EVERYBODY_WITH_EVERYBODY and apart:
                not_run.append({
                    "id": name, "collective": collective, "nodes": list(nodes),
                    "reason": f"every rank would send to every other, and {apart[0][0]} and {apart[0][1]} have no cable between them"})
                continue
            common = {"collective": collective, "nodes": list(nodes), "factor": 2, "repeats": int(chosen["repeats"]), "group": group}
            tests.append({"id": name, "begin": SWEEP_BEGIN, "end": 0, "sweep": True, **common})
            if collective == "all_reduce":
                tests.append({"id": f"{name}-small", "begin": SMALL_BEGIN, "end": SMALL_END, "sweep": False, **common})
    return sorted(tests, key=lambda test: len(test["nodes"])), not_run


def groups_of(order: Sequence[str], wanted: str, linked: set[frozenset[str]]) -> list[tuple[str, list[str]]]:
    """Return the groups of nodes to test: the first two that can reach each other, or each neighbour pair, and all."""
    groups: list[tuple[str, list[str]]] = []
    hops = list(zip(order, [*order[1:], order[0]]))
    if len(order) > 2 and wanted == "usual":
        first = next((hop for hop in hops if frozenset(hop) in linked), None)
        groups += [("first", list(first))] if first else []
    elif len(order) > 2 and wanted == "neighbours":
        groups += [("pair", list(hop)) for hop in hops if frozenset(hop) in linked]
    return [*groups, ("all", list(order))]
