# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Walk through a node's tests, round by round, and keep the results on the node.

All nodes walk the same rounds in the same order; a test starts when both its ends are there, so no two rounds
of one node overlap and nobody waits in a circle. A peer known to be dead is not waited for again.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils import command as programs, job_state, perftest_output, perftest_record, rdma_users
from ansible_collections.dgxspark.fabric.plugins.module_utils.perftest_contact import Contact
from ansible_collections.dgxspark.fabric.plugins.module_utils.perftest_spec import TCP_TOOL, JobSpec, LoadTest
from ansible_collections.dgxspark.fabric.plugins.module_utils.perftest_test import Patience, StartGate, Surroundings, TestEnd
from ansible_collections.dgxspark.fabric.plugins.module_utils.rendezvous import Rendezvous, Timing
from ansible_collections.dgxspark.fabric.plugins.module_utils.rendezvous_protocol import EndState
from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree
from ansible_collections.dgxspark.fabric.plugins.module_utils.tool_process import ToolProcess

#: Seconds that starting and ending a test takes besides its data; a first guess, then measured.
TEST_OVERHEAD = 2.5
#: Under this key, which is no test's, a node tells its peers which round it is ready for.
STEP = "step"


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """The node as the job sees it; tests put another one in its place."""

    directory: pathlib.Path = pathlib.Path(job_state.DEFAULT_DIRECTORY)
    tree: Tree = dataclasses.field(default_factory=Tree)
    find_tool: Callable[[str], str | None] = programs.find_program
    list_users: Callable[[], str] = lambda: programs.run(["rdma", "-j", "res", "show", "qp"]).out
    answers: Callable[[str], bool] | None = None
    timing: Timing = dataclasses.field(default_factory=Timing)
    patience: Patience = dataclasses.field(default_factory=Patience)
    reach: float = 8.0


