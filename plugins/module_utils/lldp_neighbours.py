# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read what lldpd knows of the neighbours: a second witness of the cabling, where it runs.

``lldpcli -f json`` prints one object where there is one neighbour and a list where there are several, with names as keys;
``json0`` always prints lists. Both are read. One interface may have several neighbours: twins share a wire.
"""

from __future__ import annotations

import json
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils.command import Runner

COMMAND = ["lldpcli", "-f", "json", "show", "neighbors"]


class LldpError(ValueError):
    """The text is not the JSON that ``lldpcli`` prints."""


def _list(value: t.Any) -> list[t.Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _text(value: t.Any) -> str | None:
    """Return a text; json0 wraps each in [{"value": text}]."""
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, dict):
        value = value.get("value")
    return value if isinstance(value, str) and value else None


def _capabilities(chassis: t.Mapping[str, t.Any]) -> list[str]:
    return [str(entry["type"]) for entry in _list(chassis.get("capability")) if isinstance(entry, dict) and entry.get("enabled") is True and entry.get("type")]


def _neighbour(interface: str, entry: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    name, chassis = None, entry.get("chassis")
    chassis = _list(chassis)[0] if _list(chassis) else {}
    if isinstance(chassis, dict) and "id" not in chassis and "name" not in chassis and len(chassis) == 1:
        name, chassis = next(iter(chassis.items()))
    chassis = chassis if isinstance(chassis, dict) else {}
    port = _list(entry.get("port"))[0] if _list(entry.get("port")) else {}
    port = port if isinstance(port, dict) else {}
    port_id = _list(port.get("id"))[0] if _list(port.get("id")) else {}
    port_id = port_id if isinstance(port_id, dict) else {}
    return {
        "interface": interface,
        "system": name or _text(chassis.get("name")),
        "port": _text(port.get("descr")) or _text(port_id),
        "mac": _text(port_id) if port_id.get("type") == "mac" else None,
        "bridge": "Bridge" in _capabilities(chassis),
    }


def parse_neighbours(text: str) -> list[dict[str, t.Any]]:
    """Return ``[{"interface", "system", "port", "mac", "bridge"}]``: the own interface, and who is at its other end.

    ``mac`` is ``None`` unless the port names itself by its MAC address; ``bridge`` tells a switch.

    Raises:
        LldpError: it is no JSON of lldpcli.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise LldpError(f"lldpcli: expected JSON, got {text.strip()[:80]!r}") from exc
    if not isinstance(document, dict):
        raise LldpError(f"lldpcli: expected a JSON object, got {type(document).__name__}")
    found = []
    for section in _list(document.get("lldp")):
        for entry in _list(section.get("interface") if isinstance(section, dict) else None):
            if not isinstance(entry, dict):
                continue
            named = {str(entry["name"]): entry} if isinstance(entry.get("name"), str) else entry
            found.extend(_neighbour(name, one) for name, ones in named.items() for one in _list(ones) if isinstance(one, dict))
    return found


def ask(run: Runner) -> tuple[list[dict[str, t.Any]] | None, str]:
    """Return the neighbours and "", or ``None`` and why there is no answer."""
    done = run(COMMAND, timeout=10)
    if not done.found:
        return None, "lldpd is not installed (package lldpd); it is not needed"
    if done.rc != 0:
        return None, f"lldpd does not answer: {done.err.strip()[:120] or f'exit status {done.rc}'}"
    try:
        return parse_neighbours(done.out), ""
    except LldpError as exc:
        return None, str(exc)
