# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of scenarios alone as ``scenarios.md``: to hand on, with the run that each row comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.format_markdown import escaped, rows
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_table import COLUMNS, HEADS, cells, remarks


def files(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the file of this format, name to content; none where nobody asked for the table."""
    scenarios = report.get("scenarios")
    if not scenarios:
        return {}
    lines = [f"# Scenarios of {report['cluster']}", "", *rows(HEADS.values(), map(cells, scenarios))]
    lines += [line for text in remarks(scenarios) for line in ("", escaped(text))]
    lines += ["", *(f"* {escaped(source(row))}" for row in scenarios)]
    return {"scenarios.md": "\n".join(lines) + "\n"}


def source(row: Mapping[str, Any]) -> str:
    """Return which run a row comes from, and what it lacks."""
    run = f"run {row['run_id']}" if row.get("run_id") else "no stored run"
    missing = ", ".join(HEADS[column] for column in COLUMNS if row.get(column) in (None, ""))
    return f"{row['scenario']}: {run}" + (f"; not measured: {missing}" if missing else "")
