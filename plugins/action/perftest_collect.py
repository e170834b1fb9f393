# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import dataclasses
import os
import sys
import time
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.job_progress import (
    Look, look_command, lost_after, next_look, progress_line, read_look, without_result)
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.job_results import after, by_tool
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain

#: Looks in a row that find no process before a job counts as dead: the first may fall between its last two writes.
DEAD_LOOKS = 3

display = Display()


@dataclasses.dataclass(frozen=True, slots=True)
class Times:
    """Seconds: between two looks; beyond the job's deadline; beyond its expected end while the node cannot be reached."""

    poll: float
    margin: float
    lost: float


class ActionModule(ActionBase):
    """Follow a node's load test job until it ends or its deadline passes; return its results as a fact."""

    _supports_check_mode = True
    _supports_async = False
    #: What is followed, in sentences and before a line of progress.
    subject = "the load tests"
    what = "load tests"

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validated, arguments = self.validate_argument_spec(argument_spec={
            "started": {"type": "dict", "required": True},
            "earlier": {"type": "dict"},
            "poll_seconds": {"type": "float", "default": 5},
            "margin_seconds": {"type": "float", "default": 30},
            "lost_seconds": {"type": "float", "default": 30},
        })
        variables = task_vars or {}
        node = str(variables.get("inventory_hostname", ""))
        speaks = node == str((variables.get("ansible_play_hosts") or [node])[0])
        try:
            started = plain(arguments["started"])
        except FabricError as error:
            started = {"failed": True, "msg": str(error)}
        fact = self._without_job(node, started)
        if fact is None:
            times = Times(float(arguments["poll_seconds"]), float(arguments["margin_seconds"]), float(arguments["lost_seconds"]))
            fact = self._follow(node, started, times, speaks)
        perftest, iperf3 = by_tool(fact)
        facts = {"fabric_perftest": perftest, "fabric_iperf3": iperf3}
        if arguments["earlier"]:
            facts = {"fabric_perftest": after(plain(arguments["earlier"]), perftest)}
        result.update(changed=False, ansible_facts=facts)
        return result

    def _without_job(self, node: str, started: dict[str, Any]) -> dict[str, Any] | None:
        """Return the fact of a host on which no job runs, None when one does."""
        run, message = str(started.get("run", "")), str(started.get("msg") or "no answer")
        if started.get("unreachable"):
            return without_result(run, node, "lost", f"{node} could not be reached when {self.subject} should start: {message}")
        if started.get("skipped"):
            return without_result(run, node, "not_started", message)
        if started.get("failed") or started.get("status") != "running":
            return without_result(run, node, "not_started", f"{self.subject} did not start on {node}: {message}")
        return None

    def _follow(self, node: str, started: dict[str, Any], times: Times, speaks: bool) -> dict[str, Any]:
        run, folder, pid, identity = str(started["run"]), str(started["folder"]), int(started["pid"]), str(started["identity"])
        began = time.monotonic()
        until = began + float(started["deadline_seconds"]) + times.margin
        lost_at = until
        in_ci = os.environ.get("CI", "").lower() in ("true", "1")
        quiet = in_ci or not sys.stdout.isatty()
        shown, dead, failures, trouble = "", 0, 0, "its job never answered"
        look: Look | None = None
        while time.monotonic() < until:
            try:
                look = self._look(folder, pid, identity, dead > 0)
            except AnsibleConnectionFailure as error:
                trouble = f"the connection failed: {error.message}"
                if time.monotonic() > lost_at:
                    break
                self._reset()
                failures += 1
                # Longer each time: sshd shuts out a host that keeps trying (PerSourcePenalties).
                time.sleep(min(2.0 * failures, times.poll))
                continue
            failures = 0
            if look is None:
                trouble = "the node gave no readable answer"
                time.sleep(1.0)
                continue
            if look.over and look.result is not None:
                return look.result
            dead = 0 if look.alive else dead + 1
            if dead >= DEAD_LOOKS:
                message = f"the job on {node} (process {pid}) died before it was done; job.log beside {folder} may say why"
                return without_result(run, node, "lost", message, look.result)
            lost_at = min(until, time.monotonic() + lost_after(look.progress, times.lost))
            if look.progress is not None and speaks and not in_ci:
                shown = self._show(look.progress, shown, quiet)
            time.sleep(next_look(look.progress, times.poll, quiet) if look.alive else 0.5)
        message = f"no result came from {node} within {time.monotonic() - began:.0f} s: {trouble}"
        return without_result(run, node, "lost", message, look.result if look else None)

    def _look(self, folder: str, pid: int, identity: str, everything: bool) -> Look | None:
        answer = self._low_level_execute_command(look_command(folder, pid, everything))
        if answer.get("rc") == 255 and not answer.get("stdout"):
            raise AnsibleConnectionFailure(str(answer.get("stderr") or "the connection closed").strip())
        return read_look(str(answer.get("stdout", "")), identity)

    def _reset(self) -> None:
        """Forget a connection that is dead: a multiplexed one would be used again."""
        try:
            self._connection.reset()
        except (AttributeError, AnsibleConnectionFailure, OSError):
            return

    def _show(self, progress: dict[str, Any], shown: str, quiet: bool) -> str:
        """Show the progress: each look to a person, each round to a log."""
        line = self._line(progress)
        mark = self._mark(progress) if quiet else line
        if mark != shown:
            display.display(f"  {self.what}: {line}")
        return mark

    def _line(self, progress: dict[str, Any]) -> str:
        """Return progress in words."""
        return progress_line(progress)

    def _mark(self, progress: dict[str, Any]) -> str:
        """Return that part of progress whose changes a log shows."""
        return str(progress.get("round"))
