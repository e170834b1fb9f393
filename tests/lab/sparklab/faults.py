# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Faults as data, and what the network has to look like under them: pure functions.

A fault is one entry in the state's list. The wanted state of the whole network always follows from the wiring and that
list, so any fault can be taken back, in any order, by dropping its entry and applying the rest again.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from . import devices
from .errors import LabError
from .wiring import SWITCH, Cable, End, Wiring

KINDS = ("cut", "twin-down", "swap", "mtu", "rate", "loss", "kill")
# Enough for perftest's 128 messages of 64 KiB in flight: the link is slow then, and not lossy.
TBF = "burst 1mb limit 16mb"


@dataclasses.dataclass
class Network:
    """What the network should be: cards without carrier, taps' bridges, slow devices, filter rules, dead machines."""

    unplugged: set[tuple[int, str]] = dataclasses.field(default_factory=set)
    bridges: dict[str, str] = dataclasses.field(default_factory=dict)
    rates: dict[str, str] = dataclasses.field(default_factory=dict)
    rules: list[str] = dataclasses.field(default_factory=list)
    killed: set[int] = dataclasses.field(default_factory=set)


def bridge_of(wiring: Wiring, cable: Cable) -> str:
    """Return the bridge that is a cable's wire."""
    return f"c{wiring.cables.index(cable) + 1}"


def switch_ends(wiring: Wiring, cable: Cable) -> tuple[str, str]:
    """Return the two devices that join a cable's wire to the switch: in the cable, in the switch."""
    place = wiring.cables.index(cable) + 1
    return f"w{place}", f"x{place}"


def receivers(wiring: Wiring, cable: Cable, sender: str | None) -> list[str]:
    """Return the devices through which a cable's traffic reaches its ends.

    Args:
        sender: ``spark1`` or ``switch`` for the traffic from there only; None for both directions.
    """
    found: list[str] = []
    for end in cable.ends:
        if sender != devices.node_name(end.node):
            found += devices.taps_of(end)
    if cable.b is None and sender != SWITCH:
        found.append(switch_ends(wiring, cable)[0])
    return found


def check_sender(cable: Cable, sender: str | None) -> str | None:
    """Check that a direction starts at one of the cable's ends.

    Raises:
        LabError: it does not.
    """
    ends = [devices.node_name(end.node) for end in cable.ends] + ([SWITCH] if cable.b is None else [])
    if sender is not None and sender not in ends:
        raise LabError(f"--from {sender}: cable {cable.name} ends at {' and '.join(ends)}")
    return sender


def make(wiring: Wiring, kind: str, **values: Any) -> dict[str, Any]:
    """Make the record of a fault from what the user typed.

    Raises:
        LabError: a cable, node, interface or number is not one.
    """
    fault: dict[str, Any] = {"kind": kind}
    if kind in ("kill", "twin-down"):
        fault["node"] = wiring.node(str(values["node"]))
    if kind == "twin-down":
        if values["interface"] not in devices.INTERFACES.values():
            raise LabError(f"no fabric interface {values['interface']!r}; they are {', '.join(devices.INTERFACES.values())}")
        fault["interface"] = values["interface"]
    if kind in ("cut", "mtu", "rate", "loss", "swap"):
        cable = wiring.find(values["cable"])
        fault["cable"] = cable.name
    if kind in ("mtu", "rate", "loss"):
        fault["from"] = check_sender(cable, values.get("sender"))
    if kind == "mtu":
        fault["size"] = number(values["size"], 68, 65535, "an MTU in bytes")
    if kind == "rate":
        if not re.fullmatch(r"\d+(\.\d+)?(kbit|mbit|gbit)", values["rate"]):
            raise LabError(f"rate {values['rate']!r}: write it as tc does, for instance 50mbit or 1gbit")
        fault["rate"] = values["rate"]
    if kind == "loss":
        fault["percent"] = number(values["percent"], 0.01, 100, "a percentage")
    if kind == "swap":
        other = wiring.find(values["other"])
        fault["other"] = other.name
        fault["ends"] = [str(end) for end in swap_ends(wiring, cable, other)]
    return fault


