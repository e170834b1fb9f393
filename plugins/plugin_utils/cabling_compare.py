# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cabling as it is against the plan: what contradicts it, and which plug to move. Pure functions.

Cables are told by their number in the plan and their name, ends as node and port, as they are printed on no plug but counted at the back
of the machine. Whatever works the same either way (a switch between two nodes instead of a cable) is no contradiction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cabling_seen import SeenCabling, SeenPort, Wire
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Plug


@dataclasses.dataclass(frozen=True, slots=True)
class Planned:
    """A cable of the plan; ``b`` is None at a switch, ``mates`` are the other ports of its switch."""

    number: int
    name: str
    a: Plug
    b: Plug | None
    mates: frozenset[Plug]

    @property
    def title(self) -> str:
        """Its number and name."""
        return f"cable {self.number} ({self.name})"

    def expected(self, plug: Plug) -> frozenset[Plug]:
        """Return whom an end of the cable shall hear."""
        return self.mates if self.b is None else frozenset({self.b if plug == self.a else self.a})

    @property
    def plugs(self) -> tuple[Plug, ...]:
        """Its ends at nodes."""
        return (self.a,) if self.b is None else (self.a, self.b)


@dataclasses.dataclass(frozen=True, slots=True)
class CableVerdict:
    """What is to be said about one planned cable: ``wrong`` contradicts the plan, ``fix`` says which plug to move.

    ``silent`` holds for each rail the ends that hear nobody although their link is up and the far end was probed; ``not_probed`` the ends
    that nobody asked. ``probed`` is false where no end of the cable was probed.
    """

    number: int
    name: str
    probed: bool
    wrong: str = ""
    fix: str = ""
    silent: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    not_probed: tuple[str, ...] = ()
    heard: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)


def end_text(plug: Plug) -> str:
    """Return "spark2 port 0"."""
    return f"{plug.node} port {plug.port}"


def planned_cables(plan: Mapping[str, Any]) -> list[Planned]:
    """Return the cables of a plan. Ports of one switch belong together by their segment."""
    ends = {cable["name"]: Plug(cable["a"]["node"], cable["a"]["port"]) for cable in plan["cables"]}
    found = []
    for number, cable in enumerate(plan["cables"], start=1):
        a = ends[cable["name"]]
        b = Plug(cable["b"]["node"], cable["b"]["port"]) if cable["b"] else None
        mates = frozenset()
        if b is None:
            groups = [segment["cables"] for segment in plan["segments"].values() if cable["name"] in segment["cables"]]
            mates = frozenset(ends[name] for group in groups for name in group if name != cable["name"])
        found.append(Planned(number, cable["name"], a, b, mates))
    return found


def compare(plan: Mapping[str, Any], seen: SeenCabling) -> list[CableVerdict]:
    """Return the verdict on every cable of the plan, in its order."""
    cables = planned_cables(plan)
    wrong = {cable.name: cable for cable in cables if _is_wrong(cable, seen)}
    swapped = _exchanges([cable for cable in wrong.values() if cable.b is not None], seen)
    owners = _owners([cable for cable in wrong.values() if cable.b is not None and cable.name not in swapped], seen)
    verdicts = []
    for cable in cables:
        text, fix = "", ""
        if cable.name in swapped:
            text, fix = swapped[cable.name]
        elif cable.name in wrong:
            text, fix = _misplaced(cable, seen, owners) if cable.b is not None else _off_switch(cable, seen)
        elif cable.b is None:
            text, fix = _split_switch(cable, seen)
        ports = [seen.ports[plug] for plug in cable.plugs if plug in seen.ports]
        verdicts.append(CableVerdict(
            cable.number, cable.name, bool(ports), text, fix, silent=_silent(cable, seen),
            not_probed=tuple(f"{end_text(port.plug)}: {port.why_silent}" for port in ports if not any(rail.state == "probed" for rail in port.rails.values())),
            heard={end_text(port.plug): tuple(end_text(other) for other in sorted(port.hears)) for port in ports}))
    return verdicts


