# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure an endpoint: see that it answers, get the load generator, run it at each concurrency, keep the results on disk.

The look comes first: where it finds a problem, nothing is installed and no load is made.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import time
import typing as t
from collections.abc import Callable, Sequence

from ansible_collections.dgxspark.fabric.plugins.module_utils import aiperf_run, command as programs, inference_endpoint, job_state, load_generator
from ansible_collections.dgxspark.fabric.plugins.module_utils.aiperf_output import Limits
from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_job_spec import InferenceJob
from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_record import Failure, LoadResult, ResultError, Terms, record
from ansible_collections.dgxspark.fabric.plugins.module_utils.tool_process import ToolProcess

#: Seconds between two looks at what a run has done.
LOOK_SECONDS = 1.0
#: Seconds that aiperf gets to end its processes.
GRACE = 10.0
TAIL_LINES = 20
#: aiperf frames what it says at its end.
FRAME = "\u2502\u2022\u2500\u256d\u256e\u2570\u256f \t"
TOKENIZER_WORD = "tokenizer"
TOKENIZER_FIX = "Set inference_bench_tokenizer to a folder with the model's tokenizer on the machine that drives the endpoint, or to its name on the model hub."


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """The machine as the job sees it; tests put another one in its place."""

    directory: pathlib.Path
    find_program: Callable[[str], str | None] = programs.find_program
    run: programs.Runner = programs.run
    look: Callable[..., dict[str, t.Any]] = inference_endpoint.look
    look_seconds: float = LOOK_SECONDS


