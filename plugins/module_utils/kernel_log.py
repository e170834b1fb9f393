# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the lines of a kernel log that tell about the ConnectX-7: driver, ports, hot-plug, PCIe errors. Pure.

Lines as of ``journalctl -k``, ``dmesg`` and ``dmesg -T``. The driver's note that a slot gives 27 W is on every Spark and says nothing.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

FRONT = re.compile(
    r"^(?:[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d(?:\.\d{1,9})? (?P<host>\S{1,255}) kernel: |\[[^\]]{1,40}\] |kernel: )?(?:\[ *\d{1,9}\.\d{1,9}\] )?", re.ASCII
)
FUNCTION = r"(?P<function>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
EVENTS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.ASCII))
    for name, pattern in (
        ("firmware", rf"mlx5_core {FUNCTION}:? .{{0,60}}?firmware version: (?P<value>\d{{1,3}}\.\d{{1,4}}\.\d{{1,5}})"),
        ("unplugged", rf"mlx5_core {FUNCTION}:? .{{0,60}}?Port module event: module (?P<value>\d{{1,2}}), Cable unplugged"),
        ("plugged", rf"mlx5_core {FUNCTION}:? .{{0,60}}?Port module event: module (?P<value>\d{{1,2}}), Cable plugged"),
        (
            "module_error",
            rf"mlx5_core {FUNCTION}:? .{{0,60}}?Port module event(?:\[error\])?: module \d{{1,2}}, "
            rf"(?P<value>Cable error.{{0,80}}|.{{0,40}}[Ee]rror.{{0,60}})",
        ),
        ("too_hot", rf"mlx5_core {FUNCTION}:? .{{0,80}}?(?P<value>[Hh]igh [Tt]emperature.{{0,60}})"),
        ("hotplug_removed", r"cx7-pcie-hotplug .{0,60}?(?P<value>removing device.{0,60})"),
        (
            "health",
            rf"mlx5_core {FUNCTION}:? .{{0,80}}?(?P<value>(?:[Hh]ealth (?:issue|recovery|compromised)|device's health compromised|assert_var|synd 0x|"
            rf"poll_health|Fatal error|handling bad device|firmware .{{0,40}}not responding|wait for FW|Failed (?:init|to init)).{{0,100}})",
        ),
        (
            "command_timeout",
            rf"mlx5_core {FUNCTION}:? .{{0,100}}?(?P<value>(?:timeout|Timeout)\. Will cause a leak.{{0,60}}|cmd_exec.{{0,40}}timed? ?out.{{0,60}})",
        ),
        (
            "aer_fatal",
            rf"(?:pcieport|mlx5_core) {FUNCTION}:? .{{0,100}}?(?P<value>AER: .{{0,60}}(?:[Uu]ncorrect\w* (?:\()?[Ff]atal|[Ff]atal).{{0,80}}"
            rf"|PCIe Bus Error: severity=Uncorrect\w* \(Fatal\).{{0,80}})",
        ),
        (
            "aer_nonfatal",
            rf"(?:pcieport|mlx5_core) {FUNCTION}:? .{{0,100}}?(?P<value>(?:AER: .{{0,60}}[Uu]ncorrect\w*|PCIe Bus Error: severity=Uncorrect\w*).{{0,80}})",
        ),
        (
            "aer_corrected",
            rf"(?:pcieport|mlx5_core) {FUNCTION}:? .{{0,100}}?(?P<value>(?:AER: .{{0,60}}[Cc]orrect(?:ed|able)|PCIe Bus Error: severity=Correct\w*).{{0,80}})",
        ),
        ("link_down", rf"mlx5_core {FUNCTION} (?P<value>en\S{{1,40}}): Link down"),
        ("link_up", rf"mlx5_core {FUNCTION} (?P<value>en\S{{1,40}}): Link up"),
        ("out_of_memory", r"(?P<value>Out of memory: Killed process \d{1,10} \([^)]{1,40}\))"),
    )
)
WORDS = ("mlx5_core", "cx7-pcie-hotplug", "AER", "PCIe Bus Error", "Out of memory: Killed")
KEPT = 2000


@dataclasses.dataclass(frozen=True, slots=True)
class KernelEvent:
    """One event; ``function`` is the PCI function, ``value`` what the line adds (version, module, interface, words)."""

    name: str
    host: str
    function: str
    value: str
    line: str


def relevant(text: str) -> bool:
    """Tell whether a line can be one of these."""
    return any(word in text for word in WORDS)


def events(lines: t.Iterable[str]) -> list[KernelEvent]:
    """Return the events in order, at most ``KEPT``."""
    found: list[KernelEvent] = []
    for line in lines:
        if len(found) >= KEPT:
            break
        if not relevant(line):
            continue
        front = FRONT.match(line)
        for name, pattern in EVENTS:
            match = pattern.search(line)
            if match:
                groups = match.groupdict()
                found.append(
                    KernelEvent(name, (front["host"] if front else None) or "", groups.get("function") or "", groups.get("value") or "", line.strip()[:300])
                )
                break
    return found


def summary(found: t.Iterable[KernelEvent]) -> list[dict[str, t.Any]]:
    """Return events of one kind and function as one entry: ``name``, ``function``, ``value``, ``count`` and the ``last`` line."""
    groups: dict[tuple[str, str], dict[str, t.Any]] = {}
    for event in found:
        entry = groups.setdefault((event.name, event.function), {"name": event.name, "function": event.function or None, "count": 0})
        entry["count"] += 1
        entry |= {"value": event.value, "last": event.line}
    return list(groups.values())
