# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Apply a plan on a node: write, apply detached, watch the live state, take everything back when it is not reached."""

from __future__ import annotations

import json
import os
import time
import typing as t
from dataclasses import dataclass, field

from ansible_collections.dgxspark.fabric.plugins.module_utils import arp_settings, iproute, live_state, managed_file
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import Runner
from ansible_collections.dgxspark.fabric.plugins.module_utils.dead_man import PROFILES, DeadMan, Management, rollback_script
from ansible_collections.dgxspark.fabric.plugins.module_utils.live_state import Difference, Live
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_compare import Comparison
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_sandbox import error_text
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_verdict import Request
from ansible_collections.dgxspark.fabric.plugins.module_utils.provision_record import live_record
from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree

POLL_SECONDS = 0.5
# A link that was just switched on, or whose MTU changed, negotiates for some seconds.
LINK_GRACE_SECONDS = 10.0
# The IPv4 GID follows its address within a second or two.
GID_GRACE_SECONDS = 10.0
# How long setting values directly may take before netplan is asked.
DIRECT_SECONDS = 5.0
# netplan itself and the rollback script's own work, beyond the time that the module waits.
MARGIN_SECONDS = 30.0


class NotReached(RuntimeError):
    """The live state did not become what the plan wants."""


@dataclass
class Outcome:
    """What an apply did."""

    actions: list[str] = field(default_factory=list)
    token: str | None = None
    waited_seconds: float = 0.0


@dataclass(frozen=True)
class Goal:
    """Where a change leads.

    ``compare`` says what is missing; ``uppers`` are virtual interfaces that go; ``kind`` is "provision" or "undo"; ``rejected`` says that netplan does
    not accept the configuration that is to be there, which only undo may want: it was so before.
    """

    compare: t.Callable[[t.Mapping[str, Live]], Comparison]
    uppers: t.Sequence[str] = ()
    kind: str = "provision"
    rejected: bool = False


