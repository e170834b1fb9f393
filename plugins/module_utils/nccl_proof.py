# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which wires a run used: NCCL's own log and the devices' byte counters, a record a rank. Pure; judging it against the plan is the controller's.

A channel line names a net device by index: it is mapped to physical devices, merged ones taken apart. With routing by network NCCL then may replace the
device for a peer; the replacements are kept beside the channels, since the line does not change with them.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.dgxspark.fabric.plugins.module_utils import nccl_debug_log

#: Warnings kept of one rank.
WARNINGS_KEPT = 20


def digest(text: str | None) -> dict[str, t.Any] | None:
    """Return what the log of one rank says, None when there is no log or no record of NCCL in it."""
    if not text:
        return None
    log = nccl_debug_log.read(text.split("\n"))
    if not log.lines:
        return None
    processes = sorted(log.processes.values(), key=lambda process: process.rank is None)
    process = processes[0]
    return {
        "rank": process.rank,
        "ranks": process.ranks,
        "host": process.host,
        "version": process.version,
        "networks": list(process.networks),
        "devices": {str(index): list(members) for index, members in sorted(process.devices.items())},
        "no_device": process.no_device,
        "bootstrap": process.bootstrap_interface or process.oob_interface,
        "channels": channels(log),
        "overrides": sorted([planned, used] for planned, used in process.overrides),
        "rings_connected": process.rings_connected,
        "init_complete": process.init_complete,
        "settings": dict(sorted(process.settings.items())),
        "warnings": [
            {"text": warning.text, "count": warning.count, "errno": warning.errno, "device": warning.device}
            for warning in list(log.warnings.values())[:WARNINGS_KEPT]
        ],
    }


def channels(log: nccl_debug_log.Log) -> list[dict[str, t.Any]]:
    """Return the connections: from rank, to rank, which way, over which transport and net device, how many channels."""
    found = []
    for (_host, _pid, source, target, way, what, net, device), numbers in sorted(log.channels.items()):
        network = what == "NET"
        found.append({
            "source": source, "target": target, "way": way, "via": f"NET/{net}" if network else what, "device": device if network else None,
            "channels": len(numbers)})
    return found


def moved(before: Mapping[str, t.Any] | None, after: Mapping[str, t.Any] | None) -> dict[str, dict[str, t.Any]]:
    """Return the bytes that each device and interface moved between two looks; what went back or is not known is left out."""
    result: dict[str, dict[str, t.Any]] = {"devices": {}, "interfaces": {}}
    for kind, entries in result.items():
        for name, later in ((after or {}).get(kind) or {}).items():
            earlier = ((before or {}).get(kind) or {}).get(name)
            if not earlier:
                continue
            deltas = {key: difference(earlier.get(key), later.get(key)) for key in ("tx_bytes", "rx_bytes")}
            if all(value is not None for value in deltas.values()):
                entries[name] = {**deltas, **{key: later[key] for key in ("source", "interface") if later.get(key)}}
    return result


def difference(before: t.Any, after: t.Any) -> int | None:
    """Return how far a counter went, None when it went back or is none."""
    if not isinstance(before, int) or not isinstance(after, int) or after < before:
        return None
    return after - before


def gids_changed(before: Mapping[str, t.Any] | None, after: Mapping[str, t.Any] | None) -> list[str]:
    """Return the devices whose GID table is another one after the run."""
    names = {*(before or {}), *(after or {})}
    return sorted(name for name in names if (before or {}).get(name) != (after or {}).get(name))


def rank_record(node: str, collected: Mapping[str, t.Any] | None, log: str | None) -> dict[str, t.Any]:
    """Return the record of one rank from what was collected of it; everything unknown where nothing came."""
    report = (collected or {}).get("report") or {}
    return {
        "node": node,
        "answered": bool(report),
        "hostname": report.get("hostname"),
        "exit_code": report.get("exit_code"),
        "deadline": bool(report.get("deadline")),
        "ended": list((collected or {}).get("ended") or []),
        "bytes": moved(report.get("before"), report.get("after")),
        "gids_changed": gids_changed(report.get("gids_before"), report.get("gids_after")) if report.get("gids_after") is not None else [],
        "log": digest(log),
    }
