# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reach the peer of a test, or say for certain why it cannot be reached.

An absent node, a node that died, and a firewall that blocks the control port are three findings. They are
told apart by both directions of the rendezvous and by whether the node answers anything else.
"""

from __future__ import annotations

import errno
import shutil
import socket
import subprocess
import time
from collections.abc import Callable

from ansible_collections.dgxspark.fabric.plugins.module_utils.rendezvous import DialFailure, PeerView, Rendezvous

#: A peer that speaks to us is given this long (seconds) to be reached at its own control port as well.
REACH_SECONDS = 8.0
SSH_PORT = 22


class TestEnded(Exception):
    """A test came to its end before, or instead of, a measurement: ``status``, class of ``error``, ``message``."""

    def __init__(self, status: str, error: str, message: str) -> None:
        super().__init__(message)
        self.status, self.error, self.message = status, error, message


class Contact:
    """Waits for peers on behalf of a node's tests. What was found out about a peer is kept for later rounds."""

    def __init__(self, rendezvous: Rendezvous, addresses: dict[str, str], start_until: float, job_until: float,
                 answers: Callable[[str], bool] | None = None, reach: float = REACH_SECONDS) -> None:
        """Peers may be late until ``start_until``; nothing waits beyond ``job_until`` (both on the monotonic clock)."""
        self._reach = reach
        self._rendezvous = rendezvous
        self._addresses = addresses
        self._start_until, self._job_until = start_until, job_until
        self._answers = answers or answers_otherwise
        self._verdicts: dict[str, TestEnded] = {}

    def meet(self, peer: str, as_client: bool) -> None:
        """Return when ``peer`` is here, and its control port reachable if we are the test's client; raises TestEnded."""
        known = self._verdicts.get(peer)
        if known is not None and not self._rendezvous.view(peer).alive:
            raise TestEnded(known.status, known.error, known.message)
        while True:
            view = self._rendezvous.wait(peer, lambda view: view.reachable or not as_client and view.alive or view.departed, 0.25)
            if view.departed or view.reachable or (view.alive and not as_client):
                return
            ended = self._blocked(view) if view.connected else None if view.alive else self._absent(view)
            if ended is not None:
                self._verdicts[peer] = ended
                raise ended

    def _blocked(self, view: PeerView) -> TestEnded | None:
        """Judge a peer that speaks to us while we cannot reach its control port."""
        failure = view.dial_failure
        late = view.met_for > self._reach or time.monotonic() > self._job_until
        if not late and (failure is None or failure.count < 2 or view.met_for < self._reach / 3):
            return None
        failure = failure or DialFailure("timeout", "no answer", 1)
        return TestEnded("control_blocked", f"control_{failure.kind}", self._firewall(view.name, failure, "it speaks to this node, so it is alive"))

    def _absent(self, view: PeerView) -> TestEnded | None:
        """Judge a peer that is not here: lost at once, never seen only when the time for late starts is over."""
        address = self._addresses[view.name]
        if view.met:
            return TestEnded("peer_absent", "peer_lost", f"{view.name} ({address}) was here and has fallen silent or hung up: "
                             "the node, or its measuring job, died")
        failure = view.dial_failure
        if failure is not None and failure.kind == "unresolved":
            return TestEnded("peer_absent", "peer_unresolved", f"the management address of {view.name} cannot be resolved: {failure.text}")
        if time.monotonic() < min(self._start_until, self._job_until):
            return None
        if failure is None:
            failure = DialFailure("timeout", "no answer", 1)
        if failure.kind in ("timeout", "unreachable") and self._answers(address):
            return TestEnded("control_blocked", f"control_{failure.kind}", self._firewall(view.name, failure, "the node answers otherwise"))
        causes = {
            "refused": f"its measuring job did not start, or a firewall rejects TCP port {self._rendezvous.port} there",
            "timeout": f"the node is down, or a firewall drops all that comes to {address}",
            "unreachable": "the node is down, or the management network between the two is",
        }
        return TestEnded("peer_absent", f"connect_{failure.kind}",
                         f"{view.name} never came: TCP {address} port {self._rendezvous.port} says \"{failure.text}\"; "
                         f"{causes.get(failure.kind, failure.text)}")

    def _firewall(self, peer: str, failure: DialFailure, evidence: str) -> str:
        return (f"TCP port {self._rendezvous.port} of {peer} ({self._addresses[peer]}) is blocked ({failure.text}), although {evidence}: "
                "open it in the firewall of the management network for the cluster's nodes (fabric_control_port, and the ports from "
                "fabric_test_port_base up)")


def answers_otherwise(address: str) -> bool:
    """Tell whether a node gives any sign of life besides its control port: its ssh port, open or closed, or ping."""
    try:
        with socket.create_connection((address, SSH_PORT), timeout=2.0):
            return True
    except OSError as error:
        if error.errno == errno.ECONNREFUSED:
            return True
    ping = shutil.which("ping")
    if ping is None:
        return False
    try:
        return subprocess.run([ping, "-n", "-q", "-c", "1", "-W", "1", address], check=False, capture_output=True, timeout=5).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
