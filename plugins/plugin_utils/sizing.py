# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sizing: the questions of a request, answered one by one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, shown
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.sizing_memory import size_memory
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.sizing_network import size_data_path, size_scaling, size_tp_tax
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.sizing_parallel import size_parallel

QUESTIONS = {"memory": size_memory, "tp_tax": size_tp_tax, "data_path": size_data_path, "scaling": size_scaling, "parallel": size_parallel}


def size(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of each question in ``request``; raise FabricError that names the question for bad input."""
    if not isinstance(request, Mapping) or not request:
        raise FabricError(f"the sizing request is empty: give at least one of {', '.join(QUESTIONS)}")
    answers = {}
    for name, asked in request.items():
        if name not in QUESTIONS:
            raise FabricError(f"unknown question {shown(name)}: expected one of {', '.join(QUESTIONS)}")
        if not isinstance(asked, Mapping) or not isinstance(asked.get("kv_cache", {}), Mapping):
            raise FabricError(f"{name}: expected a mapping of numbers")
        try:
            answers[name] = QUESTIONS[name](asked)
        except FabricError as exc:
            raise FabricError(f"{name}: {exc}") from exc
    return answers