class InferenceBench:
    """The job. ``open``, then ``run``; ``abort`` from a signal handler."""

    def __init__(self, job: InferenceJob, machine: Machine) -> None:
        self.job, self.machine = job, machine
        self.folder = job_state.StateFolder(machine.directory, job.run)
        self.fact: dict[str, t.Any] = {
            "run": job.run, "node": job.node, "status": "running", "reason": "", "message": "", "fix": "", "url": job.endpoint.url, "tool": "",
            "endpoint": {}, "runs": []}
        self._tool: ToolProcess | None = None
        self._began = time.monotonic()
        #: What is done now, at which concurrency, and how many requests that asks for.
        self._what, self._level, self._wanted = "the look at the endpoint", 0, 0

    def open(self) -> None:
        """Make the state folder, the remains of earlier runs gone; raises OSError."""
        self.folder.create()
        self.folder.note_processes(os.getpid(), [])
        self._write(0, 0.0)

    def abort(self) -> None:
        """End the program that still runs."""
        if self._tool is not None:
            self._tool.end(GRACE)

    def run(self) -> dict[str, t.Any]:
        """Measure and return the fact, which is also on disk by then."""
        try:
            self._work()
            if self.fact["status"] == "running":
                self.fact["status"] = "done"
        finally:
            self.abort()
            if self.fact["status"] == "running":
                self.fact.update(status="failed", reason="ended", message=f"the measurement was ended on {self.job.node} before it was done")
            self._write(self._wanted, 0.0)
        return self.fact

    def _work(self) -> None:
        seen = self.fact["endpoint"] = self.machine.look(self.job.endpoint, self.job.model)
        if seen["problem"]:
            self._end("refused", seen["problem"]["id"], seen["problem"]["message"])
            return
        wanted = self.job.input_tokens + self.job.output_tokens
        if seen["max_context_tokens"] and wanted > seen["max_context_tokens"]:
            self._end("refused", "context", f"{self.job.input_tokens} + {self.job.output_tokens} tokens do not fit into the {seen['max_context_tokens']} "
                      f"of {seen['model']}", "Lower inference_bench_input_tokens or inference_bench_output_tokens, or serve with more context.")
            return
        try:
            program = self._generator()
        except load_generator.GeneratorError as error:
            self._end("failed", "generator", error.message, error.fix)
            return
        for level, concurrency in enumerate(self.job.concurrency):
            self._what, self._level, self._wanted = f"{concurrency} at once", level, self.job.requests + self.job.warmup_requests
            if not self._measure(program, concurrency):
                return

    def _end(self, status: str, reason: str, message: str, fix: str = "") -> None:
        self.fact.update(status=status, reason=reason, message=message, fix=fix)

    def _generator(self) -> str:
        """Return the load generator's path; raises GeneratorError."""
        job = self.job
        if job.program:
            return load_generator.find(job.program, job.version, self.machine.run)
        self._what = f"the environment of aiperf {job.version}"
        self._write(0, job.install_seconds)
        until = time.monotonic() + job.install_seconds
        return load_generator.make(
            os.path.expanduser(job.environment), job.version, os.path.expanduser(job.python), job.pip_options, self._step(until), job.install_seconds,
            self.machine.find_program)

    def _step(self, until: float) -> load_generator.Step:
        """Return what runs one command of making the environment, all together until a moment."""

        def step(name: str, command: Sequence[str], seconds: float) -> programs.Completed:
            try:
                tool = self._start(command, name, {})
            except OSError as error:
                return programs.Completed(tuple(command), programs.NOT_FOUND, "", str(error))
            code = tool.wait(min(seconds, until - time.monotonic()))
            self._stop()
            out, err = tool.output()
            return programs.Completed(tuple(command), programs.TIMED_OUT if code is None else code, out, err)

        return step

    def _measure(self, program: str, concurrency: int) -> bool:
        """Run the load generator at one concurrency and keep its record; tell whether to go on."""
        job, model = self.job, self.fact["endpoint"]["model"]
        name = f"aiperf-{concurrency}"
        artifacts = self.folder.path / name
        artifacts.mkdir(mode=0o700)
        self.folder.write(f"{name}.json", aiperf_run.config(job, model, concurrency, str(artifacts), self.fact["endpoint"]["counts_tokens"]))
        command = aiperf_run.command(program, str(self.folder.path / f"{name}.json"))
        try:
            tool = self._start(command, name, aiperf_run.environment(job))
        except OSError as error:
            self._end("failed", "generator", f"{program} cannot be started: {error}")
            return False
        until = time.monotonic() + job.one_run_seconds
        began, done = time.monotonic(), 0
        while (code := tool.wait(self.machine.look_seconds)) is None and time.monotonic() < until:
            ended = aiperf_run.ended(artifacts)
            if ended != done or not done:
                done = ended
                self._write(done, (time.monotonic() - began) / done * max(0, self._wanted - done) if done else job.run_seconds)
        self._stop()
        out, err = tool.output()
        try:
            result = aiperf_run.read(artifacts, Limits(job.endpoint.request_seconds, job.endpoint.stall_seconds))
        except ResultError as error:
            told = told_by(err + out)
            why = f"did not end within {job.one_run_seconds:.0f} s" if code is None else f"ended with status {tool.exit_code}"
            lacking = code is not None and TOKENIZER_WORD in told.lower()
            self._end("failed", "tokenizer" if lacking else "generator", f"aiperf {why}, {error}: {told}", TOKENIZER_FIX if lacking else "")
            self.fact["tail"] = tail(err + out)
            return False
        self.fact["tool"] = f"aiperf {job.version}"
        self.fact["runs"].append(self._record(dataclasses.replace(self._complete(result, code), tool=self.fact["tool"]), concurrency))
        self._write(self._wanted, 0.0)
        # Where no request ends well, more at once will not either.
        return result.ok > 0

    def _complete(self, result: LoadResult, code: int | None) -> LoadResult:
        """Return a result that says when fewer requests ended than were asked for."""
        ended = result.ok + result.failed
        if code is None:
            result = dataclasses.replace(result, incomplete=f"aiperf was ended after {self.job.one_run_seconds:.0f} s")
        elif ended < self.job.requests:
            result = dataclasses.replace(result, incomplete=f"{ended} of {self.job.requests} requests ended within {self.job.run_seconds:g} s")
        if not result.failed and not result.ok:
            result = dataclasses.replace(result, failed=1, failures=(Failure("stalled", 1, f"no request ended within {self.job.run_seconds:g} s"),))
        return result

    def _record(self, result: LoadResult, concurrency: int) -> dict[str, t.Any]:
        """Return the record of a run under the conditions that were asked for."""
        job, seen = self.job, self.fact["endpoint"]
        versions = [job.stack, *([seen["server"]] if seen["server"] and seen["server"].lower() not in job.stack.lower() else [])]
        return record(result, Terms(
            model=seen["model"], quantisation=job.quantisation or seen["quantisation"], context_tokens=job.context_tokens or seen["max_context_tokens"] or 0,
            input_tokens=job.input_tokens, output_tokens=job.output_tokens, concurrency=concurrency, stack=", ".join(one for one in versions if one),
            nodes=job.nodes, link_gbps=job.link_gbps, parallel=job.parallel))

    def _start(self, command: Sequence[str], name: str, added: dict[str, str]) -> ToolProcess:
        """Start a program of ours; raises OSError."""
        self._tool = ToolProcess(command, self.folder.scratch, name, added)
        self.folder.note_processes(os.getpid(), [self._tool.pid])
        return self._tool

    def _stop(self) -> None:
        """End what was started, and all of its group."""
        if self._tool is not None:
            self._tool.end(GRACE)
            self._tool = None
        self.folder.note_processes(os.getpid(), [])

    def _write(self, ended: int, seconds_left: float) -> None:
        """Keep where the job stands; the result goes first, so that "done" means that it is there."""
        self.folder.write(job_state.RESULT, self.fact)
        running = self.fact["status"] == "running"
        self.folder.write(job_state.PROGRESS, {
            "run": self.job.run, "node": self.job.node, "status": self.fact["status"], "round": self._level + 1, "rounds": len(self.job.concurrency),
            "what": self._what, "ended": ended, "wanted": self._wanted, "running": int(running),
            "seconds_left": seconds_left if running else 0.0, "pid": os.getpid()})


def tail(text: str) -> str:
    """Return the last lines of what a program printed."""
    return "\n".join([line for line in text.splitlines() if line.strip()][-TAIL_LINES:])[-4000:]


def told_by(text: str) -> str:
    """Return what aiperf says went wrong: the first reason in its framed list of errors, else the last line that names an error, else the last."""
    lines = [line.strip(FRAME) for line in text.splitlines() if line.strip(FRAME)]
    reason = re.search(r"Reason: (.*?)(?= Service: | Operation: | Cause: | Log File|$)", " ".join(lines))
    if reason:
        return reason.group(1)[:400]
    telling = [line for line in lines if "rror" in line or "ailed" in line or "ERROR" in line]
    return ((telling or lines or ["it says nothing"])[-1])[:400]
