# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan's list of tests: the rounds of the schedule, with devices, addresses, ports and the rate that each test should show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.interfaces import interface_name, rdma_device
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Inventory, Plug, Segment, Settings, Topology
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rates import ExpectedRates, expected_rates, rounded
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.schedule import (
    Rounds,
    Run,
    bidirectional_rounds,
    directed_rounds,
    one_rail_rounds,
    split,
)

#: Size of a latency test's messages, perftest's own.
LATENCY_BYTES = 2
LAST_TCP_PORT = 65535
Addresses = Mapping[tuple[Plug, str], IPv4Address]


@dataclass(frozen=True)
class Stage:
    """One kind of test: what it is called, its tool, and what is different from a write bandwidth test."""

    name: str
    tool: str
    seconds: int
    more: Mapping[str, Any]


def build_tests(inventory: Inventory, topology: Topology, segments: tuple[Segment, ...]) -> tuple[list[dict[str, Any]], int]:
    """Return the write bandwidth tests in the order of their rounds, and the number of rounds.

    They screen every cable: first both rails at once in each direction, then each rail both ways at once. Rails without an
    address have no tests. Raises FabricError when the TCP ports of a round do not fit.
    """
    directed = directed_rounds(inventory, topology, segments, inventory.settings.switch_pairs == "all")
    both = bidirectional_rounds(inventory, topology, segments)
    stages = [
        (_bandwidth("directed", "ib_write_bw", inventory.settings), directed),
        (_bandwidth("bidirectional", "ib_write_bw", inventory.settings), both),
    ]
    return _rounds(stages, inventory.settings, segments, 0)


def build_further_tests(
    inventory: Inventory, topology: Topology, segments: tuple[Segment, ...], first_round: int
) -> tuple[list[dict[str, Any]], int]:
    """Return the tests that follow those, and their number of rounds: latency, read, send, and the ladder of TCP.

    A latency test has its rail and its wire for itself; one figure holds both ways. TCP climbs its ladder on each rail alone and
    over both rails at once. On a switch each node has two partners, whatever ``fabric_switch_pairs``. Raises FabricError when the
    TCP ports of a round do not fit.
    """
    settings = inventory.settings
    directed, both = directed_rounds(inventory, topology, segments, everything=False), bidirectional_rounds(inventory, topology, segments)
    alone = one_rail_rounds(directed)
    stages: list[tuple[Stage, Rounds]] = []
    if "latency" in settings.rdma_tests:
        # The shortest run of all: its time is that of the tool's start.
        seconds = 1 + settings.latency_iterations // 100000
        more = {"iterations": settings.latency_iterations, "size_bytes": LATENCY_BYTES, "expected_gbps": None}
        stages += [(Stage(f"{verb}_latency", f"ib_{verb}_lat", seconds, more), both) for verb in ("write", "send")]
    stages += [(_bandwidth(verb, f"ib_{verb}_bw", settings), directed) for verb in ("read", "send") if verb in settings.rdma_tests]
    for streams in settings.iperf3_streams:
        stages += [(Stage("tcp", "iperf3", settings.iperf3_seconds, {"streams": streams}), rounds) for rounds in (alone, directed)]
    return _rounds(stages, settings, segments, first_round)


def _bandwidth(name: str, tool: str, settings: Settings) -> Stage:
    sizes = {"size_bytes": settings.test_size_bytes, "queue_pairs": settings.test_queue_pairs}
    return Stage(name, tool, settings.test_seconds, {key: value for key, value in sizes.items() if value})


def _rounds(
    stages: Iterable[tuple[Stage, Rounds]], settings: Settings, segments: tuple[Segment, ...], first_round: int
) -> tuple[list[dict[str, Any]], int]:
    addresses = {
        (member.plug, member.rail): member.address for segment in segments for member in segment.members if member.address is not None
    }
    tests: list[dict[str, Any]] = []
    rates = expected_rates(settings)
    number = first_round
    names: set[str] = set()
    for stage, rounds in stages:
        for runs in _planned(rounds, addresses, settings):
            _check_tcp_ports(len(runs), settings)
            tests.extend(_round(number, stage, runs, addresses, settings, rates, names))
            number += 1
    return tests, number - first_round


def _planned(rounds: Rounds, addresses: Addresses, settings: Settings) -> Rounds:
    """Return the rounds with only the runs whose both ends have an address, split as the settings ask, none empty."""
    addressed = [[run for run in runs if (run.client, run.rail) in addresses and (run.server, run.rail) in addresses] for runs in rounds]
    return [runs for runs in split(addressed, settings.max_concurrent_tests) if runs]


def _check_tcp_ports(count: int, settings: Settings) -> None:
    first, last = settings.test_port_base, settings.test_port_base + count - 1
    if last > LAST_TCP_PORT:
        raise FabricError(
            f"fabric_test_port_base is {first} (all hosts), but a round has {count} tests and would need TCP ports up to {last}: set it to "
            f"{LAST_TCP_PORT + 1 - count} or less"
        )
    if first <= settings.control_port <= last:
        raise FabricError(
            f"fabric_control_port is {settings.control_port} (all hosts), which lies among the test ports {first} to {last} "
            f"(fabric_test_port_base): set it below {first}"
        )


def _round(
    number: int, stage: Stage, runs: list[Run], addresses: Addresses, settings: Settings, rates: ExpectedRates, names: set[str]
) -> list[dict[str, Any]]:
    together: dict[tuple[Plug, Plug], int] = {}
    for run in runs:
        together[(run.client, run.server)] = together.get((run.client, run.server), 0) + 1
    tests = []
    for place, run in enumerate(runs):
        with_twin = together[(run.client, run.server)] > 1
        tests.append(
            {
                "id": _named(f"r{number}-{run.client.node}-{run.server.node}-{run.rail}", names),
                "round": number,
                "stage": stage.name,
                "tool": stage.tool,
                "bidirectional": run.bidirectional and not stage.name.endswith("latency"),
                "rail": run.rail,
                "cables": list(run.cables),
                "client": run.client.node,
                "server": run.server.node,
                "client_interface": interface_name(run.client.port, run.rail),
                "server_interface": interface_name(run.server.port, run.rail),
                "client_device": rdma_device(run.client.port, run.rail),
                "server_device": rdma_device(run.server.port, run.rail),
                "client_address": str(addresses[(run.client, run.rail)]),
                "server_address": str(addresses[(run.server, run.rail)]),
                "port": settings.test_port_base + place,
                "seconds": stage.seconds,
                **({"qp_timeout": settings.test_qp_timeout} if settings.test_qp_timeout and stage.name != "tcp" else {}),
                "concurrent": len(runs),
                "with_twin": with_twin,
                "expected_gbps": _expected(stage, run, rates, len(runs), with_twin),
                **stage.more,
            }
        )
    return tests


def _expected(stage: Stage, run: Run, rates: ExpectedRates, at_once: int, with_twin: bool) -> float:
    if stage.name == "tcp":
        return rounded(rates.tcp_gbps(at_once, with_twin))
    if run.bidirectional:
        return rounded(rates.rail_bidirectional_gbps(at_once))
    return rounded(rates.share_gbps(at_once) if with_twin else rates.rail_gbps(at_once))


def _named(name: str, names: set[str]) -> str:
    """Return the name, or the name with a number where dashes in host names made two tests alike."""
    candidate, count = name, 1
    while candidate in names:
        count += 1
        candidate = f"{name}-{count}"
    names.add(candidate)
    return candidate
