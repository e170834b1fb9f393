# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.dgxspark.fabric.plugins.action.perftest_collect import ActionModule as JobFollower
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_facts import kept, progress_line


class ActionModule(JobFollower):
    """Follow the load on an endpoint until its job ends or its deadline passes; return its results as a fact."""

    subject = "the inference load"
    what = "inference"

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        fact = result.pop("ansible_facts")["fabric_perftest"]
        result["ansible_facts"] = {"fabric_inference": kept(fact)}
        return result

    def _line(self, progress: dict[str, Any]) -> str:
        return progress_line(progress)

    def _mark(self, progress: dict[str, Any]) -> str:
        return str(progress.get("what"))
