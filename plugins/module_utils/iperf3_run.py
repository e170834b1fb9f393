# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One end of a TCP test: the command line of iperf3, and what its output says of the test.

iperf3 has no device option: the address chooses the path, so its control connection takes the fabric too. That the peer is
there, and its server listens, is known from the management network; a connection that fails then says that the path is dead.
"""

from __future__ import annotations

import re

from ansible_collections.dgxspark.fabric.plugins.module_utils import iperf3_output, perftest_output
from ansible_collections.dgxspark.fabric.plugins.module_utils.perftest_record import NO_NUMBERS, Outcome
from ansible_collections.dgxspark.fabric.plugins.module_utils.perftest_spec import LoadTest

#: Milliseconds for the connection over the fabric; a dead path would hold the client for minutes.
CONNECT_TIMEOUT_MS = 8000
#: Reports in between are few, so that the output stays small however long a test is; each tells the path MTU.
REPORTS = 5

#: What iperf3 says when it fails: class of error, text, meaning. In order of precedence.
CLASSES = (
    ("bad_option", r"unrecognized option|invalid option|parameter error|requires an argument", "the tool does not take the options it was given"),
    ("address_missing", "Cannot assign requested address", "the planned address is not on this node"),
    ("port_taken", "Address already in use", "the TCP port is held by another process"),
    ("fabric_tcp_refused", "Connection refused",
     "the server listens, but its connection over the fabric is rejected: a firewall on the fabric interfaces does that"),
    ("fabric_tcp_dead", r"No route to host|Network is unreachable|timed out|[Tt]imeout|Operation now in progress",
     "the server listens, but no TCP connection over the fabric comes about: cable, address or a firewall on the fabric interfaces"),
    ("port_taken", "server is busy", "another client holds the server"),
    ("peer_lost", r"control socket has closed|Connection reset|Broken pipe|client has terminated|server has terminated|control connection",
     "the peer's tool ended, or the path broke in mid-test"),
)


def command(test: LoadTest, program: str) -> list[str]:
    """Return the command line of one end: a server for one test (``-1``) on the own fabric address, or its client from there."""
    line = [program, "-J", "-B", test.address, "-p", str(test.port)]
    if test.role == "server":
        return [*line, "-s", "-1"]
    return [*line, "-c", test.peer_address, "-t", str(test.seconds), "-P", str(test.streams or 1), "-i", str(max(1, test.seconds // REPORTS)),
            "--connect-timeout", str(CONNECT_TIMEOUT_MS)]


def classify(text: str) -> tuple[str, str]:
    """Return class and meaning of what iperf3 says went wrong."""
    return next(((name, means) for name, pattern, means in CLASSES if re.search(pattern, text)), ("tool_error", "the tool ended with an error"))


def read_run(test: LoadTest, stdout: str, stderr: str, exit_code: int | None) -> Outcome:
    """Judge what iperf3 printed. The receiver's rate is the measurement; before 3.14 the status is 0 whatever happened."""
    details = {"exit_code": exit_code, "tail": perftest_output.tail(stdout, stderr)}
    server = test.role == "server"
    try:
        output = iperf3_output.parse(stdout)
    except iperf3_output.Iperf3OutputError:
        if server and exit_code == 0:
            return Outcome("ok", details=details)
        return _failed(test, stderr, f"{test.tool} ended with status {exit_code} and printed nothing about the test", "no_output", details)
    details["version"] = output.version
    if output.error is not None:
        return _failed(test, output.error, output.error, "tool_error", details)
    if exit_code != 0:
        return _failed(test, stderr, f"{test.tool} printed a result and ended with status {exit_code}", "exit_status", details)
    if output.received_gbps is None and not server:
        return Outcome("failed", "zero_row", f"{test.tool} ended with status 0 and counted no data at the receiver: no measurement",
                       details={**details, **NO_NUMBERS})
    details |= {"gbps": None if server else output.received_gbps, "sent_gbps": output.sent_gbps, "streams": output.streams,
                "retransmits": output.retransmits, "path_mtu_bytes": output.path_mtu_bytes, "mean_rtt_us": output.mean_rtt_us}
    return Outcome("ok", details=details)


def _failed(test: LoadTest, text: str, words: str, otherwise: str, details: dict) -> Outcome:
    name, means = classify(text) if text.strip() else (otherwise, words)
    said = f'{means} ("{text.strip()[:300]}")' if text.strip() else means
    return Outcome("failed", name, said, details={**details, **NO_NUMBERS})
