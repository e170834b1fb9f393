# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What ``ping`` (iputils) and ``ip -j route get`` say about a path: text in, records out. Pure functions."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Sequence

#: Bytes of IPv4 and ICMP header before ping's payload.
HEADER_BYTES = 28
#: Every IPv4 path carries this much (RFC 791); below it there is nothing to find.
LEAST_MTU = 68

SUMMARY = re.compile(r"(?P<sent>\d{1,9}) packets transmitted, (?P<received>\d{1,9}) (?:packets )?received", re.ASCII)
LOCAL_LIMIT = re.compile(r"[Mm]essage too long(?:, mtu ?= ?(?P<mtu>\d{1,9}))?", re.ASCII)
ROUTER_LIMIT = re.compile(r"Frag needed and DF set \(mtu ?= ?(?P<mtu>\d{1,9})\)", re.ASCII)
TROUBLE = re.compile(r"^\S{0,200}ping: (?!Warning)(?P<text>.+)$|"
                     r"^From \S+ icmp_seq=\d+ (?P<icmp>Destination .+|Time to live exceeded.*)$", re.ASCII | re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True)
class PingResult:
    """Packets ``sent`` and ``received``; ``limit`` is an MTU that the kernel or a router named; ``trouble`` ping's first complaint."""

    sent: int
    received: int
    limit: int | None
    trouble: str | None


def parse_ping(stdout: str, stderr: str = "") -> PingResult:
    """Read one run of ping. A run that ended before its summary sent nothing."""
    text = f"{stdout}\n{stderr}"
    summary = SUMMARY.search(stdout)
    limits = [int(match["mtu"]) for pattern in (LOCAL_LIMIT, ROUTER_LIMIT) for match in pattern.finditer(text) if match["mtu"]]
    trouble = TROUBLE.search(text)
    return PingResult(
        sent=int(summary["sent"]) if summary else 0, received=min(int(summary["received"]), int(summary["sent"])) if summary else 0,
        limit=min(limits) if limits else None, trouble=(trouble["text"] or trouble["icmp"]).strip()[:200] if trouble else None)


def parse_route_interface(text: str) -> str | None:
    """Return the interface of ``ip -j route get``, None where there is no route."""
    try:
        routes = json.loads(text)
    except (ValueError, RecursionError):
        return None
    route = routes[0] if isinstance(routes, list) and routes else None
    name = route.get("dev") if isinstance(route, dict) else None
    return name if isinstance(name, str) else None


def parse_routes_by_destination(text: str) -> dict[str, dict[str, str | None]]:
    """Return ``{destination: {"interface", "gateway"}}`` from several ``ip -j route get`` in one run (``-batch``).

    Each prints a list of its own; a destination without a route prints nothing there. What is no such list ends the reading.
    """
    decoder, place, found = json.JSONDecoder(), 0, {}
    while place < len(text):
        if text[place].isspace():
            place += 1
            continue
        try:
            routes, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            break
        for route in routes if isinstance(routes, list) else []:
            if isinstance(route, dict) and isinstance(route.get("dst"), str):
                names = (("interface", "dev"), ("gateway", "gateway"))
                found[route["dst"]] = {key: route[name] if isinstance(route.get(name), str) else None for key, name in names}
    return found


def largest_passing(low: int, high: int, passes: Callable[[Sequence[int]], Sequence[bool]], width: int = 8) -> int | None:
    """Return the largest packet size in ``low`` .. ``high`` that passes; None when not even ``low`` does.

    Bisection with ``width`` cuts at a time, since sizes can be tried at once and each loss costs a second.
    ``passes`` tells for several sizes whether each passes. ``high`` is known to fail.
    """
    if not passes([low])[0]:
        return None
    while high - low > 1:
        step = max(1, (high - low) // (width + 1))
        sizes = sorted({min(low + step * number, high - 1) for number in range(1, width + 1)})
        for size, passed in zip(sizes, passes(sizes), strict=True):
            if not passed:
                high = size
                break
            low = size
    return low