def contradictions(verdicts: list[CableVerdict]) -> list[str]:
    """Return what contradicts the plan, each with its instruction, once."""
    return list(dict.fromkeys(f"{verdict.wrong} {verdict.fix}" for verdict in verdicts if verdict.wrong))


def _is_wrong(cable: Planned, seen: SeenCabling) -> bool:
    """Tell whether an end of a cable hears somebody, but nobody of those that it shall hear, or far too many."""
    for plug in cable.plugs:
        wire = seen.wire(plug)
        port = seen.ports.get(plug)
        if port is not None and wire is None and port.strangers:
            return True
        if wire is None:
            continue
        others = set(wire.plugs) - {plug}
        # A port that is planned to be alone on its switch may hear any other port there.
        alone = cable.b is None and not cable.mates and wire.switch
        if (not others & cable.expected(plug) and not alone) or (cable.b is not None and len(wire.plugs) > 2):
            return True
    return False


def _exchanges(wrong: list[Planned], seen: SeenCabling) -> dict[str, tuple[str, str]]:
    """Find pairs of cables that an exchange of two plugs puts right; two plugs of one node are the likelier ones."""
    told: dict[str, tuple[str, str]] = {}
    for place, one in enumerate(wrong):
        for other in wrong[place + 1:]:
            if one.name in told or other.name in told or one.b is None or other.b is None:
                continue
            a, b, c, d = one.a, one.b, other.a, other.b
            if seen.partner(a) == d and seen.partner(c) == b:
                choices = [(b, d), (a, c)]
            elif seen.partner(a) == c and seen.partner(b) == d:
                choices = [(b, c), (a, d)]
            else:
                continue
            first, second = min(choices, key=lambda pair: pair[0].node != pair[1].node)
            first, second = sorted((first, second))
            text = f"{end_text(first)} and {end_text(second)} are swapped: {_goes(one, seen)}; {_goes(other, seen)}."
            where = f"at {first.node}" if first.node == second.node else f"at {end_text(first)} and {end_text(second)}"
            told[one.name] = told[other.name] = (text, f"Exchange the two plugs {where}.")
    return told


def _goes(cable: Planned, seen: SeenCabling) -> str:
    """Say where a cable goes and where it should."""
    found = seen.partner(cable.a)
    return f"{cable.title} goes from {end_text(cable.a)} to {end_text(found) if found else 'nobody'}, expected {end_text(cable.b) if cable.b else 'the switch'}"


def _owners(wrong: list[Planned], seen: SeenCabling) -> dict[Wire, Planned]:
    """Say which planned cable each cable that was found is taken for, so that each is moved once.

    It joins ends of two planned ones and may be either. As many planned cables as possible get one (augmenting paths of a matching).
    """
    owners: dict[Wire, Planned] = {}

    def give(cable: Planned, tried: set[Wire]) -> bool:
        for plug in cable.plugs:
            wire = seen.wire(plug)
            if wire is None or len(wire.plugs) != 2 or wire in tried:
                continue
            tried.add(wire)
            if wire not in owners or give(owners[wire], tried):
                owners[wire] = cable
                return True
        return False

    for cable in wrong:
        give(cable, set())
    return owners


