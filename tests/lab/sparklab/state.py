# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What runs now, in ``.lab/run/state.json``: written anew by each command that changes the lab."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from . import processes
from .errors import LabError
from .paths import run_dir
from .wiring import Cable, Wiring, parse_cable


@dataclasses.dataclass
class State:
    """A lab that is up (or whose start was broken off: ``ready`` is false then)."""

    wiring: Wiring
    holder: int
    holder_started: str
    accelerator: str
    image: str
    snapshots: str
    ready: bool = False
    #: Whether resets come back to the moment of ``lab mark`` instead of the first one.
    marked: bool = False
    faults: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    host_keys: dict[str, str] = dataclasses.field(default_factory=dict)

    def holder_alive(self) -> bool:
        """Tell whether the namespaces are still there."""
        return processes.alive(self.holder, self.holder_started)


def to_data(state: State) -> dict[str, Any]:
    """Return the state as plain data."""
    data = dataclasses.asdict(state)
    data["wiring"] = {
        "topology": state.wiring.topology,
        "nodes": state.wiring.nodes,
        "cables": [cable.name for cable in state.wiring.cables],
        "order": list(state.wiring.order),
    }
    return data


def from_data(data: dict[str, Any]) -> State:
    """Return the state from plain data."""
    wiring = data["wiring"]
    cables: tuple[Cable, ...] = tuple(parse_cable(name) for name in wiring["cables"])
    return State(**{**data, "wiring": Wiring(wiring["topology"], wiring["nodes"], cables, tuple(wiring["order"]))})


def save(state: State) -> None:
    """Write the state, wholly or not at all."""
    path = run_dir() / "state.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps(to_data(state), indent=1) + "\n", encoding="utf-8")
    os.replace(part, path)


def load() -> State | None:
    """Return the recorded state, or None when there is none that can be read."""
    try:
        return from_data(json.loads((run_dir() / "state.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, LabError):
        return None


def forget() -> None:
    """Remove the record."""
    (run_dir() / "state.json").unlink(missing_ok=True)


def running() -> State:
    """Return the state of a lab that is up.

    Raises:
        LabError: it is not.
    """
    state = load()
    if state is None or not state.ready or not state.holder_alive():
        raise LabError("the lab is not up; start it with: lab up --topology mesh --nodes 3")
    return state
