# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plain data out of whatever the template engine hands over: tagged strings and lazy containers become str, dict and list."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, shown


def plain(value: Any) -> Any:
    """Return a deep copy made of str, int, float, bool, None, list and dict alone (mapping keys become str).

    :raises FabricError: for a value that has no such form
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))  # JSON has no NaN
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    raise FabricError(f"a value of type {type(value).__name__} cannot be stored in a report: {shown(value)}")