class Apply:
    """One apply on one node."""

    def __init__(self, request: Request, run: Runner, dead_man: DeadMan, goal: Goal, clock: t.Callable[[], float] = time.monotonic,
                 sleep: t.Callable[[float], None] = time.sleep) -> None:
        self.goal = goal
        self.request = request
        self.run = run
        self.dead_man = dead_man
        self.clock = clock
        self.sleep = sleep
        self.outcome = Outcome()

    def perform(self, comparison: Comparison, before: t.Mapping[str, Live]) -> Outcome:
        """Make the node as planned.

        Raises:
            NotReached: The state was not reached; everything was taken back.
            DeadManError: The change could not be made safe; nothing was changed.
            managed_file.FileError: A file cannot be written; everything was taken back.
        """
        had_links = {name for name, live in before.items() if live.carrier or not live.admin_up}
        if comparison.needs_netplan:
            self._guarded(comparison, before, had_links)
        else:
            self._write_files(comparison)
            self._set_arp(comparison.mendable)
            if not self._set_directly(had_links):
                self._guarded(comparison, before, had_links)
        self._tell_neighbours(comparison)
        return self.outcome

    def _guarded(self, comparison: Comparison, before: t.Mapping[str, Live], had_links: set[str]) -> None:
        """Apply netplan with the dead-man timer armed."""
        token = f"{int(time.time()):x}-{os.getpid():x}"
        states = [file.state for file in comparison.files]
        script = rollback_script([state.path for state in states], self.request.planned, before, netplan=True, management=self._management())
        more = {"kind": self.goal.kind, "live": {name: live_record(live) for name, live in before.items() if live.exists},
                "interfaces": {interface.name: interface.address for interface in self.request.planned}}
        self.dead_man.arm(token, self.request.timeout + self.request.confirm_seconds + MARGIN_SECONDS, states, script, more)
        self.outcome.token = token
        try:
            self._write_files(comparison)
            self._set_arp(comparison.mendable)
            self._let_go(comparison)
            self._run_netplan(token)
            self._wait(token, had_links)
        except (NotReached, managed_file.FileError) as exc:
            said = self.dead_man.roll_back(str(exc))
            raise NotReached(f"{exc}. Everything was taken back{f' ({said})' if said else ''}; the node is as it was before") from exc

    def _write_files(self, comparison: Comparison) -> None:
        for file in comparison.files:
            # After a direct attempt that did not suffice they are written already.
            if file.write():
                self.outcome.actions.append(f"{'wrote' if file.content is not None else 'removed'} {file.state.path}")

    def _let_go(self, comparison: Comparison) -> None:
        """Take away what the old configuration made and netplan leaves: profiles in NetworkManager's memory, bonds and VLANs."""
        if any(file.state.path.startswith(PROFILES) for file in comparison.files if file.differs):
            self.run(["nmcli", "connection", "reload"], timeout=30)
        for upper in self.goal.uppers:
            if Tree("/").exists("sys/class/net", upper):
                done = self.run(["ip", "link", "delete", "dev", upper], timeout=10)
                self.outcome.actions.append(f"ip link delete dev {upper}" + ("" if done.rc == 0 else f": {done.err.strip()}"))

    def _set_arp(self, found: t.Iterable[Difference]) -> None:
        wanted: dict[str, dict[str, int]] = {}
        for difference in found:
            if difference.mend == "arp":
                wanted.setdefault(difference.subject, {})[difference.key] = int(difference.wanted)
        for name, values in sorted(wanted.items()):
            try:
                arp_settings.apply_live(Tree("/"), name, values)
            except OSError as exc:
                raise NotReached(f"the ARP settings of {name} cannot be set: {exc.strerror}") from exc
            # What was learned under the old settings may be the other rail's MAC.
            self.run(["ip", "neigh", "flush", "dev", name], timeout=10)
            self.outcome.actions.append(f"set {' and '.join(values)} of {name}, flushed its neighbours")

    def _compare(self) -> Comparison:
        return self.goal.compare(live_state.read(self.run, self.request.planned))

    def _mend_live(self, found: t.Iterable[Difference]) -> None:
        """Set directly what needs no netplan: MTU, enabled, surplus addresses, addresses that no file gives; on the planned interfaces only."""
        for difference in found:
            name = difference.subject
            if difference.key == "mtu":
                command = ["ip", "link", "set", "dev", name, "mtu", str(difference.wanted)]
            elif difference.key == "enabled":
                command = ["ip", "link", "set", "dev", name, "up" if difference.wanted == "yes" else "down"]
            elif difference.key == "master":
                command = ["ip", "link", "set", "dev", name, "nomaster"]
            elif difference.mend == "restore":
                command = ["ip", "addr", "replace", str(difference.wanted), "dev", name]
            elif difference.key == "surplus_address":
                command = ["ip", "addr", "del", str(difference.live), "dev", name]
            else:
                continue
            done = self.run(command, timeout=10)
            self.outcome.actions.append(" ".join(command) + ("" if done.rc == 0 else f": {done.err.strip()}"))

    def _set_directly(self, had_links: set[str]) -> bool:
        """Return whether setting values directly was enough."""
        start = self.clock()
        self._mend_live(self._compare().differences)
        while True:
            left = self._compare()
            waiting = [difference for difference in left.differences if difference.key == "link" and difference.subject in had_links]
            elapsed = self.clock() - start
            if not left.would_change and (not waiting or elapsed > LINK_GRACE_SECONDS):
                return True
            if left.would_change and elapsed > DIRECT_SECONDS:
                return False
            self.sleep(POLL_SECONDS)

    def _run_netplan(self, token: str) -> None:
        """Start ``netplan apply`` in a unit of its own: an ssh session that ends does not end it."""
        pending = self.dead_man.pending
        script = f"netplan apply >{pending}/apply.log 2>&1; echo $? >{pending}/apply.rc.new; mv {pending}/apply.rc.new {pending}/apply.rc"
        done = self.run(["systemd-run", "--collect", f"--unit=dgxspark-fabric-apply-{token}", f"--property=RuntimeMaxSec={self.request.timeout:.0f}",
                         "/bin/sh", "-c", script], timeout=30)
        if done.rc != 0:
            raise NotReached(f"netplan apply cannot be started by systemd-run: {done.err.strip()}")
        self.outcome.actions.append("netplan apply")

    def _management_entry(self) -> str | None:
        """Return the management address with its prefix, if it is on its interface now."""
        if not self.request.management_interface or not self.request.management_address:
            return None
        done = self.run(["ip", "-j", "addr", "show", "dev", self.request.management_interface], timeout=10)
        try:
            families = iproute.parse_addresses(done.out).get(self.request.management_interface, {})
        except iproute.IprouteError:
            return None
        entries = [entry for group in families.values() for entry in group]
        return next((entry for entry in entries if entry.partition("/")[0] == self.request.management_address), None)

    def _management(self) -> Management | None:
        """Return how the node is reached, for the way back."""
        entry = self._management_entry()
        if entry is None:
            return None
        name = str(self.request.management_interface)
        done = self.run(["ip", "-j", "-4", "route", "show", "dev", name], timeout=10)
        try:
            # Filtered by interface, ip leaves the interface out of its answer.
            routes = [(str(route["dst"]), str(route["gateway"])) for route in json.loads(done.out or "[]") if route.get("gateway")]
        except ValueError:
            routes = []
        return Management(name, entry, tuple(routes))

    def _management_missing(self) -> bool:
        return bool(self.request.management_interface and self.request.management_address) and self._management_entry() is None

    def _exit_status(self) -> str | None:
        return Tree("/").text(str(self.dead_man.pending), "apply.rc")

    def _wait(self, token: str, had_links: set[str]) -> None:
        """Poll until the live state is as planned and management is back, twice in a row."""
        start = self.clock()
        ended: float | None = None
        steady = 0
        missing = ["netplan apply has not ended"]
        while (elapsed := self.clock() - start) < self.request.timeout:
            status = self._exit_status()
            if status is None:
                self.sleep(POLL_SECONDS)
                continue
            if status != "0" and not self.goal.rejected:
                text = error_text(Tree("/").text(str(self.dead_man.pending), "apply.log") or "")
                raise NotReached(f"netplan apply ended with status {status}: {text[-500:]}")
            ended = elapsed if ended is None else ended
            comparison = self._compare()
            if elapsed - ended > 1.0:
                # The renderer had its turn: what it leaves (other addresses, an MTU that it does not set) is set directly.
                self._mend_live(comparison.differences)
            missing = [difference.message for difference in comparison.mendable]
            missing += [f"{file.state.path} is not as written" for file in comparison.files if file.differs]
            for difference in comparison.differences:
                if difference.key == "gid" and elapsed - ended < GID_GRACE_SECONDS:
                    missing.append(difference.message)
                if difference.key == "link" and difference.subject in had_links and elapsed - ended < LINK_GRACE_SECONDS:
                    missing.append(difference.message)
            if self._management_missing():
                missing.append(f"the management address {self.request.management_address} is not on {self.request.management_interface}")
            steady = 0 if missing else steady + 1
            if steady >= 2:
                self.outcome.waited_seconds = round(elapsed, 1)
                return
            self.sleep(POLL_SECONDS)
        raise NotReached(f"after {self.request.timeout:.0f} s: {'; '.join(missing)}")

    def _tell_neighbours(self, comparison: Comparison) -> None:
        """Announce the node's addresses: a neighbour that learned the other rail's MAC before corrects its entry."""
        if not self.request.arp or not comparison.would_change or self.goal.kind == "undo":
            return
        for interface in self.request.planned:
            live = live_state.read(self.run, [interface])[interface.name]
            if interface.address and live.mac and live.carrier:
                arp_settings.announce(interface.name, live.mac, interface.address.partition("/")[0])
