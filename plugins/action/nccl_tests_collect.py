# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible_collections.dgxspark.fabric.plugins.action.perftest_collect import ActionModule as JobFollower


class ActionModule(JobFollower):
    """Follow the job of nccl-tests until it ends or its deadline passes; return its results as a fact."""

    subject = what = "nccl-tests"

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        fact = result.pop("ansible_facts")["fabric_perftest"]
        if "runs" not in fact:  # no result of the job came; the follower says why
            fact = {
                "run": fact["run"], "node": fact["node"], "status": fact["status"], "reason": fact["status"], "message": fact["message"], "fix": "",
                "runs": [], "not_run": [], "nodes": {}, "problems": [], "stand_in": False}
        result["ansible_facts"] = {"fabric_nccl": fact}
        return result
