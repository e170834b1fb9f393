# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Launch nccl-tests from one node over all: refuse what is known to fail, look at every node from inside a launch, run the tests, keep the proof.

mpirun starts ``nccl_rank`` on every node, which starts the program; what it leaves is fetched by ssh, the way mpirun itself takes, so that the ranks'
outputs cannot run into each other. Every launch ends by its deadline, at both ends.
"""

from __future__ import annotations

import base64
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import pwd
import time
import typing as t
import zlib
from collections.abc import Callable, Sequence

from ansible_collections.dgxspark.fabric.plugins.module_utils import command as programs, job_state, launch_refusals, mpirun_output
from ansible_collections.dgxspark.fabric.plugins.module_utils import nccl_container_stage, nccl_launch, nccl_library
from ansible_collections.dgxspark.fabric.plugins.module_utils import nccl_proof, nccl_rank, nccl_stage, nccl_tests_json, nccl_tests_output
from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_job_spec import NcclJob, NcclTest
from ansible_collections.dgxspark.fabric.plugins.module_utils.tool_process import ToolProcess

PROBE = "probe"
#: Seconds in which a node hands over what a rank left.
COLLECT_SECONDS = 30.0
#: Seconds that mpirun gets to end its ranks before it is killed.
GRACE = 5.0
TAIL_LINES = 40
#: After so many launches of the same nodes that gave no result, the others are not tried.
FAILURES = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """The launching node as the job sees it; tests put another one in its place."""

    directory: pathlib.Path
    rank_source: str
    find_program: Callable[[str], str | None] = programs.find_program
    run: programs.Runner = programs.run
    #: Text of ``nccl_container``, which a rank starts when the job names an image.
    container_source: str = ""


@dataclasses.dataclass(slots=True)
class Launch:
    """One finished launch."""

    command: list[str]
    out: str
    err: str
    exit_code: int | None
    seconds: float
    timed_out: bool
    collected: dict[str, dict[str, t.Any]]

    @property
    def failures(self) -> list[dict[str, t.Any]]:
        """What failed, causes first, as plain data."""
        failures = mpirun_output.classify((self.err + "\n" + self.out).split("\n"))
        return [dataclasses.asdict(failure) for failure in failures]


class NcclTests:
    """The job. ``open``, then ``run``; ``abort`` from a signal handler."""

    def __init__(self, job: NcclJob, machine: Machine) -> None:
        self.job, self.machine = job, machine
        self.folder = job_state.StateFolder(machine.directory, job.run)
        self.fact: dict[str, t.Any] = {
            "run": job.run, "node": job.node, "status": "running", "reason": "", "message": "", "fix": "", "shape": job.shape, "order": list(job.order),
            "image": job.container.image if job.container is not None else "", "cause": "",
            "stand_in": False, "mpi": {}, "nodes": {}, "problems": [], "runs": [], "not_run": [dict(entry) for entry in job.not_run], "left": [],
            "largest_bytes": None, "failures": []}
        self._tool: ToolProcess | None = None
        self._user = pwd.getpwnam(job.user) if job.user and job.user != pwd.getpwuid(os.geteuid()).pw_name else None
        self._mpirun = ""
        self._version: tuple[int, ...] = ()
        self._done = 0
        self._failed: dict[tuple[str, ...], int] = {}

    def open(self) -> None:
        """Make the state folder, the remains of earlier runs gone; raises OSError."""
        self.folder.create()
        os.chmod(self.folder.path.parent, 0o711)
        os.chmod(self.folder.path, 0o711)
        self.folder.note_processes(os.getpid(), [])
        self._write_progress()

    def abort(self) -> None:
        """End the launch that still runs."""
        if self._tool is not None:
            self._tool.end(GRACE)

    def run(self) -> dict[str, t.Any]:
        """Do the tests and return the fact, which is also on disk by then."""
        try:
            self._work()
            if self.fact["status"] == "running":
                self.fact["status"] = "done"
        finally:
            self.abort()
            if self.fact["status"] == "running":
                self.fact.update(status="failed", reason="ended", message=f"the tests were ended on {self.job.node} before they were done")
            self._write_progress()
        return self.fact

    def _work(self) -> None:
        refusals = [
            *launch_refusals.order_refusals(self.job.order, self.job.links, self.job.shape, self.job.planned_order),
            *launch_refusals.meeting_refusals(
                self.job.shape, self.job.addresses, self.job.fabric_networks, {node: self.job.environment(node) for node in self.job.order}),
        ]
        if refusals:
            self._refuse(refusals)
            return
        if not self._find_mpi():
            return
        if not self._look():
            return
        runs = [(test, repeat) for test in self.job.tests for repeat in range(test.repeats)]
        for test, repeat in runs:
            if self._failed.get(test.nodes, 0) >= FAILURES:
                self.fact["not_run"].append({
                    "id": test.id, "collective": test.collective, "nodes": list(test.nodes),
                    "reason": f"{FAILURES} launches over the same nodes gave no result"})
            else:
                self.fact["runs"].append(self._test(test, repeat))
            self._done += 1
            self._write_progress()

    def _refuse(self, refusals: Sequence[launch_refusals.Refusal]) -> None:
        self.fact["problems"] = [dataclasses.asdict(refusal) for refusal in refusals]
        first = refusals[0]
        self.fact.update(status="refused", reason=first.id, message="; ".join(refusal.message for refusal in refusals[:4]), fix=first.fix)

    def _fail(self, reason: str, message: str, fix: str = "") -> None:
        self.fact.update(status="failed", reason=reason, message=message, fix=fix)

    def _find_mpi(self) -> bool:
        path = self.machine.find_program("mpirun")
        if path is None:
            self._fail("mpirun_missing", f"mpirun is not installed on {self.job.node}, which launches the tests", "Install openmpi-bin on every node.")
            return False
        answer = self.machine.run([path, "--version"])
        version = nccl_launch.parse_version(answer.out + answer.err)
        self.fact["mpi"] = {"path": path, "version": ".".join(str(part) for part in version) if version else None}
        try:
            nccl_launch.mpirun_command(path, version or (), "", 0, self.job.networks, 0, False, [])
        except nccl_launch.LaunchError as error:
            self._fail("mpi", f"{self.job.node}: {error}")
            return False
        self._mpirun, self._version = path, version or ()
        return True

    def _look(self) -> bool:
        """Look at every node from inside a launch; tell whether the tests can go on."""
        program = self._program(self.job.tests[0].collective if self.job.tests else "all_reduce")
        launch = self._launch(PROBE, self.job.order, "probe", self.job.look_seconds, program=program, arguments=[])
        seen = {node: collected["report"] for node, collected in launch.collected.items() if collected.get("report")}
        if self.job.container is not None:
            seen = {node: nccl_container_stage.inside(report) for node, report in seen.items()}
        self.fact["nodes"] = seen
        if launch.exit_code != 0 or launch.timed_out or len(seen) < len(self.job.order):
            self.fact["failures"] = launch.failures
            silent = [node for node in self.job.order if node not in seen]
            what = "did not end in time" if launch.timed_out else f"ended with status {launch.exit_code}"
            told = next((failure["line"] for failure in launch.failures), "") or _tail(launch.err or launch.out, 1)
            self._fail("launch", f"the first launch from {self.job.node} {what}" + (f"; nothing came from {', '.join(silent)}" if silent else "") +
                       (f": {told}" if told else ""))
            self.fact["tail"] = _tail(launch.err + launch.out, TAIL_LINES)
            self.fact["command"] = launch.command
            return False
        self.fact["stand_in"] = any(report.get("stand_in") for report in seen.values())
        verdict = nccl_stage.judge(self.job, seen)
        self.fact["problems"] = verdict.problems
        if verdict.status != "running":
            self.fact.update(status=verdict.status, reason=verdict.reason, message=verdict.message, cause=verdict.cause, fix=verdict.fix)
            return False
        memory = min((report["memory_available_bytes"] for report in seen.values() if report.get("memory_available_bytes")), default=0)
        self.fact["largest_bytes"] = nccl_launch.largest_size(memory, self.job.largest_bytes, self.job.memory_share)
        return True

    def _test(self, test: NcclTest, repeat: int) -> dict[str, t.Any]:
        """Run one test; return its record, which has the fields of the parsed output."""
        name = f"{test.id}.{repeat + 1}"
        end = min(test.end or self.fact["largest_bytes"], self.fact["largest_bytes"])
        program = self._program(test.collective)
        arguments = nccl_launch.test_arguments(
            min(test.begin, end), end, test.factor, self.job.iterations, self.job.warmup, nccl_rank.RESULTS if self._writes_json() else None)
        launch = self._launch(name, test.nodes, "run", self.job.test_seconds, program=program, arguments=arguments)
        logs = {node: _log(collected) for node, collected in launch.collected.items()}
        for rank, node in enumerate(test.nodes):
            if logs.get(node):
                (self.folder.path / f"{name}.rank{rank}.log").write_text(logs[node] or "", encoding="utf-8")
        ranks = [nccl_proof.rank_record(node, launch.collected.get(node), logs.get(node)) for node in test.nodes]
        self.fact["left"] += [f"{record['node']}: {left}" for record in ranks for left in record["ended"]]
        record = {
            "id": test.id, "repeat": repeat + 1, "group": test.group, "sweep": test.sweep, "nodes": list(test.nodes), "collective": f"{test.collective}_perf",
            "command": launch.command, "seconds": round(launch.seconds, 1), "rank_records": ranks,
            **nccl_stage.outcome(test, launch.out, launch.exit_code, launch.timed_out, ranks)}
        record["json"] = _cross_check(record, launch.collected.get(test.nodes[0]))
        if record["status"] != "ok":
            self._failed[test.nodes] = self._failed.get(test.nodes, 0) + 1
            record["launch_failures"], record["tail"] = launch.failures, _tail(launch.err + launch.out, TAIL_LINES)
        return record

    def _program(self, collective: str) -> str:
        own = self.job.container.programs if self.job.container is not None else ""
        return os.path.join(own or self.job.programs, f"{collective}_perf")

    def _writes_json(self) -> bool:
        """Tell whether every node's program knows ``-J`` (2.17.3 and later)."""
        return all(report.get("writes_json") for report in self.fact["nodes"].values())

    def _environments(self, nodes: Sequence[str]) -> list[dict[str, str]]:
        """Return the environment of each rank, completed by what its library can do."""
        result = []
        for node in nodes:
            known = (self.fact["nodes"].get(node) or {}).get("known") or {}
            adapted = nccl_library.adapted(self.job.environments.get(node, []), known, self.job.shape, self.job.profile)
            result.append({str(entry["name"]): str(entry["value"]) for entry in adapted})
        return result

    def _document(self, test: str, nodes: Sequence[str], **more: t.Any) -> dict[str, t.Any]:
        environments = self._environments(nodes)
        return nccl_launch.rank_document(
            self.job.run, test, [{"node": node, "address": self.job.addresses[node]} for node in nodes], environments,
            environment_file=self.job.environment_file, libraries=list(self.job.libraries), added=self.job.added,
            ask_for=nccl_library.asked([*environments, self.job.added]), container=self._container(), **more)

    def _container(self) -> dict[str, t.Any] | None:
        """Return what a rank has to know of the image, None without one."""
        chosen = self.job.container
        if chosen is None:
            return None
        return {"source": self.machine.container_source, "job": {**dataclasses.asdict(chosen), "mount": "" if chosen.programs else self.job.programs}}

    def _launch(self, name: str, nodes: Sequence[str], action: str, seconds: float, **more: t.Any) -> Launch:
        """Launch over some nodes and wait; collect what each rank left."""
        hosts = self.folder.path / f"{name}.hosts"
        hosts.write_text(nccl_launch.hostfile([self.job.addresses[node] for node in nodes]), encoding="utf-8")
        os.chmod(hosts, 0o644)
        document = self._document(name, nodes, deadline_seconds=seconds, **more)
        as_root = (self._user.pw_uid if self._user else os.geteuid()) == 0
        mpirun = nccl_launch.mpirun_command(
            self._mpirun, self._version, str(hosts), len(nodes), self.job.networks, seconds + self.job.launch_seconds, as_root,
            nccl_launch.rank_program(self.machine.rank_source, action, document))
        began = time.monotonic()
        tool = ToolProcess(self._as_user(mpirun), self.folder.scratch, name)
        self._tool = tool
        self.folder.note_processes(os.getpid(), [tool.pid])
        limit = seconds if action == PROBE else seconds + self.job.launch_seconds
        timed_out = tool.wait(limit) is None
        tool.end(GRACE)
        self._tool = None
        self.folder.note_processes(os.getpid(), [])
        collected = self._collect(nodes, document)
        timed_out = timed_out or any((entry.get("report") or {}).get("deadline") for entry in collected.values())
        out, err = tool.output()
        return Launch(_told(mpirun), out, err, tool.exit_code, time.monotonic() - began, timed_out, collected)

    def _as_user(self, command: Sequence[str]) -> list[str]:
        user = self._user
        return nccl_launch.as_user(command, user.pw_name if user else None, user.pw_dir if user else None)

    def _collect(self, nodes: Sequence[str], document: dict[str, t.Any]) -> dict[str, dict[str, t.Any]]:
        """Fetch what each rank left, all nodes at once; nothing from a node that does not answer."""
        small = {key: document[key] for key in ("run", "test", "ranks", "container")}

        def one(rank: int, node: str) -> dict[str, t.Any]:
            program = nccl_launch.rank_program(self.machine.rank_source, "collect", {**small, "rank": rank})
            here = node == self.job.node
            answer = self.machine.run(
                self._as_user(program if here else nccl_launch.ssh_command(self.job.addresses[node], program)), timeout=COLLECT_SECONDS)
            try:
                document = json.loads(answer.out)
            except ValueError:
                return {"problem": (answer.err or "no answer").strip()[:400]}
            return document if isinstance(document, dict) else {}

        with concurrent.futures.ThreadPoolExecutor(max_workers=16) as pool:
            waiting = {node: pool.submit(one, rank, node) for rank, node in enumerate(nodes)}
            return {node: future.result() for node, future in waiting.items()}

    def _write_progress(self) -> None:
        """Keep where the job stands; the result goes first, so that "done" means that it is there."""
        rounds = sum(test.repeats for test in self.job.tests)
        self.folder.write(job_state.RESULT, self.fact)
        running = self.fact["status"] == "running"
        self.folder.write(job_state.PROGRESS, {
            "run": self.job.run, "node": self.job.node, "status": self.fact["status"], "round": min(self._done + 1, rounds), "rounds": rounds,
            "running": int(running), "seconds_left": float(rounds - self._done) * 10.0 if running else 0.0, "pid": os.getpid()})


