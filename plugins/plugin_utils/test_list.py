# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan's list of tests: the rounds of the schedule, with devices, addresses, ports and the rate that each test should show."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import IPv4Address
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.interfaces import interface_name, rdma_device
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Inventory, Plug, Segment, Settings, Topology
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rates import ExpectedRates, expected_rates, rounded
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.schedule import Rounds, Run, bidirectional_rounds, directed_rounds, split

TOOL = "ib_write_bw"
LAST_TCP_PORT = 65535
Addresses = Mapping[tuple[Plug, str], IPv4Address]


def build_tests(inventory: Inventory, topology: Topology, segments: tuple[Segment, ...]) -> tuple[list[dict[str, Any]], int]:
    """Return the tests in the order of their rounds, and the number of rounds.

    Rails without an address have no tests. Raises FabricError when the TCP ports of a round do not fit.
    """
    settings = inventory.settings
    addresses = {
        (member.plug, member.rail): member.address for segment in segments for member in segment.members if member.address is not None
    }
    staged = (
        ("directed", _planned(directed_rounds(inventory, topology, segments), addresses, settings)),
        ("bidirectional", _planned(bidirectional_rounds(inventory, topology, segments), addresses, settings)),
    )
    tests: list[dict[str, Any]] = []
    rates = expected_rates(settings)
    number = 0
    names: set[str] = set()
    for stage, rounds in staged:
        for runs in rounds:
            _check_tcp_ports(len(runs), settings)
            tests.extend(_round(number, stage, runs, addresses, settings, rates, names))
            number += 1
    return tests, number


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
    number: int, stage: str, runs: list[Run], addresses: Addresses, settings: Settings, rates: ExpectedRates, names: set[str]
) -> list[dict[str, Any]]:
    together: dict[tuple[Plug, Plug], int] = {}
    for run in runs:
        together[(run.client, run.server)] = together.get((run.client, run.server), 0) + 1
    at_once = len(runs)
    alone, share, both_ways = (rounded(rate(at_once)) for rate in (rates.rail_gbps, rates.share_gbps, rates.rail_bidirectional_gbps))
    tests = []
    for place, run in enumerate(runs):
        expected = both_ways if run.bidirectional else share if together[(run.client, run.server)] > 1 else alone
        tests.append(
            {
                "id": _named(f"r{number}-{run.client.node}-{run.server.node}-{run.rail}", names),
                "round": number,
                "stage": stage,
                "tool": TOOL,
                "bidirectional": run.bidirectional,
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
                "seconds": settings.test_seconds,
                **({"qp_timeout": settings.test_qp_timeout} if settings.test_qp_timeout else {}),
                "concurrent": at_once,
                "expected_gbps": expected,
            }
        )
    return tests


def _named(name: str, names: set[str]) -> str:
    """Return the name, or the name with a number where dashes in host names made two tests alike."""
    candidate, count = name, 1
    while candidate in names:
        count += 1
        candidate = f"{name}-{count}"
    names.add(candidate)
    return candidate
