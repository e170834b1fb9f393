# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command lines of a launch: mpirun of Open MPI 4 and 5, ssh, and the document that each rank gets. Pure.

Everything of MPI's own runs on the management network, named by network: interfaces have other names on other nodes. Host keys are
checked as ever; a launch that would have to ask a question fails.
"""

from __future__ import annotations

import json
import re
import typing as t
from collections.abc import Mapping, Sequence

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3")
#: Seconds that mpirun's own limit lies beyond the ranks' one: theirs leaves a report.
MPIRUN_MARGIN = 10


class LaunchError(ValueError):
    """The launch cannot be put into a command line."""


def parse_version(text: str) -> tuple[int, ...] | None:
    """Return (4, 1, 6) from what ``mpirun --version`` prints, None when it is not Open MPI."""
    match = re.search(r"\(Open MPI\) (\d{1,3})\.(\d{1,3})\.(\d{1,3})", text)
    return tuple(int(part) for part in match.groups()) if match else None


def hostfile(addresses: Sequence[str]) -> str:
    """Return the text of a hostfile, one rank a line, in the order of the ranks."""
    return "".join(f"{address} slots=1\n" for address in addresses)


def mpirun_command(
    mpirun: str, version: Sequence[int], hosts: str, ranks: int, networks: Sequence[str], seconds: float, as_root: bool, program: Sequence[str]
) -> list[str]:
    """Return mpirun's command line.

    :param hosts: path of the hostfile
    :param networks: management networks, such as 10.0.0.0/24
    :param seconds: when mpirun ends the job by itself
    :param program: what each rank runs
    :raises LaunchError: for another MPI than Open MPI 4 or 5
    """
    if not version or version[0] not in (4, 5):
        found = ".".join(str(part) for part in version) if version else "none"
        raise LaunchError(f"Open MPI 4 or 5 is needed to launch nccl-tests, found version {found} ({mpirun}); install the package openmpi-bin")
    if not networks:
        raise LaunchError("no management network is known to launch over: set fabric_management_interface or fabric_management_address")
    within = ",".join(networks)
    agent = " ".join(SSH)
    if version[0] == 4:
        own = [
            "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1",
            "--mca", "oob_tcp_if_include", within, "--mca", "orte_keep_fqdn_hostnames", "1",
        ]
    else:
        own = [
            "--prtemca", "plm", "ssh", "--prtemca", "plm_ssh_agent", agent, "--prtemca", "plm_ssh_no_tree_spawn", "1",
            "--prtemca", "prte_if_include", within, "--prtemca", "prte_keep_fqdn_hostnames", "1",
        ]
    return [
        mpirun, *(["--allow-run-as-root"] if as_root else []), "-np", str(ranks), "--hostfile", hosts, "--map-by", "node", "--bind-to", "none",
        "--timeout", str(int(seconds + MPIRUN_MARGIN)), *own,
        "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", within, *program,
    ]


def rank_document(
    run: str, test: str, ranks: Sequence[Mapping[str, str]], environments: Sequence[Mapping[str, str]], **more: t.Any
) -> dict[str, t.Any]:
    """Return what the ranks of a launch get to know (``nccl_rank``).

    :param ranks: node and address of each rank
    :param environments: the planned environment of each rank, for nodes that have none installed
    """
    return {
        "run": run,
        "test": test,
        "ranks": [{"node": rank["node"], "address": rank["address"]} for rank in ranks],
        "environments": [dict(environment) for environment in environments],
        **more,
    }


def rank_program(source: str, action: str, document: Mapping[str, t.Any]) -> list[str]:
    """Return the command that runs the text of ``nccl_rank`` on a node."""
    return ["python3", "-c", source, action, json.dumps(document, separators=(",", ":"))]


def ssh_command(address: str, program: Sequence[str]) -> list[str]:
    """Return ssh's command line; the program's words reach the node's shell quoted."""
    quoted = ["'" + word.replace("'", "'\"'\"'") + "'" for word in program]
    return [*SSH, "--", address, " ".join(quoted)]


def as_user(command: Sequence[str], user: str | None, home: str | None) -> list[str]:
    """Return the command run as another user, with that user's limits; unchanged without one."""
    if user is None:
        return list(command)
    return ["runuser", "-u", user, "--", "env", f"HOME={home}", f"USER={user}", f"LOGNAME={user}", *command]


def test_arguments(begin: int, end: int, factor: int, iterations: int, warmup: int, results: str | None) -> list[str]:
    """Return the arguments of a program of nccl-tests: sizes in bytes, one GPU a process, data checked, JSON where it can be written."""
    return [
        "-b", str(begin), "-e", str(end), "-f", str(factor), "-g", "1", "-n", str(iterations), "-w", str(warmup), "-c", "1",
        *(["-J", results] if results else []),
    ]


def largest_size(memory_bytes: int, wanted_bytes: int, share: float) -> int:
    """Return the largest message, a power of two.

    nccl-tests holds a send, a receive and a checking buffer of the size. ``share`` is the part of the smallest node's free memory that the three may
    take together; GPU and processor share it on a Spark, and tests of 16 GB have frozen machines.
    """
    largest = min(wanted_bytes, int(memory_bytes * share) // 3)
    return 1 << (largest.bit_length() - 1) if largest > 0 else 0
