# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What failed when a job was launched: words of mpirun (Open MPI 4 and 5), ssh, the dynamic loader and the rendezvous.

Pure: lines in, failures out. One launch that fails prints several of these; what names a cause goes before what follows from one.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

KEPT = 64


@dataclasses.dataclass(frozen=True, slots=True)
class LaunchFailure:
    """One failure: its class ``name``, the ``line`` that shows it, ``subject`` (host, file or value) where the line has one."""

    name: str
    line: str
    subject: str | None = None
    #: Whether this names a cause, or only says that the job ended.
    cause: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class _Signature:
    name: str
    pattern: re.Pattern[str]
    cause: bool = True


def _sign(name: str, pattern: str, cause: bool = True) -> _Signature:
    return _Signature(name, re.compile(pattern, re.ASCII), cause)


#: In order of precedence. A named group ``subject`` is what the failure is about.
SIGNATURES: tuple[_Signature, ...] = (
    _sign("host_key", r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED"),
    _sign("ssh_denied", r"(?:(?P<subject>\S{1,255}): )?Permission denied \((?:publickey|password|keyboard)"),
    _sign("name_resolution", r"Could not resolve hostname (?P<subject>[^\s:]{1,255})|Temporary failure in name resolution|Name or service not known"),
    _sign(
        "ssh_unreachable",
        r"ssh: connect to host (?P<subject>\S{1,255}) port \d{1,5}: (?:Connection (?:refused|timed out)|No route to host|Network is unreachable)",
    ),
    _sign("library_missing", r"error while loading shared libraries: (?P<subject>\S{1,255}): cannot open shared object file"),
    _sign("daemon_missing", r"(?P<subject>\borted|\bprted)\b: (?:command )?not found|(?:unable to find|could not find).{0,40}\b(?:orted|prted)\b"),
    _sign(
        "program_missing",
        r"(?:unable to (?:find|locate|launch) the specified (?:executable|application)|could not find executable|"
        r"could not access or execute an executable|[Nn]o executable was specified)(?::? (?P<subject>\S{1,255}))?",
    ),
    _sign("slots", r"[Tt]here are not enough slots available"),
    _sign("interface", r"An invalid value was given for (?P<subject>\w{1,60}_if_(?:in|ex)clude)"),
    _sign("processes_unreachable", r"unable to reach each other for\b"),
    _sign("ucx", r"UCX\s+ERROR|ucp_ep_create\(.{0,40}\) failed: (?P<subject>[^\n]{1,80})"),
    _sign(
        "tcp",
        r"(?:WARNING: Open MPI failed to TCP connect to a peer|A process or daemon was unable to complete a TCP connection|TCP connection (?:failure|request)|"
        r"connect\(\) to (?P<subject>[\d.]{7,15}):\d{1,5} failed|mca_btl_tcp_endpoint_complete_connect)",
    ),
    _sign("daemons", r"(?:ORTE|PRTE|An ORTE daemon|A PRTE daemon).{0,60}(?:unable to reliably start one or more|failed to start|unexpectedly failed)"),
    _sign("communication_lost", r"(?:ORTE|PRTE) has lost communication with (?:a|the) remote daemon"),
    _sign("out_of_memory", r"(?:exited on signal|terminated by signal|signal:?) 9(?: \(Killed\))?|Out of memory: Killed process"),
    _sign("memlock", r"(?:ibv_reg_mr\w*|Registering memory|register memory).{0,80}Cannot allocate memory|RLIMIT_MEMLOCK|max locked memory"),
    _sign(
        "rendezvous",
        r"(?P<subject>\d{1,5}/\d{1,5}) clients joined|Timed out after \d{1,7} seconds waiting for clients|The client socket has timed out after \d{1,9}ms",
    ),
    _sign("time_limit", r"[Tt]he user-provided time limit for job execution has been reached|PRTE_JOB_TIMEOUT"),
    _sign("mpi_error", r"\*\*\* (?P<subject>MPI_ERR_\w{1,40}):", cause=False),
    _sign("crashed", r"exited on signal (?P<subject>\d{1,3})", cause=False),
    _sign(
        "exit_status",
        r"[Ee]xit code: {1,8}(?P<subject>\d{1,3})|exited with non-zero status|a non-zero exit code|prterun has exited due to process rank|"
        r"mpirun has exited due to process rank",
        cause=False,
    ),
)
_NAMES = {signature.name: place for place, signature in enumerate(SIGNATURES)}


class Reader:
    """Takes lines; keeps each kind of failure once for each subject."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str | None], LaunchFailure] = {}
        self._interface: str | None = None

    def line(self, text: str) -> bool:
        """Take one line; tell whether it shows a failure."""
        if self._interface and (match := re.match(r"\s*Value:\s+(\S{1,60})", text)):
            for key, failure in list(self._found.items()):
                if key[0] == "interface" and failure.subject and " " not in failure.subject:
                    self._found[key] = dataclasses.replace(failure, subject=f"{failure.subject} {match[1]}")
            self._interface = None
        for signature in SIGNATURES:
            match = signature.pattern.search(text)
            if match is None:
                continue
            subject = match.groupdict().get("subject")
            if signature.name == "interface":
                self._interface = subject
            if signature.name == "exit_status":  # several lines tell of one end; the one with the number says most
                self._found.pop((signature.name, None), None)
            known = any(name == signature.name for name, _subject in self._found) and subject is None
            if not known and len(self._found) < KEPT:
                self._found.setdefault((signature.name, subject), LaunchFailure(signature.name, text.strip()[:300], subject, signature.cause))
            return True
        return False

    @property
    def failures(self) -> list[LaunchFailure]:
        """Return the failures, what names a cause first."""
        return sorted(self._found.values(), key=lambda failure: (_NAMES[failure.name], failure.subject or ""))


def classify(lines: t.Iterable[str]) -> list[LaunchFailure]:
    """Return the failures that some lines show, causes first; nothing when they show none."""
    reader = Reader()
    for line in lines:
        reader.line(line)
    return reader.failures
