# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The job of one node in a measurement: what the controller hands over, checked and typed.

Pure data. The command lines of the tools are made here too, so that both ends of a test get the same options.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

BANDWIDTH_TOOLS = ("ib_write_bw", "ib_read_bw", "ib_send_bw")
LATENCY_TOOLS = ("ib_write_lat", "ib_read_lat", "ib_send_lat")
TCP_TOOL = "iperf3"
TOOLS = (*BANDWIDTH_TOOLS, *LATENCY_TOOLS, TCP_TOOL)
ROLES = ("client", "server")
#: The name becomes part of a path on the node.
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{5,127}", re.ASCII)


class JobInputError(ValueError):
    """The job is not one that this module can do; the text names the field."""


@dataclasses.dataclass(frozen=True, slots=True)
class LoadTest:
    """One test as one node sees it.

    ``round`` orders the tests; those of a round run at once, ``concurrent`` of them in the whole cluster.
    ``address`` is the own address on the fabric, which chooses the GID. ``server_address`` is the server's
    management address: there the tools exchange their parameters. ``seconds`` is the time of data transfer.
    ``qp_timeout`` is the exponent n of the time to wait for an acknowledgement, 4.096 us x 2^n (InfiniBand's
    Local ACK Timeout). ``streams`` is for TCP alone. ``stage`` names the kind of test in words.
    """

    id: str
    round: int
    role: str
    peer: str
    tool: str
    device: str
    interface: str
    address: str
    peer_address: str
    server_address: str
    port: int
    seconds: int
    bidirectional: bool = False
    concurrent: int = 1
    size_bytes: int | None = None
    queue_pairs: int | None = None
    iterations: int | None = None
    qp_timeout: int | None = None
    streams: int | None = None
    stage: str = ""

    @property
    def tcp(self) -> bool:
        """Tell whether this is a TCP test: no RDMA device has a part in it."""
        return self.tool == TCP_TOOL

    @property
    def latency(self) -> bool:
        """Tell whether this is a latency test."""
        return self.tool in LATENCY_TOOLS


@dataclasses.dataclass(frozen=True, slots=True)
class JobSpec:
    """The whole job of one node.

    Times in seconds: ``start_skew`` until which a peer may come late, ``grace`` that a tool may take beyond
    its test's seconds, ``deadline`` for the whole job. ``rounds`` is the number of rounds in the plan.
    ``in_step``: no node begins a round before all have ended the one before, which ``peers`` then has to list;
    otherwise a test begins when its two ends are free.
    ``not_run`` are the tests that were left out on the controller, with the reason.
    """

    run: str
    node: str
    control_address: str
    control_port: int
    peers: dict[str, str]
    tests: tuple[LoadTest, ...]
    not_run: tuple[dict[str, Any], ...]
    rounds: int
    start_skew: float
    grace: float
    deadline: float
    force_busy: bool
    in_step: bool = False

    @property
    def devices(self) -> frozenset[str]:
        """RDMA devices that the job uses."""
        return frozenset(test.device for test in self.tests)

    def seconds_of(self, number: int) -> int:
        """Return the seconds of data in a round; of one that others alone have tests in, the longest it may be."""
        mine = [test.seconds for test in self.tests if test.round == number]
        return max(mine or [0, *(test.seconds for test in self.tests)])


def parse_job(data: Mapping[str, Any]) -> JobSpec:
    """Check a job and give it types; raises JobInputError."""
    peers = {str(name): _text(peer, "address", f"peers.{name}") for name, peer in _mapping(data, "peers").items()}
    tests = tuple(_test(test, index) for index, test in enumerate(_list(data, "tests")))
    run = _text(data, "run", "job")
    if not RUN_NAME.fullmatch(run):
        raise JobInputError(f"job.run: {run!r} is no run name: 6 to 128 letters, digits, '.', '_' or '-' are expected")
    for test in tests:
        if test.peer not in peers:
            raise JobInputError(f"job.tests: {test.id} is with {test.peer}, whose address is not in job.peers")
    ids = [test.id for test in tests]
    if len(set(ids)) != len(ids):
        raise JobInputError("job.tests: the same id twice")
    rounds = _integer(data, "rounds", "job", 0, 100000, max([0, *(test.round + 1 for test in tests)]))
    skew, grace = _number(data, "start_skew_seconds", 30.0), _number(data, "grace_seconds", 15.0)
    return JobSpec(
        run=run, node=_text(data, "node", "job"), control_address=_text(data, "control_address", "job"),
        control_port=_integer(data, "control_port", "job", 1, 65535, None), peers=peers, tests=tests,
        not_run=tuple({**_plain_record(record)} for record in _list(data, "not_run", ())), rounds=rounds,
        start_skew=skew, grace=grace, deadline=_number(data, "deadline_seconds", default_deadline(tests, rounds, skew, grace)),
        force_busy=data.get("force_busy") is True, in_step=data.get("in_step") is True)


