# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find the versions of the tools that later stages use, without failing where one is missing."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils.command import Runner

# tool: (command, pattern, package that brings it). perftest prints its version and exits with status 1: never mind the status.
PROGRAMS: dict[str, tuple[list[str], str, str]] = {
    "perftest": (["ib_write_bw", "--version"], r"Version:\s*([0-9.]+)", "perftest"),
    "iproute2": (["ip", "-V"], r"iproute2-([0-9.a-z]+)", "iproute2"),
    "ethtool": (["ethtool", "--version"], r"ethtool version ([0-9.]+)", "ethtool"),
    "iperf3": (["iperf3", "--version"], r"iperf ([0-9.]+)", "iperf3"),
}
NETPLAN_PACKAGE = "netplan.io"


def upstream_version(text: str) -> str:
    """Return "1.1.2" from a package's version "1.1.2-7ubuntu1" or "1:6.1-1"."""
    return text.strip().rpartition(":")[2].partition("-")[0].partition("+")[0]


def parse_nccl(text: str) -> str | None:
    """Return the version of the NCCL library that ``ldconfig -p`` lists by its file's full name, or ``None``."""
    match = re.search(r"libnccl\.so\.([0-9]+\.[0-9]+\.[0-9]+)", text)
    return match.group(1) if match else None


def find_versions(run: Runner, resolve: t.Callable[[str], str] = str) -> tuple[dict[str, str | None], dict[str, str]]:
    """Return ``({tool: version or None}, {tool: why it is missing and which package brings it})``.

    Args:
        run: Runs a command.
        resolve: Follows a symbolic link (``os.path.realpath``): ldconfig lists libnccl.so.2, the file is libnccl.so.2.30.7.
    """
    versions: dict[str, str | None] = {}
    missing: dict[str, str] = {}
    for tool, (command, pattern, package) in PROGRAMS.items():
        done = run(command, timeout=10)
        match = re.search(pattern, done.out + done.err) if done.found else None
        versions[tool] = match.group(1) if match else None
        if not done.found:
            missing[tool] = f"{command[0]} is not installed; the package {package} brings it"
        elif match is None:
            missing[tool] = f"{' '.join(command)} printed no version"
    versions["netplan"] = None
    package = run(["dpkg-query", "-W", "-f=${Version}", NETPLAN_PACKAGE], timeout=10)
    if package.found and package.rc == 0 and package.out.strip():
        versions["netplan"] = upstream_version(package.out)
    else:
        missing["netplan"] = f"the package {NETPLAN_PACKAGE} is not installed"
    versions["nccl"] = None
    listing = run(["ldconfig", "-p"], timeout=10)
    path = re.search(r"libnccl\.so\.2 .*=> (\S+)", listing.out)
    if path:
        versions["nccl"] = parse_nccl(resolve(path.group(1)))
    return versions, missing
