# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who may be changed when: which nodes stand in the way, and the order in which the others are changed. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError


def reasons(hosts: Mapping[str, Mapping[str, Any]], names: Iterable[str]) -> dict[str, str]:
    """Return ``{host: why it cannot be changed}`` from the facts that the plays keep (``fabric_lost``, ``fabric_refused``)."""
    found = {}
    for name in names:
        facts = hosts[name]
        if facts.get("fabric_lost") is not None:
            found[str(name)] = str(facts["fabric_lost"])
        elif facts.get("fabric_refused") is not None:
            found[str(name)] = str(facts["fabric_refused"])
        elif facts.get("fabric_node") is None:
            found[str(name)] = f"{name} dropped out before it was observed; see its error above"
    return found


def _line(name: str, why: str) -> str:
    """Return one host's reason; most reasons begin with the host already."""
    return why if why.startswith(name) else f"{name}: {why}"


def not_ready_text(hosts: Mapping[str, Mapping[str, Any]], names: Sequence[str], changing: bool = False, goal: str = "as planned") -> str:
    """Return one text that names every node that stands in the way, empty when none does.

    Args:
        hosts: The facts of each host.
        names: The hosts of the play.
        changing: Whether nodes are being changed already: then it is said which are changed and which are not.
        goal: What the nodes are to be, "as planned" or "as they were".
    """
    found = reasons(hosts, names)
    if not found:
        return ""
    count = f"{len(found)} of {len(names)} nodes"
    if not changing:
        lines = [f"Nothing was written on any node, because {count} cannot be changed:"]
        lines += [_line(name, why) for name, why in found.items()]
        lines.append("Mend that and run again, or leave nodes out by --limit.")
        return "\n".join(lines)
    changed = [str(name) for name in names if name not in found and hosts[name].get("fabric_applied")]
    untouched = [str(name) for name in names if name not in found and not hosts[name].get("fabric_applied")]
    lines = [f"Stopped after the first failure; {count} could not be made {goal}:"]
    lines += [_line(name, why) for name, why in found.items()]
    lines.append(f"{goal.capitalize()} now: {', '.join(changed) or 'none'}. Not changed by this run: {', '.join(untouched) or 'none'}. A further run goes on "
                 "from here.")
    return "\n".join(lines)


def batches(hosts: Mapping[str, Mapping[str, Any]], names: Sequence[str], size: int = 0, result: str = "__netplan_validated") -> list[list[str]]:
    """Return the hosts on which anything differs, in batches; the controller's own node comes last, alone.

    Args:
        hosts: The facts of each host: the result of the validation, and ``ansible_connection``.
        names: The hosts of the play, in order.
        size: Hosts in a batch; 0 for one first and then all others at once.
        result: The variable that holds the result of the validation.

    Raises:
        FabricError: The size is negative.
    """
    if size < 0:
        raise FabricError(f"fabric_apply_batch (netplan_batch, undo_batch) is {size}, expected 0 or more: the number of nodes that are changed at once")
    changing = [str(name) for name in names if (hosts[name].get(result) or {}).get("would_change") is True]
    own = [name for name in changing if hosts[name].get("ansible_connection") == "local"]
    others = [name for name in changing if name not in own]
    if size:
        parts = [others[start:start + size] for start in range(0, len(others), size)]
    else:
        parts = [others[:1], others[1:]]
    return [part for part in parts if part] + [[name] for name in own]