def default_deadline(tests: Iterable[LoadTest], rounds: int, start_skew: float, grace: float) -> float:
    """Return the seconds after which a job gives up: every round hangs, and every peer comes as late as it may."""
    seconds = max([5, *(test.seconds for test in tests)])
    return start_skew + rounds * (seconds + grace + 15) + 30


def command(test: LoadTest, program: str, gid_index: int) -> list[str]:
    """Return the command line of one end of an RDMA test.

    The parameters travel over TCP to the server's management address, so that a cut cable does not look like
    an absent node; device and GID index choose the data path. ``-F`` keeps CPU frequency warnings quiet.
    """
    line = [program, "-d", test.device, "-x", str(gid_index), "-p", str(test.port)]
    if test.latency:
        line += ["-n", str(test.iterations or 1000), "-F", "-s", str(test.size_bytes or 2)]
    else:
        line += ["-D", str(test.seconds), "--report_gbits", "-F", "-s", str(test.size_bytes or 65536)]
        line += ["-b"] if test.bidirectional else []
        line += ["-q", str(test.queue_pairs)] if test.queue_pairs else []
    line += ["-u", str(test.qp_timeout)] if test.qp_timeout else []
    if ":" in test.server_address:
        line.append("--ipv6-addr")
    return line + ([test.server_address] if test.role == "client" else [])


def _test(data: Any, index: int) -> LoadTest:
    where = f"job.tests[{index}]"
    if not isinstance(data, Mapping):
        raise JobInputError(f"{where}: a mapping is expected")
    role, tool = _text(data, "role", where), _text(data, "tool", where)
    if role not in ROLES:
        raise JobInputError(f"{where}.role: {role!r}, expected client or server")
    if tool not in TOOLS:
        raise JobInputError(f"{where}.tool: {tool!r}, expected one of {', '.join(TOOLS)}")
    words = {name: _text(data, name, where) for name in ("id", "peer", "device", "interface", "address", "peer_address", "server_address")}
    return LoadTest(
        role=role, tool=tool, **words,
        round=_integer(data, "round", where, 0, 100000, None), port=_integer(data, "port", where, 1, 65535, None),
        seconds=_integer(data, "seconds", where, 1, 3600, None), bidirectional=data.get("bidirectional") is True,
        concurrent=_integer(data, "concurrent", where, 1, 100000, 1),
        size_bytes=_integer(data, "size_bytes", where, 1, 2**30, 0) or None,
        queue_pairs=_integer(data, "queue_pairs", where, 1, 1024, 0) or None,
        iterations=_integer(data, "iterations", where, 5, 10**8, 0) or None,
        qp_timeout=_integer(data, "qp_timeout", where, 1, 31, 0) or None,
        streams=_integer(data, "streams", where, 1, 128, 0) or None,
        stage=_text(data, "stage", where) if data.get("stage") else "")


def _plain_record(record: Any) -> dict[str, Any]:
    if not isinstance(record, Mapping) or "id" not in record:
        raise JobInputError("job.not_run: records with an id are expected")
    return {str(key): value for key, value in record.items()}


def _text(data: Any, name: str, where: str) -> str:
    value = data.get(name) if isinstance(data, Mapping) else None
    if not isinstance(value, str) or not value or "\0" in value:
        raise JobInputError(f"{where}.{name}: text is expected, got {value!r}")
    if value.startswith("-"):
        raise JobInputError(f"{where}.{name}: {value!r} would be taken for an option")
    return str(value)


def _integer(data: Mapping[str, Any], name: str, where: str, least: int, most: int, default: int | None) -> int:
    value = data.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise JobInputError(f"{where}.{name}: an integer from {least} to {most} is expected, got {value!r}")
    return int(value)


def _number(data: Mapping[str, Any], name: str, default: float) -> float:
    value = data.get(name)
    if value is None:
        return default
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 10**6:
        raise JobInputError(f"job.{name}: seconds are expected, got {value!r}")
    return float(value)


def _mapping(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    if not isinstance(value, Mapping):
        raise JobInputError(f"job.{name}: a mapping is expected, got {type(value).__name__}")
    return value


def _list(data: Mapping[str, Any], name: str, default: Any = None) -> Any:
    value = data.get(name, default)
    if not isinstance(value, (list, tuple)):
        raise JobInputError(f"job.{name}: a list is expected, got {type(value).__name__}")
    return value
