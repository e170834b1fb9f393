# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bridges, taps, filters and shapers of the lab, inside its network namespace."""

from __future__ import annotations

import json
from typing import Any

from . import devices, faults, namespace
from .state import State
from .wiring import SWITCH, Wiring

MTU = 9216
# Bridges swallow LLDP unless told to forward it (bit 14 of the link-local group addresses): a cable lets it through, a switch does not.
LLDP_FORWARD = "0x4000"


def setup_commands(wiring: Wiring) -> list[str]:
    """Return the ``ip -batch`` lines that make all devices of a wiring, with no fabric cable plugged yet."""
    lines = ["link set lo up"]

    def bridge(name: str, forward: str = LLDP_FORWARD) -> None:
        lines.append(f"link add {name} type bridge mcast_snooping 0 group_fwd_mask {forward}")
        lines.append(f"link set {name} mtu {MTU} up")

    bridge("brm")
    lines.append(f"address add {devices.HOST_ADDRESS}/24 dev brm")
    if any(cable.b is None for cable in wiring.cables):
        bridge(SWITCH, forward="0")
    for cable in wiring.cables:
        name = faults.bridge_of(wiring, cable)
        bridge(name)
        if cable.b is None:
            near, far = faults.switch_ends(wiring, cable)
            lines.append(f"link add {near} mtu {MTU} type veth peer name {far} mtu {MTU}")
            lines.append(f"link set {near} master {name} up")
            lines.append(f"link set {far} master {SWITCH} up")
    for node in wiring.numbers:
        taps = [devices.tap(node, port, rail) for port in devices.PORTS for rail in devices.RAILS]
        for tap in [devices.management_tap(node), *taps]:
            lines.append(f"tuntap add dev {tap} mode tap")
            lines.append(f"link set {tap} mtu {MTU} up")
        lines.append(f"link set {devices.management_tap(node)} master brm")
    return lines


def lldp_rules(wiring: Wiring) -> str:
    """Return the nft table that keeps the twins of one port from seeing each other's LLDP, as on a real cable."""
    rules = []
    for node in wiring.numbers:
        for port in devices.PORTS:
            a, b = (devices.tap(node, port, rail) for rail in devices.RAILS)
            rules.append(f"  ether type 0x88cc iifname {a} oifname {b} drop")
            rules.append(f"  ether type 0x88cc iifname {b} oifname {a} drop")
    return table("lldp", rules)


def table(name: str, rules: list[str]) -> str:
    """Return nft's text for one table of the bridges, replaced as a whole."""
    body = "\n".join(rules)
    return (
        f"table bridge {name}\ndelete table bridge {name}\n"
        f"table bridge {name} {{\n chain forward {{\n  type filter hook forward priority 0; policy accept;\n{body}\n }}\n}}\n"
    )


def bridge_commands(network: faults.Network) -> list[str]:
    """Return the ``ip -batch`` lines that plug taps into bridges."""
    return [
        f"link set {tap} master {bridge}" if bridge else f"link set {tap} nomaster" for tap, bridge in sorted(network.bridges.items())
    ]


def shaper_commands(network: faults.Network, present: list[dict[str, Any]]) -> list[str]:
    """Return the ``tc -batch`` lines from the shapers that are (``tc -j qdisc show``) to those that are wanted."""
    lines = [f"qdisc replace dev {device} root tbf rate {rate} {faults.TBF}" for device, rate in sorted(network.rates.items())]
    shaped = {entry["dev"] for entry in present if entry.get("kind") == "tbf"}
    return lines + [f"qdisc del dev {device} root" for device in sorted(shaped - set(network.rates))]


def setup(state: State) -> None:
    """Make the devices."""
    lines = setup_commands(state.wiring)
    namespace.run_inside(state.holder, ["ip", "-batch", "-"], text="\n".join(lines) + "\n")
    namespace.run_inside(state.holder, ["nft", "-f", "-"], text=lldp_rules(state.wiring))


def apply(state: State, network: faults.Network) -> None:
    """Bring bridges, filters and shapers to what is wanted (the machines' cards are machines.apply_links' part)."""
    namespace.run_inside(state.holder, ["ip", "-batch", "-"], text="\n".join(bridge_commands(network)) + "\n")
    namespace.run_inside(state.holder, ["nft", "-f", "-"], text=table("faults", [f"  {rule}" for rule in network.rules]))
    present = json.loads(namespace.run_inside(state.holder, ["tc", "-j", "qdisc", "show"]) or "[]")
    lines = shaper_commands(network, present)
    if lines:
        namespace.run_inside(state.holder, ["tc", "-batch", "-"], text="\n".join(lines) + "\n")
