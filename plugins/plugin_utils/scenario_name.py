# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The name of a scenario, and what it is about: a run is given it, and its report keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, shown

FIELDS = ("name", "network", "nodes", "notes")


def scenario_of(given: Mapping[str, Any]) -> dict[str, str]:
    """Return ``report_scenario`` as it is stored with the run; empty when the run has no name.

    :raises FabricError: for an unknown field, or fields without a name
    """
    unknown = sorted(set(given) - set(FIELDS))
    if unknown:
        raise FabricError(f"report_scenario: unknown field {shown(unknown[0])}; expected {', '.join(FIELDS)}.")
    found = {key: str(given[key]).strip() for key in FIELDS if given.get(key) not in (None, "")}
    if found and not found.get("name"):
        raise FabricError("report_scenario: has no name; expected a short one for the table, such as A.")
    return found


def name_of(report: Mapping[str, Any]) -> str:
    """Return the name of a run's scenario, empty when it has none."""
    scenario = report.get("scenario")
    return str(scenario.get("name") or "") if isinstance(scenario, Mapping) else ""
