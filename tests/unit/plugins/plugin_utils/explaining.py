# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Call ``explain`` on texts and fixtures, and look findings up."""

from __future__ import annotations

import pathlib
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain import TextFile, explain
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_context import Context
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_files import inputs

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures"


def of_text(*texts: str, **context: Any) -> dict[str, Any]:
    """Explain texts, each as a file of its own (file0, file1, ...)."""
    return explain([TextFile(f"file{place}", text.splitlines(keepends=True)) for place, text in enumerate(texts)], Context(**context))


def of_file(*names: str, **context: Any) -> dict[str, Any]:
    """Explain fixtures by their path below ``fixtures``."""
    return explain(inputs([str(FIXTURES / name) for name in names]), Context(**context))


def ids(document: dict[str, Any], *statuses: str) -> set[str]:
    """Return the ids of the findings with one of some statuses (default: all)."""
    return {finding["id"] for finding in document["findings"] if not statuses or finding["status"] in statuses}


def finding(document: dict[str, Any], cause: str) -> dict[str, Any]:
    """Return the first finding with an id."""
    return next(entry for entry in document["findings"] if entry["id"] == cause)


def words(document: dict[str, Any]) -> str:
    """Return all that is told, as one text."""
    return "\n".join(" ".join([entry["message"], entry["cause"], entry["fix"]]) for entry in document["findings"])