def number(text: str, least: float, most: float, what: str) -> float:
    """Read a number.

    Raises:
        LabError: it is none, or out of range.
    """
    try:
        value = float(str(text).rstrip("%"))
    except ValueError as error:
        raise LabError(f"{text!r} is not {what}") from error
    if not least <= value <= most:
        raise LabError(f"{text} is not {what} from {least:g} to {most:g}")
    return int(value) if value == int(value) else value


def swap_ends(wiring: Wiring, one: Cable, other: Cable) -> tuple[End, End]:
    """Choose which plugs change places: those at a node that both cables reach, else the far ends.

    Raises:
        LabError: the change would change nothing.
    """
    if one == other:
        raise LabError(f"a swap takes two cables, and both are {one.name}")
    if one.b is None and other.b is None:
        raise LabError(f"{one.name} and {other.name} both end in the switch, where one socket is as good as another; nothing would change")
    for end in reversed(one.ends):
        for far in reversed(other.ends):
            if end.node == far.node:
                return end, far
    return one.ends[-1], other.ends[-1]


def describe(fault: dict[str, Any]) -> str:
    """Say in words what a fault is."""
    direction = f" from {fault['from']}" if fault.get("from") else ""
    if fault["kind"] == "cut":
        return f"cable {fault['cable']} is cut (no carrier at its ends)"
    if fault["kind"] == "twin-down":
        return f"{devices.node_name(fault['node'])}: {fault['interface']} has no carrier, its twin has"
    if fault["kind"] == "swap":
        return f"the plugs of cables {fault['cable']} and {fault['other']} at {' and '.join(fault['ends'])} have changed places"
    if fault["kind"] == "mtu":
        return f"cable {fault['cable']} loses packets above {fault['size']} bytes{direction}"
    if fault["kind"] == "rate":
        return f"cable {fault['cable']} carries {fault['rate']} at most{direction}"
    if fault["kind"] == "loss":
        return f"cable {fault['cable']} loses {fault['percent']} % of its packets{direction}"
    return f"{devices.node_name(fault['node'])} is dead"


def wanted(wiring: Wiring, faults: list[dict[str, Any]]) -> Network:
    """Work out what the network has to be."""
    network = Network()
    cabled = wiring.cabled()
    for node in wiring.numbers:
        for port in devices.PORTS:
            for rail in devices.RAILS:
                cable = cabled.get(End(node, port))
                network.bridges[devices.tap(node, port, rail)] = bridge_of(wiring, cable) if cable else ""
                if cable is None:
                    network.unplugged.add((node, devices.nic(port, rail)))
    for fault in faults:
        apply_fault(wiring, fault, network)
    return network


def apply_fault(wiring: Wiring, fault: dict[str, Any], network: Network) -> None:
    """Change what is wanted by one fault."""
    kind = fault["kind"]
    if kind == "kill":
        network.killed.add(fault["node"])
    elif kind == "twin-down":
        place = {name: key for key, name in devices.INTERFACES.items()}[fault["interface"]]
        network.unplugged.add((fault["node"], devices.nic(*place)))
    elif kind == "swap":
        one, other = (parse_end(text) for text in fault["ends"])
        for tap, far in zip(devices.taps_of(one), devices.taps_of(other), strict=True):
            network.bridges[tap], network.bridges[far] = network.bridges[far], network.bridges[tap]
    else:
        cable = wiring.find(fault["cable"])
        targets = receivers(wiring, cable, fault.get("from"))
        names = "{ " + ", ".join(targets) + " }"
        if kind == "cut":
            network.unplugged |= {(end.node, devices.nic(end.port, rail)) for end in cable.ends for rail in devices.RAILS}
        elif kind == "mtu":
            network.rules.append(f"oifname {names} meta length > {fault['size']} counter drop")
        elif kind == "loss":
            share = round(fault["percent"] * 100)
            network.rules.append(f"oifname {names} numgen random mod 10000 < {share} counter drop")
        elif kind == "rate":
            network.rates.update({target: fault["rate"] for target in targets})


def parse_end(text: str) -> End:
    """Read ``spark1:0``."""
    node, port = text.removeprefix("spark").split(":")
    return End(int(node), int(port))
