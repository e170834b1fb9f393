# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One end of one test: check, meet the peer, run the tool, watch over it, exchange outcomes.

Server: starts its tool, sees it listen, says so. Client: starts its tool when the server listens. Both: end
the tool when the peer dies, when the peer's end is over, or at the deadline. No tool is waited for without
a limit, and none is left behind.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable

from ansible_collections.dgxspark.fabric.plugins.module_utils import device_state, iperf3_run, listening_socket, perftest_record
from ansible_collections.dgxspark.fabric.plugins.module_utils.job_state import StateFolder
from ansible_collections.dgxspark.fabric.plugins.module_utils.perftest_contact import Contact, TestEnded
from ansible_collections.dgxspark.fabric.plugins.module_utils.perftest_errors import CLOCK_UNSTABLE, COMPLETION_NAMES
from ansible_collections.dgxspark.fabric.plugins.module_utils.perftest_record import GENERIC, Outcome
from ansible_collections.dgxspark.fabric.plugins.module_utils.perftest_spec import JobSpec, LoadTest, command
from ansible_collections.dgxspark.fabric.plugins.module_utils.rendezvous import Rendezvous
from ansible_collections.dgxspark.fabric.plugins.module_utils.rendezvous_protocol import EndState
from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree
from ansible_collections.dgxspark.fabric.plugins.module_utils.tool_process import ToolProcess

ATTEMPTS = 2
#: Errors that may pass: completion errors, a clock that the tool could not calibrate, and a tool that crashed.
PASSING_ERRORS = ("completion_error", CLOCK_UNSTABLE, perftest_record.TOOL_CRASHED, *(name for name, dummy in COMPLETION_NAMES.values()))
FIREWALL = "a firewall on the management network {} it; open the ports from fabric_test_port_base up there"


@dataclasses.dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that things may take: a GID to appear after its address, a server to listen, a client to connect,
    one end to end after the other did, outcomes to be exchanged, a round's clients to start together."""

    gid: float = 2.5
    listen: float = 15.0
    connect: float = 10.0
    peer_end: float = 5.0
    exchange: float = 4.0
    start_together: float = 4.0
    poll: float = 0.1
    watch: float = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Surroundings:
    """What the tests of a job share. ``find_tool`` returns a program's path or None; ``tree`` is where sysfs is read."""

    job: JobSpec
    rendezvous: Rendezvous
    contact: Contact
    folder: StateFolder
    tree: Tree
    find_tool: Callable[[str], str | None]
    job_until: float
    patience: Patience
    started: Callable[[ToolProcess], None]
    ended: Callable[[ToolProcess], None]


class StartGate:
    """Lets the clients of one node's round start together, so that both rails of a cable are loaded at once.

    Who is ready waits for those that still may become ready, within a limit counted from the first one.
    """

    def __init__(self, clients: int, limit: float) -> None:
        self._pending, self._limit = clients, limit
        self._until: float | None = None
        self._condition = threading.Condition()

    def pass_through(self) -> None:
        """Wait for the others."""
        with self._condition:
            self._pending -= 1
            self._condition.notify_all()
            if self._until is None:
                self._until = time.monotonic() + self._limit
            self._condition.wait_for(lambda: self._pending <= 0, max(0.0, self._until - time.monotonic()))

    def leave(self) -> None:
        """Count out a client that will not start."""
        with self._condition:
            self._pending -= 1
            self._condition.notify_all()


