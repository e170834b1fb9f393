# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the cluster is in use, and by what: a busy cluster is not measured, since each would slow the other down. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import number_text

REFUSED, LEFT_ALONE = "refused_busy", "cluster_busy"
WAY_OUT = "end it, or measure all the same with -e fabric_force_busy=true"


def use_text(entry: Mapping[str, Any]) -> str:
    """Return one entry of ``fabric_node.busy`` in words."""
    who, device, what = f"{entry.get('command')} (process {entry.get('pid')})", entry.get("device"), entry.get("what")
    if what == "traffic":
        return f"traffic on {device} ({number_text(float(entry.get('rx_gbps') or 0))} Gb/s in, {number_text(float(entry.get('tx_gbps') or 0))} Gb/s out)"
    if what == "socket":
        return f"{who} has connections on {device}"
    if what == "gpu process":
        return f"{who} computes on the GPU"
    return f"{who} holds an {'RDMA queue pair' if what in (None, 'rdma queue pair') else what} on {device}"


def uses(facts: Mapping[str, Any]) -> list[str]:
    """Return what uses a node, in words, each once."""
    return list(dict.fromkeys(use_text(entry) for entry in facts.get("busy") or []))


def without_measuring(nodes: Mapping[str, Mapping[str, Any]], hosts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return the load test results of a cluster that is in use, by host; none when it is free.

    ``nodes`` are the facts ``fabric_node`` by host. A node that is in use says by what; the others that they were left alone.
    """
    busy = {host: uses(nodes[host]) for host in hosts if host in nodes}
    names = [host for host, found in busy.items() if found]
    if not names:
        return {}
    records = {}
    for host, found in busy.items():
        status = REFUSED if found else LEFT_ALONE
        message = f"{'; '.join(found)}: {WAY_OUT}" if found else f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} in use"
        records[host] = {"run": "", "node": host, "status": status, "message": message, "version": None, "tests": [], "strangers": []}
    return records
