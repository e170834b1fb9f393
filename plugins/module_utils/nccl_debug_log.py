# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read a log of NCCL (``NCCL_DEBUG=INFO``), all versions from 2.18 to 2.30, line by line.

Which network each process chose, over which devices its channels run, which devices were merged, what it warned of. A log may have
gigabytes: every line is looked at once and only what differs is kept, with a limit on each collection.

Line: ``host:pid:tid [device] NCCL INFO text``; a warning has ``file:line`` (from 2.30 also ``(function)``) before ``NCCL WARN``.
Several ranks on one stdout may write into each other's lines; what begins a record begins one wherever it stands.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

PROCESS_LIMIT = 4096
WARNING_LIMIT = 400
CHANNEL_LIMIT = 20000
RING_LIMIT = 64
TEXT_KEPT = 400

PREFIX = re.compile(
    r"(?P<host>[A-Za-z0-9][\w.-]{0,254}):(?P<pid>\d{1,10}):(?P<tid>\d{1,10}) \[(?P<gpu>-?\d{1,6})\] "
    r"(?:(?P<where>[\w./+-]{1,200}:\d{1,7})(?: \([^()]{0,200}\))? )?"
    r"NCCL (?P<level>INFO|WARN|TRACE|ABORT|VERSION) ",
    re.ASCII,
)
BARE = re.compile(r"(?:(?P<where>[\w./+-]{1,200}:\d{1,7})(?: \([^()]{0,200}\))? )?NCCL (?P<level>INFO|WARN) ", re.ASCII)
#: Lines of which people paste the text alone.
BARE_STARTS = ("Using network ", "NET/IB : ", "NET/IB: ", "NET/Socket : ", "Connected all rings")
CHANNEL = re.compile(
    r"Channel (?P<channel>\d{1,4})(?:/\d{1,4})? ?: (?P<source>\d{1,7})\[[0-9a-fA-F]{1,12}\] -> (?P<target>\d{1,7})\[[0-9a-fA-F]{1,12}\]"
    r"(?: \[(?P<way>send|receive)\])? via (?P<what>[A-Za-z]{2,10})/(?P<net>[\w-]{1,60})(?:/(?P<device>\d{1,4}))?",
    re.ASCII,
)
DEVICE = re.compile(r"\[(?P<index>\d{1,4})\]\s?(?P<name>[A-Za-z][\w.-]{0,60}):(?P<port>\d{1,3})(?:/(?P<kind>\w{1,10}))?", re.ASCII)
MERGED_LIST = re.compile(r"\[(?P<index>\d{1,4})\]=\{(?P<members>[^{}]{1,400})\}", re.ASCII)
VIRTUAL = re.compile(r"NET/IB ?: Made virtual device \[(?P<index>\d{1,4})\] name=(?P<name>\S{1,300})", re.ASCII)
OOB = re.compile(r"OOB (?P<interface>[\w.-]{1,40}):(?P<address>[0-9A-Fa-f.:%\w-]{1,80})<", re.ASCII)
SOCKET_DEVICE = re.compile(r"\[\d{1,4}\](?P<interface>[\w.-]{1,40}):(?P<address>[0-9A-Fa-f.:]{1,80})<", re.ASCII)
BOOTSTRAP = re.compile(r"Bootstrap ?: Using (?:\[\d{1,4}\])?(?P<interface>[\w.-]{1,40}):(?P<address>[0-9A-Fa-f.:]{1,80})<", re.ASCII)
VERSION = re.compile(r"NCCL version (?P<version>\d{1,4}(?:\.\d{1,4}){1,3})", re.ASCII)
RANK = re.compile(r"comm 0x[0-9a-fA-F]{1,20} rank (?P<rank>\d{1,7}) n[rR]anks (?P<ranks>\d{1,7})", re.ASCII)
RING = re.compile(r"Channel (?P<channel>\d{1,4})/\d{1,4} :(?P<ranks>(?: +\d{1,7})+) *$", re.ASCII)
SETTING = re.compile(r"(?P<name>NCCL_[A-Z0-9_]{1,60}) set (?:by environment )?to (?P<value>.{0,200}?)\.?$", re.ASCII)
MODIFY_QP = re.compile(
    r"ibv_modify_qp failed with (?:error )?(?P<number>\d{1,5}|[A-Z][\w ]{2,40})(?: (?P<text>[^,]{1,60}))?"
    r"(?:, on dev (?P<device>[\w.-]{1,60})(?::\d{1,3})?)?",
    re.ASCII,
)
OVERRIDE = re.compile(r"Subnet-aware routing: overriding dev (?P<planned>\d{1,4}) with dev (?P<used>\d{1,4})", re.ASCII)
GID_INDEX = re.compile(r"local GID index (?P<index>-?\d{1,5})", re.ASCII)
GIDS = re.compile(r"local GID (?P<local>[0-9A-Fa-f:.]{2,45}), remote GID (?P<remote>[0-9A-Fa-f:.]{2,45})", re.ASCII)
COMPLETION = re.compile(r"Got completion (?:from peer (?P<peer>\S{1,80}) )?with (?:status=|error )(?P<status>\d{1,4})", re.ASCII)
DEVICE_OF_WARNING = re.compile(r"NET/IB ?: (?P<device>[A-Za-z][\w.-]{0,60}):\d{1,3} ", re.ASCII)
DIGITS = re.compile(r"0x[0-9a-fA-F]+|\d+", re.ASCII)


