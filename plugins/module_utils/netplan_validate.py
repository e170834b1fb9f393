# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Validate a node before anything is written: every reason not to apply, at once. Reads only."""

from __future__ import annotations

import ipaddress
import re
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils import iproute, managed_file, sysfs
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import Runner
from ansible_collections.dgxspark.fabric.plugins.module_utils.live_state import Live
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_merge import Merge
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_overlap import default_routes, overlaps
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_verdict import MARK, Request, Verdict
from ansible_collections.dgxspark.fabric.plugins.module_utils.node_facts import busy_programs
from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree

PATH = re.compile(r"^/etc/netplan/[^/]+\.yaml$")


def check_interfaces(request: Request, live: t.Mapping[str, Live], tree: Tree, verdict: Verdict) -> None:
    """Refuse missing and enslaved interfaces, and a plan that holds the management interface."""
    for interface in request.planned:
        name = interface.name
        state = live[name]
        if not state.exists:
            present = ", ".join(sysfs.interface_names(tree)) or "none"
            verdict.refuse("interface.missing", f"{name} is missing (there are: {present}). Is no cable in that port? Power saving (hot-plug) takes "
                           "the functions of the network card away while no cable is in: plug the cable in, wait for the interface, run again")
            continue
        if state.master and not (request.foreign == "adopt" and state.master in verdict.survey.uppers):
            kind = sysfs.interface_kind(tree, state.master) or "bond or bridge"
            verdict.refuse("interface.enslaved", f"{name} is enslaved to the {kind} {state.master}: a rail needs an address of its own. "
                           f"Take it out of {state.master} (in the netplan file or profile that defines it), then run again")
        for upper in sysfs.uppers(tree, name):
            if sysfs.interface_kind(tree, upper) == "vlan" and not (request.foreign == "adopt" and upper in verdict.survey.uppers):
                verdict.refuse("interface.vlan", f"{name} carries the VLAN {upper}: remove the VLAN, the fabric uses the interface itself")


def check_management(request: Request, live: t.Mapping[str, Live], verdict: Verdict) -> None:
    """Refuse a plan that touches the management interface or address."""
    names = [interface.name for interface in request.planned]
    if not request.management_interface:
        verdict.refuse("management.unknown", "the management interface is not known, so it cannot be kept out of the change: "
                       "set fabric_management_interface for this host")
        return
    if request.management_interface in names:
        verdict.refuse("management.planned", f"{request.management_interface} is the management interface (this node answers on it) and is in the plan: "
                       "applying would cut the connection. Set ansible_host to an address outside the fabric, or fabric_management_interface, or fabric_ports")
        return
    masters = {live[name].master for name in names if live[name].master}
    if request.management_interface in masters:
        verdict.refuse("management.planned", f"the management interface {request.management_interface} is built upon interfaces of the plan: "
                       "move management to another interface first")
    if request.management_interface.startswith("wl"):
        verdict.warnings.append(f"{request.node}: management runs over Wi-Fi ({request.management_interface}): "
                                "cluster jobs lose their rendezvous when it drops")


def check_overlap(request: Request, run: Runner, verdict: Verdict) -> None:
    """Refuse planned networks that the node uses on another interface."""
    addresses = run(["ip", "-j", "-4", "addr", "show"], timeout=20)
    routes = run(["ip", "-j", "-4", "route", "show", "table", "all"], timeout=20)
    try:
        known = {name: families["inet"] for name, families in iproute.parse_addresses(addresses.out).items()}
        problems = overlaps(request.planned, known, iproute.parse_routes(routes.out), request.networks, verdict.survey.uppers)
    except iproute.IprouteError as exc:
        verdict.refuse("network.unreadable", str(exc))
        return
    # What an adopted file or profile set goes with it.
    going = {name for item in verdict.survey.foreign if item.kind != "runtime" for name in item.interfaces} if request.foreign == "adopt" else set()
    for name, gateway in default_routes(request.planned, iproute.parse_routes(routes.out)):
        if name in going:
            continue
        verdict.refuse("network.default_route", f"{name} holds a default route ({gateway}): the fabric leads nowhere else, and with the plan the route goes. "
                       "See that the node reaches what it needs over management, then remove the route where it is set")
    for problem in problems:
        verdict.refuse("network.overlap", f"{problem}. Choose other networks by fabric_subnet_base or fabric_subnet_pool, or remove the other use")


def check_busy(request: Request, run: Runner, verdict: Verdict) -> None:
    """Refuse to change a node on which programs use the fabric, or compute on the GPU."""
    if request.force_busy:
        return
    devices = {interface.rdma_device for interface in request.planned}
    try:
        programs = busy_programs(run, {})
    except iproute.IprouteError as exc:
        verdict.warnings.append(f"{request.node}: {exc}")
        return
    for entry in programs:
        if entry["device"] in devices or entry["device"] == "gpu":
            use = f"uses {entry['device']}" if entry["device"] != "gpu" else "computes on the GPU"
            verdict.refuse("node.busy", f"process {entry['pid']} ({entry['command']}) {use}: applying would break its connections. "
                           "Stop it, or set fabric_force_busy: true")


def look_at_netplan(request: Request, run: Runner, live: t.Mapping[str, Live], current: managed_file.FileState, owned: bool, root: str = "/") -> Verdict:
    """Return what stands in the way in netplan's files and beside them, and what adopting does to those."""
    verdict = Verdict()
    if PATH.match(request.path):
        verdict.survey = Merge(request, run, live, current, owned, root).check(verdict)
    else:
        verdict.refuse("netplan.path", f"{request.path} is no place for a netplan file: expected /etc/netplan/NAME.yaml (fabric_netplan_path)")
    return verdict


def check_numbers(request: Request, live: t.Mapping[str, Live], ours: bool, verdict: Verdict) -> None:
    """Warn when the node would get another host part in a network where it has one: a host may have been inserted before it."""
    for interface in request.planned:
        if not interface.address or not ours:
            continue
        wanted = ipaddress.IPv4Interface(interface.address)
        for address in live[interface.name].addresses:
            found = ipaddress.ip_interface(address)
            if found.network == wanted.network and found.ip != wanted.ip:
                verdict.warnings.append(f"{request.node}: {interface.name} has {found.ip} and would become {wanted.ip}, in the same network: was a host "
                                        "inserted or moved in the group spark? Numbers follow the order of the group; set fabric_node_number for each host "
                                        "to keep its addresses")


def validate(request: Request, run: Runner, live: t.Mapping[str, Live], current: managed_file.FileState, owned: bool, would_change: bool,
             known: bool = False, root: str = "/") -> Verdict:
    """Return every reason why the node must not be changed; nothing is written.

    Args:
        request: What is asked for.
        run: Runs a command.
        live: The live state of the planned interfaces.
        current: The managed file as it is now.
        owned: Whether an earlier run wrote the managed file.
        would_change: Whether anything differs; a busy node where nothing is to do is no problem.
        known: Whether all netplan files are byte for byte those with which an earlier run ended well; then netplan is not asked again.
        root: Where the node's files begin.
    """
    netplan = Verdict() if known else look_at_netplan(request, run, live, current, owned, root)
    verdict = Verdict(survey=netplan.survey, warnings=[f"{request.node}: {note}" for note in netplan.survey.notes],
                      configured=netplan.configured)
    tree = Tree(root)
    check_interfaces(request, live, tree, verdict)
    check_management(request, live, verdict)
    check_overlap(request, run, verdict)
    check_numbers(request, live, owned or MARK in current.text, verdict)
    if would_change:
        check_busy(request, run, verdict)
    verdict.problems += netplan.problems
    return verdict