def _misplaced(cable: Planned, seen: SeenCabling, owners: Mapping[Wire, Planned]) -> tuple[str, str]:
    """Describe a cable between two nodes whose end is in the wrong place."""
    taken = None
    for near, far in (cable.plugs, cable.plugs[::-1]):
        wire, port = seen.wire(near), seen.ports.get(near)
        if wire is not None and len(wire.plugs) > 2:
            others = ", ".join(end_text(plug) for plug in wire.plugs if plug != near)
            return (f"{cable.title}: {end_text(near)} is on a switch, together with {others}; expected a cable to {end_text(far)}.",
                    f"Join {end_text(near)} and {end_text(far)} by one cable, or plan for the switch (fabric_topology: switch).")
        found = seen.partner(near)
        if found is None:
            if port is not None and port.strangers:
                return (f"{cable.title}: {end_text(near)} is joined to {', '.join(port.strangers)}; expected {end_text(far)}.",
                        f"Take the far end of the cable at {end_text(near)} to {end_text(far)}.")
            continue
        if found == far or wire is None:
            continue
        if owners.get(wire, cable) != cable:
            taken = (near, owners[wire])
            continue
        if found.node == near.node:
            return (f"{cable.title}: {end_text(near)} is joined to {end_text(found)}, a port of the same node; expected {end_text(far)}.",
                    f"Move the plug at {end_text(found)} to {end_text(far)}.")
        occupied = seen.partner(far)
        first = f"Take out the cable at {end_text(far)}, which goes to {end_text(occupied)}, then move" if occupied is not None and occupied != near else "Move"
        if found.node == far.node:
            return (f"{cable.title} is in port {found.port} of {far.node}, expected port {far.port} (it comes from {end_text(near)}).",
                    f"{first} the plug at {far.node} from port {found.port} to port {far.port}.")
        return (f"{cable.title} goes from {end_text(near)} to {end_text(found)}, expected {end_text(far)}.",
                f"{first} the plug at {end_text(found)} to {end_text(far)}.")
    near, other = taken if taken is not None else (cable.a, cable)
    return (f"{cable.title} was not found: at {end_text(near)} is the plug of {other.title}.",
            f"Put {other.title} right first, then join {' and '.join(end_text(plug) for plug in cable.plugs)}.")


def _off_switch(cable: Planned, seen: SeenCabling) -> tuple[str, str]:
    """Describe a port that shall be on the switch and is elsewhere."""
    wire, port = seen.wire(cable.a), seen.ports[cable.a]
    if wire is None:
        return (f"{cable.title}: {end_text(cable.a)} is joined to {', '.join(port.strangers)}; expected the switch of this cluster.",
                f"Take the far end of the cable at {end_text(cable.a)} to the cluster's switch.")
    others = ", ".join(end_text(plug) for plug in wire.plugs if plug != cable.a)
    how = "on another switch or VLAN, together with" if wire.switch else "joined by a cable to"
    return (f"{cable.title}: {end_text(cable.a)} is {how} {others}; expected the switch with {', '.join(end_text(plug) for plug in sorted(cable.mates))}.",
            f"Take the cable at {end_text(cable.a)} to the switch, or correct fabric_ports or fabric_cables if this port is meant for something else.")


def _split_switch(cable: Planned, seen: SeenCabling) -> tuple[str, str]:
    """Describe a switch whose ports do not all hear each other although each hears somebody."""
    wire = seen.wire(cable.a)
    if wire is None:
        return "", ""
    elsewhere = {plug: seen.wire(plug) for plug in cable.mates - set(wire.plugs)}
    apart = sorted(plug for plug, other in elsewhere.items() if other is not None and (set(other.plugs) - {plug}) & cable.mates)
    if not apart:
        return "", ""
    return (f"{cable.title}: {end_text(cable.a)} does not hear {', '.join(end_text(plug) for plug in apart)}, though these hear others of the switch.",
            "Put all ports of the switch that the Sparks use into one bridge and one VLAN.")


def _silent(cable: Planned, seen: SeenCabling) -> dict[str, tuple[str, ...]]:
    """Return by rail the ends that hear nobody, although their link is up and somebody speaks at the other end."""
    found: dict[str, list[str]] = {}
    for plug in cable.plugs:
        port = seen.ports.get(plug)
        far = [seen.ports[other] for other in cable.expected(plug) if other in seen.ports]
        if port is None or not any(_reaches(other) for other in far):
            continue
        for letter, rail in port.rails.items():
            if rail.speaks and rail.carrier is True and not rail.heard and not rail.strangers:
                found.setdefault(letter, []).append(f"{plug.node} {rail.interface}")
    return {letter: tuple(ends) for letter, ends in found.items()}


def _reaches(port: SeenPort) -> bool:
    """Tell whether a port speaks on a rail whose link is up."""
    return any(rail.speaks and rail.carrier is True for rail in port.rails.values())
