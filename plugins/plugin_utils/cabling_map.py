# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The cabling as it was found, in words: the map of cables, and how it compares with the plan. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cabling_compare import CableVerdict, contradictions, end_text
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cabling_seen import SeenCabling, SeenPort, Wire
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.interfaces import RAILS
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Plug
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.topology import shape_of

SHAPE_WORDS = {"pair": "a pair", "mesh": "a mesh", "ring": "a ring", "switch": "a switch"}


def found_shape(seen: SeenCabling) -> str:
    """Return the shape of what was found: pair, mesh, ring, switch, mix (switch and cables), graph (anything else) or none."""
    cables = seen.cables()
    names = [node for node in seen.nodes if any(node == plug.node for cable in cables for plug in cable.plugs)]
    if len(names) < 2:
        return "none"
    shape = shape_of(cables, names)
    return "mix" if shape == "graph" and any(cable.b is None for cable in cables) else shape


def map_lines(seen: SeenCabling, verdicts: Iterable[CableVerdict] | None = None, silent_nodes: Mapping[str, str] | None = None) -> list[str]:
    """Return the map, line by line.

    Args:
        seen: What was found.
        verdicts: How it compares with the plan; ``None`` without a plan.
        silent_nodes: Nodes that were not probed, and why.
    """
    lines = [_heading(seen)]
    for wire in seen.wires:
        lines.append(f"  {_wire_text(wire, seen)}")
    for plug, port in seen.ports.items():
        if seen.wire(plug) is None:
            lines.append(f"  {end_text(plug)}: {_alone(port)}")
    for node, reason in (silent_nodes or {}).items():
        lines.append(f"  {node} was not probed: {reason}")
    lines += [f"  note: {note}" for port in seen.ports.values() for note in witness_notes(port)]
    if verdicts is not None:
        lines += comparison_lines(list(verdicts))
    return lines


def comparison_lines(verdicts: list[CableVerdict]) -> list[str]:
    """Say how the cables compare with the plan."""
    lines = contradictions(verdicts)
    for verdict in verdicts:
        if not verdict.wrong:
            lines += [silent_text(verdict, rail, ends) for rail, ends in sorted(verdict.silent.items())]
            lines += [f"Cable {verdict.number} ({verdict.name}): {text}." for text in verdict.not_probed]
    missing = [verdict for verdict in verdicts if not verdict.wrong and not verdict.silent and not any(verdict.heard.values())]
    lines += [f"Cable {verdict.number} ({verdict.name}) was not found: no end of it hears anybody." for verdict in missing if not verdict.not_probed]
    return lines or ["Every cable is where the plan has it."]


def silent_text(verdict: CableVerdict, rail: str, ends: Iterable[str]) -> str:
    """Say that a rail hears nobody."""
    return f"Rail {rail} of cable {verdict.number} ({verdict.name}) hears nobody at {', '.join(ends)}: cable or port, not configuration."


def witness_notes(port: SeenPort) -> list[str]:
    """Say where lldpd saw something else than the probe."""
    notes = []
    extra = port.lldp_plugs - port.hears
    if extra:
        names = ", ".join(end_text(plug) for plug in sorted(extra))
        notes.append(f"lldpd at {end_text(port.plug)} names {names}, the probe does not hear it (lldpd remembers for up to two minutes)")
    if port.lldp_others:
        what = "the switch" if port.lldp_switch else "another machine"
        notes.append(f"lldpd at {end_text(port.plug)} sees {what} {', '.join(port.lldp_others)}")
    return notes


def _heading(seen: SeenCabling) -> str:
    shape = found_shape(seen)
    cables = len(seen.cables())
    words = SHAPE_WORDS.get(shape) or {"mix": "a mix of switch and cables", "none": "nothing"}.get(shape, "a cabling of its own kind")
    return f"Cabling found: {words}; {len(seen.nodes)} nodes, {cables} cable{'' if cables == 1 else 's'}."


def _wire_text(wire: Wire, seen: SeenCabling) -> str:
    names = [f"{end_text(plug)}{_rails(plug, seen)}" for plug in wire.plugs]
    return f"switch: {', '.join(names)}" if wire.switch else " -- ".join(names)


def _rails(plug: Plug, seen: SeenCabling) -> str:
    """Name the rails of a port that hear nobody, when the other does."""
    rails = seen.ports[plug].rails
    deaf = [f"rail {letter} {'is ' + rail.state if rail.state != 'probed' else 'has no link' if rail.carrier is False else 'hears nobody'}"
            for letter, rail in rails.items() if not rail.heard]
    deaf += [f"rail {letter} is missing" for letter in RAILS if letter not in rails]
    return f" ({', '.join(deaf)})" if deaf else ""


def _alone(port: SeenPort) -> str:
    return f"joined to {', '.join(port.strangers)}, which is not of this cluster" if port.strangers else port.why_silent