@dataclasses.dataclass(slots=True)
class LoggedWarning:
    """A warning, told once however often it came. ``device``, ``errno``, GIDs and ``status`` where the text has them."""

    host: str
    text: str
    where: str | None
    count: int = 1
    device: str | None = None
    errno: int | None = None
    gid_index: int | None = None
    local_gid: str | None = None
    remote_gid: str | None = None
    status: int | None = None
    after_rings: bool = False


@dataclasses.dataclass(slots=True)
class Process:
    """One process of a job. ``devices`` are the net devices by index, each with its physical members."""

    host: str
    pid: int
    rank: int | None = None
    ranks: int | None = None
    version: str | None = None
    networks: list[str] = dataclasses.field(default_factory=list)
    devices: dict[int, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    devices_listed: bool = False
    no_device: bool = False
    no_plugin: bool = False
    bootstrap_interface: str | None = None
    oob_interface: str | None = None
    oob_address: str | None = None
    rings_connected: bool = False
    init_started: bool = False
    init_complete: bool = False
    settings: dict[str, str] = dataclasses.field(default_factory=dict)
    #: (device of the channel line, device really used): routing by network replaces the first for some peers and says it here alone.
    overrides: set[tuple[int, int]] = dataclasses.field(default_factory=set)

    def members(self, index: int) -> tuple[str, ...]:
        """Return the physical devices behind a net device, nothing when the log does not list it."""
        return self.devices.get(index, ())


@dataclasses.dataclass(slots=True)
class Log:
    """What a log says. ``channels`` counts lines by (host, pid, source, target, way, transport, network, device)."""

    processes: dict[tuple[str, int], Process] = dataclasses.field(default_factory=dict)
    channels: dict[tuple[str, int, int, int, str, str, str, int], set[int]] = dataclasses.field(default_factory=dict)
    warnings: dict[tuple[str, str], LoggedWarning] = dataclasses.field(default_factory=dict)
    rings: dict[int, tuple[int, ...]] = dataclasses.field(default_factory=dict)
    lines: int = 0
    full: bool = False  # a collection met its limit: what came after is counted nowhere

    @property
    def host_of_rank(self) -> dict[int, str]:
        """Return the host of each rank that the log names."""
        return {process.rank: process.host for process in self.processes.values() if process.rank is not None}

    @property
    def hosts(self) -> list[str]:
        """Return the hosts, each once, by rank as far as it is known."""
        ordered = sorted(self.processes.values(), key=lambda process: (process.rank is None, process.rank or 0))
        return list(dict.fromkeys(process.host for process in ordered))

    def process(self, host: str, pid: int) -> Process | None:
        """Return the record of a process, None when there are too many."""
        key = (host, pid)
        found = self.processes.get(key)
        if found is None:
            if len(self.processes) >= PROCESS_LIMIT:
                self.full = True
                return None
            found = self.processes[key] = Process(host, pid)
        return found


class Reader:
    """Takes lines, keeps a ``Log``."""

    def __init__(self) -> None:
        self.log = Log()

    def line(self, text: str) -> bool:
        """Take one line (prefixes of launchers stripped); tell whether it has a record of NCCL in it."""
        if "NCCL " not in text:
            if text.startswith(BARE_STARTS) or (text.startswith("Channel ") and " via " in text):
                return self._record("", 0, None, "INFO", text)
            return False
        matches = list(PREFIX.finditer(text)) if text.count("NCCL ") > 1 else [match for match in (PREFIX.search(text),) if match]
        if not matches:
            match = BARE.match(text)
            return self._record("", 0, match["where"], match["level"], text[match.end() :]) if match else False
        for match, following in zip(matches, [*matches[1:], None]):
            body = text[match.end() : following.start() if following else None]
            host = match["host"] if match.start() == 0 else self._known(match["host"], int(match["pid"]))
            self._record(host, int(match["pid"]), match["where"], match["level"], body)
        return True

    def _known(self, host: str, pid: int) -> str:
        """Return the host of a record that begins in another one's line: the end of the word before it is not part of the name."""
        if (host, pid) in self.log.processes:
            return host
        return next((known for known, number in self.log.processes if number == pid and known and host.endswith(known)), host)

    def _record(self, host: str, pid: int, where: str | None, level: str, body: str) -> bool:
        log = self.log
        log.lines += 1
        if level in ("WARN", "ABORT"):
            self._warning(host, pid, where, body)
            return True
        if body.startswith("Channel "):
            self._channel(host, pid, body)
            return True
        if "NET/" in body or "Using network" in body or "ibv_" in body or "NET plugin" in body:
            self._network(host, pid, body)
        elif (
            body.startswith(
                ("Connected all", "Bootstrap", "NCCL_", "NCCL version", "ncclComm", "comm 0x", "ncclTransport", "transport/", "Could not set", "Init ")
            )
            or "NCCL_" in body
            or "cudaDriverVersion" in body
        ):
            self._state(host, pid, body)
        elif (host, pid) not in log.processes:
            log.process(host, pid)
        return True

    def _channel(self, host: str, pid: int, body: str) -> None:
        log = self.log
        match = CHANNEL.match(body)
        if match is None:
            ring = RING.match(body)
            if ring and len(log.rings) < RING_LIMIT:
                log.rings.setdefault(int(ring["channel"]), tuple(int(rank) for rank in ring["ranks"].split()))
            return
        network = match["what"] == "NET"
        key = (
            host,
            pid,
            int(match["source"]),
            int(match["target"]),
            match["way"] or "",
            match["what"],
            match["net"],
            int(match["device"]) if network and match["device"] else -1,
        )
        channels = log.channels.get(key)
        if channels is None:
            if len(log.channels) >= CHANNEL_LIMIT:
                log.full = True
                return
            channels = log.channels[key] = set()
            log.process(host, pid)
        if len(channels) < 256:
            channels.add(int(match["channel"]))

    def _network(self, host: str, pid: int, body: str) -> None:
        process = self.log.process(host, pid)
        if process is None:
            return
        if body.startswith("Using network "):
            name = body[14:80].split()[0] if body[14:].split() else ""
            if name and name not in process.networks and len(process.networks) < 16:
                process.networks.append(name)
        elif match := VIRTUAL.search(body):
            if len(process.devices) < 256:
                process.devices[int(match["index"])] = tuple(match["name"].split("+"))[:16]
        elif match := OVERRIDE.search(body):
            if len(process.overrides) < 256:
                process.overrides.add((int(match["planned"]), int(match["used"])))
        elif "No device found" in body:
            process.no_device = True
        elif "Failed to initialize any NET plugin" in body or "network IB not found" in body:
            process.no_plugin = True
            self._warning(host, pid, None, body)
        elif body.startswith(("NET/IB : Using", "NET/IB: Using")):
            process.devices_listed = True
            listed = body.partition("; OOB")[0]
            for match in MERGED_LIST.finditer(listed):
                process.devices[int(match["index"])] = tuple(found["name"] for found in DEVICE.finditer(match["members"]))[:16]
            for match in DEVICE.finditer(MERGED_LIST.sub("", listed)):
                if len(process.devices) < 256:
                    process.devices.setdefault(int(match["index"]), (match["name"],))
            if match := OOB.search(body):
                process.oob_interface, process.oob_address = match["interface"], match["address"]
        elif body.startswith("NET/Socket") and (match := SOCKET_DEVICE.search(body)):
            process.oob_interface, process.oob_address = process.oob_interface or match["interface"], process.oob_address or match["address"]
        elif "GID table changed" in body or "failed with" in body:
            self._warning(host, pid, None, body)

    def _state(self, host: str, pid: int, body: str) -> None:
        process = self.log.process(host, pid)
        if process is None:
            return
        if body.startswith("Connected all rings"):
            process.rings_connected = True
        elif match := BOOTSTRAP.match(body):
            process.bootstrap_interface = match["interface"]
            process.oob_address = process.oob_address or match["address"]
        elif match := VERSION.search(body):
            process.version = match["version"]
        elif (match := SETTING.search(body)) and len(process.settings) < 200:
            process.settings[match["name"]] = match["value"].strip()
        elif match := RANK.search(body):
            if process.rank is None:
                process.rank, process.ranks = int(match["rank"]), int(match["ranks"])
            process.init_started = process.init_started or "Init START" in body
            process.init_complete = process.init_complete or "Init COMPLETE" in body
        elif "ncclTransportTreeConnect" in body or ("failed" in body and "->" in body):
            self._warning(host, pid, None, body)

    def _warning(self, host: str, pid: int, where: str | None, body: str) -> None:
        log = self.log
        body = body.strip()[:TEXT_KEPT]
        process = log.process(host, pid)
        if not body:
            return
        key = (host, DIGITS.sub("#", body))
        found = log.warnings.get(key)
        if found is not None:
            found.count += 1
            return
        if len(log.warnings) >= WARNING_LIMIT:
            log.full = True
            return
        warning = log.warnings[key] = LoggedWarning(host, body, where)
        warning.after_rings = bool(process and process.rings_connected)
        if match := MODIFY_QP.search(body):
            warning.errno, warning.device = (int(match["number"]) if match["number"].isdigit() else _errno_of(match["number"])), match["device"]
            if index := GID_INDEX.search(body):
                warning.gid_index = int(index["index"])
            if gids := GIDS.search(body):
                warning.local_gid, warning.remote_gid = gids["local"], gids["remote"]
        elif match := COMPLETION.search(body):
            warning.status = int(match["status"])
        elif match := DEVICE_OF_WARNING.search(body):
            warning.device = match["device"]


def _errno_of(text: str) -> int | None:
    """Return the errno that a message of the C library names (older NCCL prints the text alone)."""
    names = {
        "Connection timed out": 110,
        "No data available": 61,
        "Network is unreachable": 101,
        "No route to host": 113,
        "Invalid argument": 22,
        "Cannot allocate memory": 12,
        "Connection refused": 111,
    }
    return next((number for name, number in names.items() if text.startswith(name)), None)


def read(lines: t.Iterable[str]) -> Log:
    """Return what some lines say; other lines than NCCL's are skipped."""
    reader = Reader()
    for line in lines:
        reader.line(line)
    return reader.log