def _log(collected: dict[str, t.Any]) -> str | None:
    """Return the log that a rank left."""
    packed = collected.get("log")
    if not isinstance(packed, str):
        return None
    try:
        return zlib.decompress(base64.b64decode(packed)).decode("utf-8", "replace")
    except (ValueError, zlib.error):
        return None


def _told(command: Sequence[str]) -> list[str]:
    """Return a command for people: the text of the rank program is not repeated in every record."""
    words = list(command)
    place = words.index("-c") if "-c" in words else len(words)
    return [*words[:place], *(["-c", "<nccl_rank>", *words[place + 2 : place + 3]] if place < len(words) else [])]


def _tail(text: str, lines: int) -> str:
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])[-4000:]


def _cross_check(record: dict[str, t.Any], collected: dict[str, t.Any] | None) -> dict[str, t.Any] | None:
    """Return what the JSON of rank 0 says against the text: the places where they differ, None without JSON. Its environment is dropped unread."""
    text = (collected or {}).get("json")
    if not isinstance(text, str) or not text:
        return None
    try:
        document = nccl_tests_json.parse(text)
    except nccl_tests_output.NcclTestsOutputError as error:
        return {"agrees": None, "differences": [], "message": str(error)}
    printed = {row["size_bytes"]: row for row in record["rows"]}
    differences = []
    for row in document.run.rows:
        mine = printed.get(row.size_bytes)
        if mine is None:
            differences.append(f"{row.size_bytes} bytes stand in the JSON alone")
            continue
        for placement in ("out_of_place", "in_place"):
            text_us, json_us = mine[placement]["time_us"], getattr(row, placement).time_us
            # The text prints four to six digits of what the JSON has in full.
            if text_us is not None and json_us is not None and abs(text_us - json_us) > max(0.02, 0.001 * json_us):
                differences.append(f"{row.size_bytes} bytes {placement}: {text_us} us printed, {json_us} us in the JSON")
    return {"agrees": not differences and document.complete, "differences": differences[:8], "message": ""}
