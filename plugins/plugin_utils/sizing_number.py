# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Numbers of a sizing request, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, shown


def positive(request: Mapping[str, Any], key: str, default: float | None = None) -> float:
    """Return the positive finite number at ``key``; raise FabricError naming the key otherwise."""
    value = request.get(key, default)
    if value is None:
        raise FabricError(f"{key} is missing: give a number above 0")
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number <= 0:
        raise FabricError(f"{key} is {shown(value)}: expected a number above 0")
    return number


def positive_whole(request: Mapping[str, Any], key: str, default: int | None = None) -> int:
    """Return the whole number above 0 at ``key``; raise FabricError naming the key otherwise."""
    number = positive(request, key, default)
    if number != int(number):
        raise FabricError(f"{key} is {shown(request.get(key))}: expected a whole number")
    return int(number)
