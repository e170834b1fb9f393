# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What perftest's messages mean: text of a failed run in, class of the error out.

perftest leaves with status 0 or 1 whatever went wrong, so the message is the only witness. The
texts are those of perftest 4.4 to 26.04.
"""

from __future__ import annotations

import dataclasses
import re


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorClass:
    """One kind of failure: its stable ``name``, the ``pattern`` that shows it, and what it ``means``."""

    name: str
    pattern: re.Pattern[str]
    means: str


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorFound:
    """A recognised failure: class ``name``, the ``line`` that showed it, and what it ``means``.

    ``completion_status`` is the ibverbs work completion status when the message carries one (12 is
    "transport retry counter exceeded").
    """

    name: str
    line: str
    means: str
    completion_status: int | None = None


def _kind(name: str, pattern: str, means: str) -> ErrorClass:
    return ErrorClass(name, re.compile(pattern, re.ASCII | re.MULTILINE), means)


#: From perftest 26.01 the wording is ``Failed status-<text> (12)``, before it ``Failed status 12``.
COMPLETION = re.compile(r"^.*Failed status(?: (?P<plain>\d{1,6})|-[^\n(]{0,200}\((?P<named>\d{1,6})\)).*$", re.ASCII | re.MULTILINE)

#: Work completion status numbers of ibverbs (``enum ibv_wc_status``) which have a cause of their own here.
COMPLETION_NAMES = {
    4: ("local_protection", "the local memory registration was refused by the device"),
    5: ("link_lost", "the queue pair was flushed: the link went down, or the queue pair broke, in mid-test"),
    9: ("remote_invalid_request", "the peer refused the request: its tool, or its options, differ from ours"),
    10: ("remote_access", "the peer's memory is not open to us: its options differ from ours"),
    12: ("transport_retry_exceeded", "packets sent over RDMA were never acknowledged: the data path is dead (cable, MTU, GID, or UDP port 4791 blocked)"),
    13: ("rnr_retry_exceeded", "the peer was never ready to receive"),
}

CLOCK_UNSTABLE = "clock_unstable"

#: In order of precedence: what names a cause goes before what merely follows from one.
CLASSES: tuple[ErrorClass, ...] = (
    _kind("device_missing", r"^.*(?:IB device \S+ not found|Unable to find the Infiniband/RoCE device|Did not detect devices).*$",
          "the RDMA device does not exist on this node"),
    _kind("link_down", r"^.*(?:Port number \d+ state is \S+|Couldn't set the link layer).*$", "the port of the RDMA device is not active"),
    _kind("gid_index", r"^.*Gid index should be between.*$", "the GID index is outside the device's table"),
    _kind("gid_mismatch", r"^.*Found Incompatibility issue with GID types.*$",
          "the two ends took GIDs of different kinds (RoCE v1 against v2, or IPv6 against IPv4)"),
    _kind("rdma_cm", r"^.*(?:Unexpected CM event|rdma_bind_addr failed|rdma_resolve_addr failed).*$", "the RDMA connection manager could not connect"),
    _kind("qp_connect", r"^.*(?:Failed to modify QP \S+ to (?:RTR|RTS)|Unable to Connect the HCA's through the link).*$",
          "the queue pair could not be connected: the GID is the wrong one for this cable, or no neighbour answers"),
    _kind("memory_registration", r"^.*(?:[Cc]ouldn't allocate MR|[Ff]ailed to create mr|ibv_reg_mr\S* failed|Cannot allocate memory|"
          r"Couldn't allocate memory).*$",
          "memory could not be registered: the memlock limit is too low, or memory is short"),
    _kind("port_taken", r"^.*Couldn't listen to port.*$", "the TCP port is held by another process"),
    _kind("bad_option", r"^.*(?:Duplicated argument|unrecognized option|invalid option|requires an argument|Parser function exited with Error).*$",
          "the tool does not take the options it was given"),
    _kind("parameter_mismatch", r"^.*\S+ mismatch: local=.*$", "the two ends were given different options"),
    _kind("version_gap", r"^.*(?:not compatible with versions older than|[Vv]ersions? mismatch).*$",
          "the two ends have versions of perftest that do not understand each other"),
    _kind("below_limit", r"^.*BW result is below bw limit.*$", "the bandwidth is below the limit given to the tool"),
    _kind("connect_failed", r"^.*(?:Couldn't connect to|Unable to open file descriptor for socket connection|Unable to init the socket connection).*$",
          "the TCP connection to the peer's tool was not accepted: no server there, a wrong address, or a firewall"),
    _kind("peer_lost", r"^.*(?:Couldn't read remote address|Unable to (?:read|write) (?:to|from) socket/rdma_cm|"
          r"Failed to exchange data between server and clients).*$",
          "the peer's tool ended, or has another version or other options"),
    # Its rows are then 0.00, however much data went over the wire.
    _kind(CLOCK_UNSTABLE, r"^.*Correlation coefficient r\^2: \S+ < \S+.*$",
          "the tool could not calibrate the processor's clock (a very busy or emulated processor), so it has no figure"),
)


def classify(text: str) -> ErrorFound | None:
    """Return the failure that ``text`` (stdout and stderr of a run) shows, or None when it shows none.

    The completion status goes first: it is the only message about the data path, and others that
    follow it are about the TCP exchange that broke down after it.
    """
    match = COMPLETION.search(text)
    if match:
        status = int(match["plain"] or match["named"])
        name, means = COMPLETION_NAMES.get(status, ("completion_error", f"a work request ended with status {status}"))
        return ErrorFound(name, match[0].strip(), means, status)
    for kind in CLASSES:
        match = kind.pattern.search(text)
        if match:
            return ErrorFound(kind.name, match[0].strip()[:300], kind.means)
    return None
