# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Validate a node before anything is written: every reason not to apply, at once. Reads only."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.dgxspark.fabric.plugins.module_utils import iproute, managed_file, netplan_tree, sysfs
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import Runner
from ansible_collections.dgxspark.fabric.plugins.module_utils.ethtool_ioctl import driver_info
from ansible_collections.dgxspark.fabric.plugins.module_utils.live_state import Live
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_overlap import overlaps
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_sandbox import NetplanError, Sandbox, sandbox, tree_of_one_file
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_tree import Hardware, Planned
from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree

MARK = "dgxspark.fabric"
PATH = re.compile(r"^/etc/netplan/[^/]+\.yaml$")


@dataclass(frozen=True)
class Request:
    """What the module was asked for."""

    node: str
    path: str
    content: bytes
    planned: tuple[Planned, ...]
    arp: bool = True
    sysctl_path: str = ""
    foreign: str = "refuse"
    force_busy: bool = False
    management_interface: str | None = None
    management_address: str | None = None
    timeout: float = 90.0
    confirm_seconds: float = 0.0
    validated: str = ""  # digest of the other netplan files when they were validated


@dataclass
class Verdict:
    """Why the node must not be changed (``problems``), and what is worth saying (``warnings``)."""

    problems: list[dict[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def refuse(self, identifier: str, message: str) -> None:
        """Add a problem with a stable name."""
        self.problems.append({"id": identifier, "message": message})


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
        if state.master:
            kind = sysfs.interface_kind(tree, state.master) or "bond or bridge"
            verdict.refuse("interface.enslaved", f"{name} is enslaved to the {kind} {state.master}: a rail needs an address of its own. "
                           f"Take it out of {state.master} (in the netplan file or profile that defines it), then run again")
        for upper in sysfs.uppers(tree, name):
            if sysfs.interface_kind(tree, upper) == "vlan":
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
        problems = overlaps(request.planned, known, iproute.parse_routes(routes.out))
    except iproute.IprouteError as exc:
        verdict.refuse("network.unreadable", str(exc))
        return
    for problem in problems:
        verdict.refuse("network.overlap", f"{problem}. Choose other networks by fabric_subnet_base or fabric_subnet_pool, or remove the other use")


def check_busy(request: Request, run: Runner, verdict: Verdict) -> None:
    """Refuse to change a node on which programs use the fabric."""
    done = run(["rdma", "-j", "res", "show", "qp"], timeout=20)
    if done.rc != 0 or request.force_busy:
        return
    devices = {interface.rdma_device for interface in request.planned}
    try:
        holders = [entry for entry in iproute.parse_queue_pairs(done.out) if entry["device"] in devices]
    except iproute.IprouteError as exc:
        verdict.warnings.append(f"{request.node}: {exc}")
        return
    for entry in holders:
        verdict.refuse("node.busy", f"process {entry['pid']} ({entry['command']}) uses {entry['device']}: applying would break its connections. "
                       "Stop it, or set fabric_force_busy: true")


def _file_of_claim(run: Runner, copy: Sandbox, own: str, claim: netplan_tree.Claim, hardware: t.Mapping[str, Hardware]) -> str:
    """Return which files hold a claim."""
    holders = []
    for path in copy.files():
        if path == own:
            continue
        try:
            tree = tree_of_one_file(run, (copy.directory / path.lstrip("/")).read_bytes())
        except NetplanError:
            continue  # such a file refers to definitions in others; the merged tree was read well
        if any(found.key == claim.key for found in netplan_tree.claims(tree, hardware)):
            holders.append(path)
    return ", ".join(holders) or "another netplan file"


def refuse_claims(request: Request, run: Runner, copy: Sandbox, others: t.Mapping[str, t.Any], hardware: t.Mapping[str, Hardware], verdict: Verdict) -> None:
    """Refuse definitions of planned interfaces in other files. With "ignore" they may stand there, as long as the merged result is exactly the plan."""
    for claim in netplan_tree.claims(others, hardware) if request.foreign != "ignore" else ():
        where = _file_of_claim(run, copy, request.path, claim, hardware)
        verdict.refuse("netplan.foreign", f"{where}: {claim.key} {claim.why} ({claim.interface}): {claim.settings}. netplan would merge both files "
                       f"(lists are concatenated, the last file's values win). Remove {claim.key} from that file, or move the file away, then run again")


def hardware_of(request: Request, live: t.Mapping[str, Live]) -> dict[str, Hardware]:
    """Return MAC and driver of the planned interfaces, by which other definitions may match them."""
    found = {}
    for interface in request.planned:
        info = driver_info(interface.name) or {}
        found[interface.name] = Hardware(live[interface.name].mac, str(info.get("driver") or "") or None)
    return found


def claims_now(request: Request, run: Runner, live: t.Mapping[str, Live]) -> Verdict:
    """Look once more, right before writing, whether another file names a planned interface."""
    verdict = Verdict()
    try:
        with sandbox(run) as copy:
            copy.place(request.path, None)
            refuse_claims(request, run, copy, copy.tree(), hardware_of(request, live), verdict)
    except NetplanError as exc:
        verdict.refuse("netplan.rejected", f"netplan rejects the configuration of /etc/netplan without {request.path}: {exc}")
    return verdict


def check_netplan(request: Request, run: Runner, live: t.Mapping[str, Live], current: managed_file.FileState, owned: bool, verdict: Verdict) -> None:
    """Refuse when the merged configuration would not be exactly the plan, or would change anything else.

    Args:
        request: What is asked for.
        run: Runs a command.
        live: The live state, for matching by MAC.
        current: The managed file as it is now.
        owned: Whether an earlier run of this collection wrote the managed file.
        verdict: Takes the problems.
    """
    if not PATH.match(request.path):
        verdict.refuse("netplan.path", f"{request.path} is no place for a netplan file: expected /etc/netplan/NAME.yaml (fabric_netplan_path)")
        return
    hardware = hardware_of(request, live)
    names = set(hardware)
    try:
        with sandbox(run) as copy:
            before = copy.tree() if current.content not in (None, request.content) else None
            copy.place(request.path, None)
            others = copy.tree()
            refuse_claims(request, run, copy, others, hardware, verdict)
            if before is not None and not owned and MARK not in current.text:
                check_unmarked(request, before, verdict)
            if (current.content == request.content and request.foreign != "ignore") or verdict.problems:
                return
            copy.place(request.path, request.content)
            copy.generate()
            merged = copy.tree()
    except NetplanError as exc:
        verdict.refuse("netplan.rejected", f"netplan rejects the configuration of /etc/netplan with {request.path} as planned: {exc}")
        return
    for problem in netplan_tree.planned_differences(merged, request.planned):
        verdict.refuse("netplan.merged", f"{problem}: look for settings of it in the other files of /etc/netplan")
    if current.content == request.content:
        return
    for problem in netplan_tree.other_changes(before if before is not None else others, merged, names):
        verdict.refuse("netplan.others", f"{request.path} would change interfaces outside the plan: {problem}. "
                       f"Move those settings from {request.path} to a file of their own")


def check_unmarked(request: Request, before: t.Mapping[str, t.Any], verdict: Verdict) -> None:
    """Refuse to replace a file at our path that somebody else wrote and that means something else."""
    if netplan_tree.same_meaning(before, request.planned) or request.foreign == "adopt":
        return
    held = {key: settings for key, settings in netplan_tree.definitions(before).items() if key[1] in {planned.name for planned in request.planned}}
    shown = "; ".join(f"{kind}.{name}: {settings.get('addresses') or 'no addresses'}" for (kind, name), settings in held.items()) or "other interfaces"
    verdict.refuse("netplan.foreign", f"{request.path} was not written by this collection and differs from the plan ({shown}). "
                   "Set fabric_foreign_netplan: adopt to replace it (its bytes are kept on the node and come back on undo), move it away, or change the plan")


def validate(request: Request, run: Runner, live: t.Mapping[str, Live], current: managed_file.FileState, owned: bool, would_change: bool,
             known: bool = False) -> Verdict:
    """Return every reason why the node must not be changed; nothing is written.

    Args:
        request: What is asked for.
        run: Runs a command.
        live: The live state of the planned interfaces.
        current: The managed file as it is now.
        owned: Whether an earlier run wrote the managed file.
        would_change: Whether anything differs; a busy node where nothing is to do is no problem.
        known: Whether all netplan files are byte for byte those with which an earlier run ended well; then netplan is not asked again.
    """
    verdict = Verdict()
    tree = Tree("/")
    check_interfaces(request, live, tree, verdict)
    check_management(request, live, verdict)
    check_overlap(request, run, verdict)
    if would_change:
        check_busy(request, run, verdict)
    if not known:
        check_netplan(request, run, live, current, owned, verdict)
    return verdict