class TestEnd:
    """Runs one test at this end; ``run`` once."""

    def __init__(self, test: LoadTest, around: Surroundings, gate: StartGate) -> None:
        self.test, self.around, self.gate = test, around, gate
        self.client = test.role == "client"
        self._passed_gate = not self.client
        self._tool: ToolProcess | None = None
        self._details: dict = {}

    def run(self) -> tuple[Outcome, int]:
        """Return the outcome and the number of attempts.

        A test is repeated once when addresses changed while it ran, when a work request ended with an error, without a clock, or when the tool crashed:
        the repetition tells a passing disturbance from a fault. What came before is kept as ``earlier``.
        """
        earlier: list[dict[str, str | None]] = []
        for attempt in range(1, ATTEMPTS + 1):
            key = f"{self.test.id}/{attempt}"
            outcome = self._attempt(key)
            errors, changed = {outcome.error}, outcome.changed
            peer = self._exchange(key, outcome)
            outcome = self._with_peer(outcome, peer)
            # Both ends decide by the same two published outcomes, so they decide alike.
            if not (changed or peer.changed or (errors | {peer.error}) & set(PASSING_ERRORS)) or not peer.reached("finished"):
                break
            earlier.append({"status": outcome.status, "error": outcome.error, "message": outcome.message})
        if (outcome.changed or peer.changed) and outcome.status == "ok":
            outcome.status = "void"
            outcome.details |= perftest_record.NO_NUMBERS
        outcome.details["earlier"] = earlier[:attempt - 1]
        return outcome, attempt

    def _attempt(self, key: str) -> Outcome:
        """Run the test once."""
        self._details = {"started": time.time()}
        self._tool = None
        before = None
        try:
            program, before, index = self._prepare()
            self._publish(key, EndState("arrived"))
            self.around.contact.meet(self.test.peer, as_client=self.client)
            if self.client:
                self._await_peer(key, "listening")
            # A server starts at once, so that it is up when the client comes, however late that may be.
            if not self._passed_gate:
                self._passed_gate = True
                self.gate.pass_through()
            self._start(program, index)
            if not self.client:
                self._await_listening()
            self._publish(key, EndState("running" if self.client else "listening"))
            code = self._watch(key)
            outcome = self._refused(self._read(code))
        except TestEnded as ended:
            outcome = Outcome(ended.status, ended.error, ended.message)
            if self._tool is not None:
                self._tool.end()
                outcome.details = self._read(self._tool.exit_code).details
                outcome.details |= perftest_record.NO_NUMBERS
        finally:
            if not self._passed_gate:
                self._passed_gate = True
                self.gate.leave()
            if self._tool is not None:
                self._tool.end()
                self.around.ended(self._tool)
        self._details["ended"] = time.time()
        if before is not None:
            after = device_state.look(self.around.tree, self.test.device, self.test.interface)
            self._details["counters"] = device_state.counter_deltas(before, after)
            words = device_state.gid_changes(before, after)
            if words and self._tool is not None:
                outcome.changed = True
                outcome.message = "; ".join(filter(None, [f"{words} on {self.around.job.node} {self.test.device} during the test", outcome.message]))
        outcome.details = {**self._details, **outcome.details}
        return outcome

    def _prepare(self) -> tuple[str, device_state.DeviceState, int | None]:
        """Look at the own end: tool, device, port, GID of the planned address; a TCP test needs none of the last three."""
        test, node = self.test, self.around.job.node
        program = self.around.find_tool(test.tool)
        if program is None:
            package = test.tool if test.tcp else "perftest"
            raise TestEnded("failed", "tool_missing", f"{test.tool} is not installed on {node}: install the package {package} there "
                            "(fabric_packages does)")
        if test.tcp:
            return program, device_state.look(self.around.tree, test.device, test.interface), None
        until = time.monotonic() + self.around.patience.gid
        while True:
            state = device_state.look(self.around.tree, test.device, test.interface)
            index = state.gid_index(test.address)
            if not state.exists:
                raise TestEnded("failed", "device_missing", f"{node} has no RDMA device {test.device} (interface {test.interface}): "
                                "its driver is not loaded, or it has another name")
            if state.port is not None and state.port != "ACTIVE" and time.monotonic() > until:
                raise TestEnded("failed", "link_down", f"the port of {test.device} ({test.interface}) on {node} is {state.port}, expected ACTIVE: "
                                "check the cable")
            if index is not None and state.port in ("ACTIVE", None):
                self._details |= {"gid_index": index, "gid_ipv4": test.address}
                return program, state, index
            if time.monotonic() > until:
                raise TestEnded("failed", "gid_missing", f"{test.device} on {node} has no RoCE v2 GID for {test.address} (it has: "
                                f"{', '.join(state.addresses()) or 'none'}): the address is not on {test.interface}")
            time.sleep(0.2)  # a GID follows its address by 0.1 to 1.1 s

    def _await_peer(self, key: str, stage: str) -> None:
        """Wait until the peer is at ``stage``. It may be held up by others: as long as it lives, it is waited for."""
        while True:
            view = self.around.rendezvous.wait(
                self.test.peer, lambda view: view.test(key).reached(stage) or view.departed or not view.alive, self.around.patience.poll * 10)
            state = view.test(key)
            if state.stage == "finished":
                raise self._peer_ended(state)
            if state.reached(stage):
                return
            self._check_peer(view)
            self._check_deadline()

    def _check_deadline(self) -> None:
        if time.monotonic() > self.around.job_until:
            raise TestEnded("not_run", "job_deadline", f"the job's deadline came while {self.test.peer} was still at other tests")

    def _start(self, program: str, index: int | None) -> None:
        line = iperf3_run.command(self.test, program) if index is None else command(self.test, program, index)
        self._details["command"] = line
        self._details["started"] = time.time()
        try:
            self._tool = ToolProcess(line, self.around.folder.scratch, f"{self.test.round}-{self.test.port}-{self.test.role}")
        except OSError as error:
            raise TestEnded("failed", "tool_missing", f"{program} cannot be started on {self.around.job.node}: {error}") from error
        self.around.started(self._tool)

    def _await_listening(self) -> None:
        """Wait until our tool listens, which /proc tells."""
        tool, until = self._running(), time.monotonic() + self.around.patience.listen
        while not listening_socket.listens(tool.pid, self.test.port):
            if tool.exit_code is not None:
                outcome = self._read(tool.exit_code)
                raise TestEnded("failed", outcome.error or "no_output", outcome.message or f"{self.test.tool} ended before it listened")
            if time.monotonic() > until:
                raise TestEnded("timeout", "not_listening", f"{self.test.tool} did not listen on port {self.test.port} "
                                f"within {self.around.patience.listen:g} s")
            time.sleep(self.around.patience.poll)

    def _watch(self, key: str) -> int | None:
        """Stay with the running tool; return its exit status."""
        tool, test, patience = self._running(), self.test, self.around.patience
        limit = test.seconds + self.around.job.grace
        # The server's clock starts when the client's tool does, and it gives the client's verdict time to arrive.
        client_started = time.monotonic() if self.client else None
        give_up: float | None = None
        served = self.client
        while True:
            code = tool.exit_code
            if code is not None:
                return code
            # Looking costs processor time, which the measurement needs: seldom, while the tool cannot be done yet.
            measuring = client_started is not None and time.monotonic() - client_started < test.seconds
            pause = patience.watch if measuring else patience.poll
            view = self.around.rendezvous.wait(test.peer, lambda view: view.test(key).stage == "finished" or not view.alive, pause)
            state, now = view.test(key), time.monotonic()
            if state.stage == "finished":
                code = tool.wait(patience.peer_end)
                if code is not None:
                    return code
                if state.status == "ok":
                    tool.end()
                    return 0  # the measurement is done; a server that lingers is ended
                raise self._peer_ended(state)
            self._check_peer(view)
            if client_started is None and state.reached("running"):
                client_started = now
            if client_started is None:
                if give_up is None and state.reached("arrived"):
                    give_up = now + patience.start_together + patience.peer_end + limit
                if give_up is not None and now > give_up:
                    raise TestEnded("timeout", "client_not_started", f"{test.peer} did not start its {test.tool}")
                self._check_deadline()
                continue
            if not served and now - client_started > patience.connect:
                served = not self._nobody_came(tool)
            if not served and now - client_started > patience.connect:
                raise self._nothing_arrived()
            if now - client_started > limit + (0 if self.client else patience.peer_end):
                stands = "the connection stands, but its data does not arrive" if test.tcp else "the parameters were exchanged, but no RDMA traffic completes"
                raise TestEnded("timeout", "hang", f"{test.tool} did not end within {limit:g} s ({test.seconds} s of data wanted): {stands}")

    def _refused(self, outcome: Outcome) -> Outcome:
        """Name the firewall when the tool could not connect to a server that listens."""
        if self.client and outcome.error == "connect_failed" and not self.test.tcp:
            outcome.status, outcome.error = "control_blocked", "test_port_blocked"
            outcome.message = (f"{self.test.tool} on {self.test.peer} listened on TCP {self.test.server_address} port {self.test.port}, but the connection "
                               f"was not accepted: {FIREWALL.format('rejects')} ({outcome.message})")
        return outcome

    def _nothing_arrived(self) -> TestEnded:
        """Say whose fault it is that no client came: of the management network, or with TCP, which takes the fabric, of the path."""
        test = self.test
        if test.tcp:
            return TestEnded("failed", "fabric_tcp_dead", f"{test.tool} listens on {test.address} port {test.port}, {test.peer} has started its "
                             "client, but nothing arrives over the fabric: cable, address or a firewall on the fabric interfaces")
        return TestEnded("control_blocked", "test_port_blocked", f"{test.tool} listens on TCP {test.server_address} port {test.port}, but nothing of "
                         f"{test.peer} arrived there: {FIREWALL.format('drops')}")

    def _nobody_came(self, tool: ToolProcess) -> bool:
        """Tell whether our server still listens with nobody connected; it closes that socket once it has its client."""
        return listening_socket.listens(tool.pid, self.test.port) and not listening_socket.connected(tool.pid, self.test.port)

    def _check_peer(self, view) -> None:  # type: ignore[no-untyped-def]
        if view.departed or not view.alive:
            how = "ended its job" if view.departed else "fell silent or hung up: the node, or its measuring job, died"
            raise TestEnded("peer_absent", "peer_lost", f"{self.test.peer} {how}")

    def _peer_ended(self, state: EndState) -> TestEnded:
        status = state.status if state.status in ("timeout", "control_blocked", "not_run") else "failed"
        return TestEnded(status, state.error or "peer_ended", f"{self.test.peer} says: {state.message or state.status}")

    def _running(self) -> ToolProcess:
        if self._tool is None:
            raise TestEnded("failed", "tool_missing", f"{self.test.tool} was not started")
        return self._tool

    def _read(self, code: int | None) -> Outcome:
        """Judge what our tool printed."""
        return (iperf3_run if self.test.tcp else perftest_record).read_run(self.test, *self._output(), code)

    def _output(self) -> tuple[str, str]:
        return self._tool.output() if self._tool is not None else ("", "")

    def _publish(self, key: str, state: EndState) -> None:
        self.around.rendezvous.publish(self.test.peer, key, state)

    def _exchange(self, key: str, outcome: Outcome) -> EndState:
        """Tell the outcome, and wait a little for the peer's."""
        self._publish(key, EndState("finished", outcome.status, outcome.error, outcome.message, outcome.changed))
        view = self.around.rendezvous.wait(
            self.test.peer, lambda view: view.test(key).stage == "finished" or view.departed or not view.alive, self.around.patience.exchange)
        return view.test(key)

    def _with_peer(self, outcome: Outcome, peer: EndState) -> Outcome:
        """Complete an outcome by the peer's: its cause is better than our "the peer broke off"."""
        if not peer.reached("finished"):
            return outcome
        outcome.details |= {"peer_status": peer.status, "peer_error": peer.error}
        if outcome.status == "failed" and outcome.error in GENERIC and peer.error is not None and peer.error not in GENERIC:
            ended = self._peer_ended(peer)
            outcome.status, outcome.error, outcome.message = ended.status, ended.error, ended.message
        return outcome