class PerftestJob:
    """One node's share of a measurement. ``open``, then ``run``; ``abort`` from a signal handler."""

    def __init__(self, job: JobSpec, machine: Machine) -> None:
        self.job, self.machine = job, machine
        self.folder = job_state.StateFolder(machine.directory, job.run)
        self.rendezvous = Rendezvous(job.run, job.node, job.control_address, job.control_port, job.peers, machine.timing)
        self._tools: list[ToolProcess] = []
        self._lock = threading.Lock()
        self._records: dict[str, dict[str, Any]] = {test.id: perftest_record.empty(test) for test in job.tests}
        self._status, self._message = "running", ""
        self._version: str | None = None
        self._began = time.monotonic()
        self._spent: list[float] = []
        self._wanted: list[int] = []

    def open(self) -> None:
        """Make the state folder, the remains of earlier runs gone, and open the control port; raises OSError."""
        self.folder.create()
        self.folder.note_processes(os.getpid(), [])
        self.rendezvous.start()
        self._write_progress(0, 0)

    def run(self) -> dict[str, Any]:
        """Do the tests and return the result, which is also on disk by then."""
        try:
            busy = "" if self.job.force_busy else self._busy()
            if busy:
                self._refuse(busy)
            else:
                self._measure()
            self._write_progress(self.job.rounds, 0)
            self._linger()
        finally:
            self.abort()
            self.rendezvous.stop()
        return self.result()

    def abort(self) -> None:
        """End every tool that still runs."""
        with self._lock:
            tools = list(self._tools)
        for tool in tools:
            tool.end()

    def result(self) -> dict[str, Any]:
        """Return the result so far."""
        with self._lock:
            tests = [dict(record) for record in self._records.values()]
        left_out = [perftest_record.left_out(known) for known in self.job.not_run]
        return {"run": self.job.run, "node": self.job.node, "status": self._status, "message": self._message, "version": self._version,
                "tests": tests + left_out, "strangers": list(self.rendezvous.dropped)}

    def _measure(self) -> None:
        until = self._began + self.job.deadline
        around = Surroundings(
            job=self.job, rendezvous=self.rendezvous, folder=self.folder, tree=self.machine.tree, find_tool=self.machine.find_tool,
            contact=Contact(self.rendezvous, self.job.peers, self._began + self.job.start_skew, until, self.machine.answers, self.machine.reach),
            job_until=until, patience=self.machine.patience, started=self._tool_started, ended=self._tool_ended)
        asking = threading.Thread(target=self._ask_version, name="version", daemon=True)
        asking.start()
        rounds: dict[int, list[LoadTest]] = {}
        for test in self.job.tests:
            rounds.setdefault(test.round, []).append(test)
        for number in range(self.job.rounds) if self.job.in_step else sorted(rounds):
            if self.job.in_step:
                self._keep_step(number, until)
            tests = rounds.get(number)
            if not tests:
                continue
            self._write_progress(number, max(test.concurrent for test in tests), ", ".join(dict.fromkeys(test.stage for test in tests if test.stage)))
            began = time.monotonic()
            gate = StartGate(sum(test.role == "client" for test in tests), self.machine.patience.start_together)
            threads = [threading.Thread(target=self._one, args=(test, around, gate), name=test.id, daemon=True) for test in tests]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self._spent.append(min(time.monotonic() - began, self._since_last_start(tests)))
            self._wanted.append(self.job.seconds_of(number))
            self.folder.write(job_state.RESULT, self.result())
        asking.join(timeout=5)
        with self._lock:
            for record in self._records.values():
                record["version"] = record["version"] or (None if record["tool"] == TCP_TOOL else self._version)
        self._status = "done"

    def _since_last_start(self, tests: list[LoadTest]) -> float:
        """Return the seconds since the last of a round's clients started: what came before was waiting, not measuring."""
        with self._lock:
            starts = [self._records[test.id]["started"] for test in tests if test.role == "client" and self._records[test.id]["command"]]
        return time.time() - max(starts) + 1.0 if starts else float("inf")

    def _keep_step(self, number: int, until: float) -> None:
        """Wait until every node that lives has ended the rounds before ``number``."""
        for peer in self.job.peers:
            self.rendezvous.publish(peer, STEP, EndState("arrived", message=str(number)))
        late = min(until, self._began + self.job.start_skew)
        for peer in self.job.peers:
            while True:
                view = self.rendezvous.wait(peer, lambda view: view.departed or _step_of(view.tests) >= number or view.met and not view.alive, 0.5)
                if view.departed or _step_of(view.tests) >= number or (view.met and not view.alive):
                    break
                if time.monotonic() > (until if view.met else late):
                    break

    def _one(self, test: LoadTest, around: Surroundings, gate: StartGate) -> None:
        try:
            outcome, attempts = TestEnd(test, around, gate).run()
        except OSError as error:  # the state folder cannot be written
            outcome, attempts = perftest_record.Outcome("failed", "node_error", f"{self.job.node}: {error}"), 1
            self.rendezvous.publish(test.peer, f"{test.id}/1", EndState("finished", "failed", "node_error", outcome.message))
        with self._lock:
            self._records[test.id] = perftest_record.record(test, outcome, attempts)

    def _refuse(self, busy: str) -> None:
        """Do not measure, and tell the peers at once: they shall not wait."""
        self._status = "refused_busy"
        self._message = (f"{self.job.node} is busy: {busy} holds RDMA queue pairs, so bandwidth would be shared and wrong; end it, or measure all the same "
                         "with fabric_force_busy")
        for test in self.job.tests:
            state = EndState("finished", "not_run", "busy", self._message)
            for attempt in (1, 2):
                self.rendezvous.publish(test.peer, f"{test.id}/{attempt}", state)
            with self._lock:
                self._records[test.id] |= {"error": "busy", "message": self._message}

    def _linger(self) -> None:
        """Stay until each peer has ended the tests that it shares with this node, or is gone: they may still ask for our word."""
        tests: dict[str, list[str]] = {}
        for test in self.job.tests:
            tests.setdefault(test.peer, []).append(test.id)
        late = self._began + (self.job.start_skew if self._status == "refused_busy" else 0)
        for peer, ids in tests.items():
            until = max(time.monotonic() + self.machine.patience.exchange, late)
            while time.monotonic() < until:
                view = self.rendezvous.wait(
                    peer, lambda view, ids=ids: view.departed or view.met and not view.alive or view.alive and _through(view.tests, ids), 0.25)
                if view.departed or (view.met and not view.alive) or (view.alive and _through(view.tests, ids)):
                    break

    def _busy(self) -> str:
        """Name the foreign processes with queue pairs on the devices of this job, "" when there are none."""
        return rdma_users.describe(rdma_users.foreign_users(self.machine.list_users(), self.job.devices, {os.getpid()}))

    def _ask_version(self) -> None:
        """Find perftest's version: the option exits 1, whatever it prints."""
        for tool in {test.tool for test in self.job.tests if not test.tcp}:
            program = self.machine.find_tool(tool)
            if program is not None:
                answer = programs.run([program, "-V"], timeout=10)
                self._version = perftest_output.parse_version(answer.out) or perftest_output.parse_version(answer.err)
                return

    def _tool_started(self, tool: ToolProcess) -> None:
        with self._lock:
            self._tools.append(tool)
            self.folder.note_processes(os.getpid(), [each.pid for each in self._tools])

    def _tool_ended(self, tool: ToolProcess) -> None:
        with self._lock:
            self._tools.remove(tool)
            self.folder.note_processes(os.getpid(), [each.pid for each in self._tools])

    def _write_progress(self, number: int, running: int, what: str = "") -> None:
        """Keep where the job stands; the result goes first, so that "done" means that it is there."""
        if self._status != "running":
            self.folder.write(job_state.RESULT, self.result())
        overhead = max(0.0, sum(self._spent) - sum(self._wanted)) / len(self._spent) if self._spent else TEST_OVERHEAD
        left = sum(self.job.seconds_of(rest) + overhead for rest in range(number, self.job.rounds)) if self._status == "running" else 0.0
        self.folder.write(job_state.PROGRESS, {
            "run": self.job.run, "node": self.job.node, "status": self._status, "round": min(number + 1, self.job.rounds), "rounds": self.job.rounds,
            "running": running, "what": what, "seconds_left": round(left, 1), "pid": os.getpid()})


def _step_of(tests: Mapping[str, EndState]) -> int:
    """Return the round that a peer is ready for, -1 before its first word about it."""
    words = tests.get(STEP, EndState()).message or ""
    return int(words) if words.isascii() and words.isdigit() and len(words) < 9 else -1


def _through(tests: Mapping[str, EndState], ids: list[str]) -> bool:
    """Tell whether a peer has finished all of ``ids``, at its first or second attempt."""
    return all(tests.get(f"{test}/1", EndState()).stage == "finished" for test in ids)
