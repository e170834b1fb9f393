# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Probe every path of a node at once: ping bound to the interface, route, and who answers ARP at the other end."""

from __future__ import annotations

import dataclasses
import ipaddress
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils import iproute
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import NOT_FOUND, Runner
from ansible_collections.dgxspark.fabric.plugins.module_utils.path_probe_output import (
    HEADER_BYTES, LEAST_MTU, PingResult, largest_passing, parse_ping, parse_route_interface, parse_routes_by_destination)

COUNT = 3
#: When some of the packets are lost, that many more are sent, so that the share lost means something.
MORE = 7
SMALL_PAYLOAD = 64
#: Seconds: between two packets (the least that ping allows to a plain user), for an answer, and for one run of ping.
INTERVAL, ANSWER, RUN = 0.2, 1, 15.0
AT_ONCE = 32
#: Kind of the records of nodes without a cable between.
FAR = "far"


class TargetError(ValueError):
    """A target lacks something; the text says which."""


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """Another end of a segment. ``known`` are the keys that the result repeats."""

    interface: str
    address: str | None
    peer_address: str
    mtu: int
    known: dict[str, Any]


def parse_target(data: Mapping[str, Any]) -> Target:
    """Check a target; raises TargetError."""
    interface, address, peer = data.get("interface"), data.get("address"), data.get("peer_address")
    if not isinstance(interface, str) or not interface or interface.startswith("-"):
        raise TargetError(f"targets: interface is {interface!r}, expected a name")
    if not isinstance(peer, str) or not peer or peer.startswith("-"):
        raise TargetError(f"targets: peer_address on {interface} is {peer!r}, expected an address")
    mtu = data.get("mtu")
    if not isinstance(mtu, int) or isinstance(mtu, bool) or not LEAST_MTU <= mtu <= 65535:
        raise TargetError(f"targets: mtu on {interface} is {mtu!r}, expected an integer from {LEAST_MTU} to 65535")
    names = ("segment", "interface", "rail", "cable", "address", "peer_node", "peer_interface", "peer_address", "mtu", "expected_mac")
    return Target(interface, str(address) if address else None, peer, mtu, {name: data.get(name) for name in names})


def probe(targets: Sequence[Target], addresses: Mapping[str, Mapping[str, Sequence[str]]], run: Runner) -> list[dict[str, Any]]:
    """Return one record a target.

    ``addresses`` are the node's own, by interface and family; ``run`` runs a program under a deadline.
    """
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        records = list(pool.map(lambda target: _probe_one(target, addresses, run), targets))
    neighbours = {(entry["interface"], entry["address"]): entry["mac"] for entry in _neighbours(run)}
    for target, record in zip(targets, records, strict=True):
        record["neighbour_mac"] = neighbours.get((target.interface, target.peer_address))
    return records


def ask_far(far: Sequence[Mapping[str, Any]], run: Runner) -> list[dict[str, Any]]:
    """Return one record for each address of a node to which no cable leads: by which interface the kernel would go there.

    A record is told from a target's by ``kind``. All are asked in one run of ``ip``.
    """
    addresses = [str(address) for entry in far for address in entry["addresses"]]
    if not addresses:
        return []
    with tempfile.NamedTemporaryFile("w", prefix="fabric-routes-", encoding="ascii") as batch:
        batch.write("".join(f"route get {address}\n" for address in addresses))
        batch.flush()
        routes = parse_routes_by_destination(run(["ip", "-j", "-force", "-batch", batch.name]).out)
    return [
        {"kind": FAR, "interface": None, "peer_node": entry["node"], "peer_interface": None, "peer_address": str(address),
         "route_interface": routes.get(str(address), {}).get("interface"), "gateway": routes.get(str(address), {}).get("gateway")}
        for entry in far for address in entry["addresses"]]


def parse_far(data: Mapping[str, Any]) -> dict[str, Any]:
    """Check an entry of ``far``; raises TargetError."""
    addresses = data.get("addresses") or []
    for address in addresses:
        try:
            ipaddress.IPv4Address(address)
        except ValueError as exc:
            raise TargetError(f"far: addresses of {data.get('node')} has {address!r}, expected an IPv4 address") from exc
    return {"node": str(data.get("node")), "addresses": [str(address) for address in addresses]}


def _neighbours(run: Runner) -> list[dict[str, Any]]:
    try:
        return iproute.parse_neighbours(run(["ip", "-j", "neigh", "show"]).out)
    except iproute.IprouteError:
        return []


def _probe_one(target: Target, addresses: Mapping[str, Mapping[str, Sequence[str]]], run: Runner) -> dict[str, Any]:
    record = {**target.known, "sent": 0, "received": 0, "small_received": 0, "largest_mtu": None, "neighbour_mac": None, "route_interface": None, "error": None}
    if target.interface not in addresses:
        return {**record, "error": f"there is no interface {target.interface}"}
    own = [text.partition("/")[0] for text in addresses[target.interface].get("inet", [])]
    if not own or (target.address and target.address not in own):
        return {**record, "error": f"{target.interface} does not have the address {target.address} (it has: {', '.join(own) or 'none'})"}
    source = target.address or own[0]
    with ThreadPoolExecutor(max_workers=2) as pool:
        small_run, full_run = (pool.submit(_ping, target, size, COUNT, run) for size in (SMALL_PAYLOAD, target.mtu - HEADER_BYTES))
        small, full = small_run.result(), full_run.result()
    if 0 < small.received < small.sent or 0 < full.received < full.sent:
        more_small, more_full = _ping(target, SMALL_PAYLOAD, MORE, run), _ping(target, target.mtu - HEADER_BYTES, MORE, run)
        small, full = _sum(small, more_small), _sum(full, more_full)
    record |= {"sent": full.sent or small.sent, "received": full.received, "small_received": small.received,
               "route_interface": parse_route_interface(run(["ip", "-j", "route", "get", target.peer_address, "from", source]).out)}
    if not record["sent"] or small.received == 0:
        record["error"] = small.trouble or full.trouble or None
    elif full.received == 0:
        record["largest_mtu"] = _largest(target, full, run)
        record["error"] = full.trouble
    return record


def _largest(target: Target, full: PingResult, run: Runner) -> int | None:
    """Find the largest packet that passes, beginning with a limit that somebody named."""

    def passes(sizes: Sequence[int]) -> list[bool]:
        with ThreadPoolExecutor(max_workers=len(sizes)) as pool:
            # Two packets: one lost by chance shall not end the search.
            return [result.received > 0 for result in pool.map(lambda size: _ping(target, size - HEADER_BYTES, 2, run), sizes)]

    if full.limit is not None and HEADER_BYTES + SMALL_PAYLOAD <= full.limit < target.mtu and passes([full.limit])[0]:
        return full.limit
    return largest_passing(HEADER_BYTES + SMALL_PAYLOAD, target.mtu, passes)


def _ping(target: Target, payload: int, count: int, run: Runner) -> PingResult:
    done = run(["ping", "-n", "-M", "do", "-c", str(count), "-i", str(INTERVAL), "-W", str(ANSWER), "-I", target.interface, "-s", str(payload),
                target.peer_address], timeout=RUN)
    if done.rc == NOT_FOUND:
        return PingResult(0, 0, None, "ping is not installed on this node: install the package iputils-ping")
    return parse_ping(done.out, done.err)


def _sum(first: PingResult, second: PingResult) -> PingResult:
    return PingResult(first.sent + second.sent, first.received + second.received, first.limit or second.limit, first.trouble or second.trouble)
