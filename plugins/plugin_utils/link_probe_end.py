# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ending a link probe from the controller: the command that ends it and waits for its result. Pure functions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils.link_prober import FINISH, SETTLE, TRAINING
from ansible_collections.dgxspark.fabric.plugins.module_utils.job_state import RESULT

#: Seconds beyond settling and training in which a probe must have written its result (it asks lldpd last, for 10 s at most).
MARGIN = 15
MARK = "@@fabric@@"


def settle_seconds(all_started: float | None, now: float) -> float:
    """Return how much longer a probe has to go on, so that all nodes have sent and listened together for SETTLE seconds.

    >>> settle_seconds(100.0, 100.5)
    1.5
    """
    return SETTLE if all_started is None else min(SETTLE, max(0.0, all_started + SETTLE - now))


def finish_command(folder: str, settle: float, raised: bool) -> str:
    """Return the shell command that ends the probe of ``folder`` and prints its result."""
    new, finish, result = (shlex.quote(f"{folder}/{name}") for name in (f".{FINISH}.new", FINISH, RESULT))
    word = shlex.quote(json.dumps({"settle": round(settle, 2), "raised": raised}))
    looks = int(5 * (settle + (TRAINING if raised else 0) + MARGIN))
    return (f"printf '%s' {word} > {new} && mv -f {new} {finish}; i=0; while [ ! -f {result} ] && [ $i -lt {looks} ]; do sleep 0.2; i=$((i+1)); done; "
            f"printf '{MARK}\\n'; cat {result}; printf '\\n{MARK}\\n'")


def read_result(answer: str) -> dict[str, Any] | None:
    """Return the result in the answer of the command, ``None`` when there is none."""
    parts = answer.replace("\r\n", "\n").split(f"{MARK}\n")
    try:
        document = json.loads(parts[1])
    except (IndexError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and isinstance(document.get("interfaces"), Mapping) else None
