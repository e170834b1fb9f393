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
    "netplan": (["netplan", "--version"], r"netplan ([0-9.]+)", "netplan.io"),
}
# The package manager knows these in one go; the package's version is the program's. perftest counts differently.
BY_PACKAGE = ("iproute2", "ethtool", "iperf3", "netplan")


def upstream_version(text: str) -> str:
    """Return "1.1.2" from a package's version "1.1.2-7ubuntu1" or "1:6.1-1"."""
    return text.strip().rpartition(":")[2].partition("-")[0].partition("+")[0]


def parse_packages(text: str) -> dict[str, str]:
    """Return ``{package: upstream version}`` from lines "package version"; a package that was removed has no version."""
    found = {}
    for line in text.splitlines():
        name, _blank, version = line.strip().partition(" ")
        if version:
            found[name] = upstream_version(version)
    return found


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
    packages = parse_packages(run(["dpkg-query", "-W", "-f=${Package} ${Version}\\n", *[PROGRAMS[tool][2] for tool in BY_PACKAGE]], timeout=10).out)
    for tool, (command, pattern, package) in PROGRAMS.items():
        if tool in BY_PACKAGE and package in packages:
            versions[tool] = packages[package]
            continue
        done = run(command, timeout=10)
        match = re.search(pattern, done.out + done.err) if done.found else None
        versions[tool] = match.group(1) if match else None
        if not done.found:
            missing[tool] = f"{command[0]} is not installed; the package {package} brings it"
        elif match is None:
            missing[tool] = f"{' '.join(command)} printed no version"
    versions["nccl"] = None
    listing = run(["ldconfig", "-p"], timeout=10)
    path = re.search(r"libnccl\.so\.2 .*=> (\S+)", listing.out)
    if path:
        versions["nccl"] = parse_nccl(resolve(path.group(1)))
    return versions, missing
