# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What people do by hand: ib_write_bw in two terminals, one test after the other, over ssh."""

from __future__ import annotations

import subprocess
import time
import typing as t


def gid_index(node: dict[str, t.Any], device: str, address: str) -> int:
    """Return the index of a device's RoCE v2 GID for an IPv4 address."""
    return next(gid["index"] for gid in node["rdma_devices"][device]["gids"] if gid["ipv4"] == address and gid["type"] == "RoCE v2")


def seconds(plan: dict[str, t.Any], nodes: dict[str, t.Any], lab: t.Callable[..., subprocess.CompletedProcess[str]]) -> float:
    """Run every test of a plan one at a time and return the seconds that took.

    The way of a skilled hand: the server in the background, a second's pause, the client; ssh connections are kept open.
    """
    started = time.monotonic()
    for test in plan["tests"]:
        tool = f"{test['tool']} -p {test['port']} -D {test['seconds']} --report_gbits -F{' -b' if test['bidirectional'] else ''}"
        server = f"timeout 60 {tool} -d {test['server_device']} -x {gid_index(nodes[test['server']], test['server_device'], test['server_address'])}"
        client = f"timeout 60 {tool} -d {test['client_device']} -x {gid_index(nodes[test['client']], test['client_device'], test['client_address'])}"
        lab("ssh", test["server"], "--", f"({server}) >/dev/null 2>&1 </dev/null &")
        time.sleep(1)
        lab("ssh", test["client"], "--", f"{client} {nodes[test['server']]['management']['address']} >/dev/null")
    return time.monotonic() - started
