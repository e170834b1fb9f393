# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the look at the nodes and the output of a run mean: go on, leave it, or stop with the reason. Pure."""

from __future__ import annotations

import dataclasses
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.dgxspark.fabric.plugins.module_utils import launch_refusals, nccl_container_stage, nccl_library, nccl_tests_output
from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_job_spec import NcclJob, NcclTest

#: Below this many bytes that may be locked NCCL cannot register its buffers (a usual default is 8 MiB).
MEMLOCK_LEAST = 1 << 30


@dataclasses.dataclass(slots=True)
class Verdict:
    """Whether the tests go on (``running``), and why not."""

    status: str = "running"
    reason: str = ""
    message: str = ""
    fix: str = ""
    cause: str = ""
    problems: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)

    def stop(self, status: str, reason: str, message: str, fix: str, cause: str = "") -> None:
        """Keep the first reason to stop."""
        if self.status == "running":
            self.status, self.reason, self.message, self.fix, self.cause = status, reason, message, fix, cause


def judge(job: NcclJob, seen: Mapping[str, Mapping[str, t.Any]]) -> Verdict:
    """Judge what the nodes said from inside the first launch."""
    verdict = Verdict()
    without = [node for node, report in seen.items() if not report.get("gpus")]
    if job.require_gpu and without:
        verdict.stop(
            "skipped", "no_gpu", f"{', '.join(without)} {'has' if len(without) == 1 else 'have'} no NVIDIA GPU that the kernel's driver shows",
            "Load the NVIDIA driver, or leave the node out of the test.")
    image = job.container.image if job.container is not None else ""
    if image:
        judge_image(job, image, seen, verdict)
    missing = [node for node, report in seen.items() if not report.get("program")]
    if missing:
        verdict.stop(
            "failed", "program_missing", f"nccl-tests is not at {job.programs} on {', '.join(missing)}",
            "Run the role nccl (playbook provision), or set fabric_nccl_prefix to where it is installed, the same on every node.")
    stand_in = any(report.get("stand_in") for report in seen.values())
    lacking = [node for node, report in seen.items() if not report.get("nccl_library")]
    if lacking and not stand_in:
        verdict.stop(
            "failed", "library_missing", f"libnccl.so.2 is not found on {', '.join(lacking)}",
            "Install NCCL on every node at the same path (role nccl), or set fabric_nccl_prefix.")
    mpi = {node: report.get("mpi_version") for node, report in seen.items()}
    if len(set(mpi.values())) > 1:
        verdict.stop("failed", "mpi_mismatch", f"Open MPI differs between the nodes: {told(mpi)}", "Install the same Open MPI on every node.")
    versions = {node: report.get("nccl_version") for node, report in seen.items()}
    if len(set(versions.values())) > 1:
        verdict.stop(
            "failed", "nccl_mismatch", f"NCCL differs between the nodes: {told(versions)}",
            "Install the same NCCL on every node (role nccl), in containers too.")
    for refusal in [
        *launch_refusals.version_refusals(versions, job.least_version),
        *launch_refusals.meeting_refusals(job.shape, {}, job.fabric_networks, {node: report.get("installed") or {} for node, report in seen.items()}),
    ]:
        verdict.problems.append(dataclasses.asdict(refusal))
        verdict.stop("refused", refusal.id, refusal.message, refusal.fix)
    for node, report in seen.items():
        verdict.problems.extend(node_problems(job, node, report))
    return verdict


def judge_image(job: NcclJob, image: str, seen: Mapping[str, Mapping[str, t.Any]], verdict: Verdict) -> None:
    """Stop where nothing can run in the image, on whichever node that is; else keep where it differs from the hosts."""
    obstacles = [found for node, report in seen.items() if (found := nccl_container_stage.obstacle(node, image, report)) is not None]
    if obstacles:
        reason, _message, cause, fix = obstacles[0]
        verdict.stop("failed", reason, "; ".join(message for _reason, message, _cause, _fix in obstacles[:4]), fix, cause)
        return
    planned = {node: {**job.environment(node), **(report.get("installed") or {})} for node, report in seen.items()}
    verdict.problems.extend(nccl_container_stage.differences(image, seen, planned))


def told(values: Mapping[str, t.Any]) -> str:
    """Return what each node has, in words."""
    return ", ".join(f"{node} has {value or 'none that tells its version'}" for node, value in values.items())


def node_problems(job: NcclJob, node: str, report: Mapping[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return what is wrong on a node and does not stop the tests: {id, nodes, message, fix}."""
    found = []

    def add(problem: str, message: str, fix: str) -> None:
        found.append({"id": problem, "nodes": [node], "message": message, "fix": fix})

    within = f" in {job.container.image}" if job.container is not None else ""
    limit = report.get("memlock_bytes")
    if isinstance(limit, int) and limit < MEMLOCK_LEAST:
        add("memlock", f"{node}: a process started by mpirun{within} may lock {limit} bytes of memory, which is too little to register buffers",
            "Start containers with --ulimit memlock=-1:-1." if within else "Set 'memlock unlimited' for the user in /etc/security/limits.d, and log in anew.")
    planned = {str(entry["name"]): str(entry["value"]) for entry in nccl_library.adapted(
        job.environments.get(node, []), report.get("known") or {}, job.shape, job.profile)}
    for path, settings in (report.get("configurations") or {}).items():
        against = [f"{name}={value}" for name, value in settings.items() if name in planned and planned[name] != value]
        if against:
            add("configuration", f"{node}: {path}{within} sets {', '.join(against)} against the plan, for every program that uses NCCL",
                f"Remove these lines from {path}, or the file.")
        elif settings:
            add("configuration_note", f"{node}: {path}{within} sets {', '.join(settings)} for every program that uses NCCL",
                f"Keep settings in one place; remove {path} unless it is wanted.")
    debug = [place for place, settings in [*(report.get("configurations") or {}).items(), ("its environment", report.get("environment") or {}),
                                           ("its nccl.env", report.get("installed") or {})] if "NCCL_DEBUG" in settings]
    if debug:
        add("debug_left_on", f"{node}: NCCL_DEBUG is set in {', '.join(debug)}, which slows and clutters every program", "Set it for a test alone.")
    installed = report.get("installed") or {}
    if installed:
        different = sorted({name for name in {*installed, *planned} if installed.get(name) != planned.get(name)} - {"NCCL_DEBUG"})
        if different:
            add("environment", f"{node}: {job.environment_file} is not the plan's: " + ", ".join(
                f"{name} is {installed.get(name, 'not set')} instead of {planned.get(name, 'not set')}" for name in different),
                "Run the playbook provision; the test used the file as it is.")
    ignored = nccl_library.ignored(installed or planned, report.get("known") or {})
    if ignored and report.get("nccl_library"):
        which = f"NCCL {report.get('nccl_version') or ''} at {report['nccl_library']}{within}"
        add("unknown_variable", f"{node}: {which} does not know {', '.join(ignored)} and ignores it",
            "Use an NCCL that knows it, or leave the variable out by fabric_nccl_environment.")
    risk = nccl_library.tree_risk(report.get("known") or {}, job.shape, job.profile)
    if risk:
        add("trees", f"{node}: {risk}", "If it happens, set fabric_nccl_profile: runtime_connect, or bring a library that knows the variable.")
    return found


def outcome(
    test: NcclTest, out: str, exit_code: int | None, timed_out: bool, ranks: Sequence[Mapping[str, t.Any]]
) -> dict[str, t.Any]:
    """Return what came of a run: the fields of its parsed output, ``status``, ``error`` and ``message``.

    Exit codes of nccl-tests changed between versions, and mpirun may put its own in their place: wrong data is read from the rows and the footer.
    """
    run, alone = _one_run(out)
    fields = {**dataclasses.asdict(run), "exit_code": exit_code}
    fields.pop("collective")
    fields.pop("source")
    wrong = sum(row.wrong or 0 for row in run.rows)
    expected, hosts = len(test.nodes), [rank.get("hostname") for rank in ranks]
    listed = [device.host for device in sorted(run.devices, key=lambda device: device.rank)]
    status, error, message = "ok", "", ""
    if timed_out:
        status, error, message = "failed", "timeout", "the run did not end within its deadline and was ended on every node"
    elif alone:
        status, error, message = "failed", "no_mpi", "every node ran a test of its own with one rank: nccl-tests was built without MPI"
    elif run.out_of_bounds_failed or wrong:
        status, error, message = "failed", "wrong_data", f"{run.out_of_bounds or wrong} values are wrong: the speed does not matter"
    elif any(rank.get("exit_code") is None or rank.get("exit_code") for rank in ranks) or exit_code:
        bad = [rank for rank in ranks if rank.get("exit_code") != 0]
        ended = ", ".join(f"{rank['node']} {'gave no answer' if rank.get('exit_code') is None else rank['exit_code']}" for rank in bad)
        words = "; ".join(dict.fromkeys(f"{host}: {kind} {text}".strip() for host, kind, text in run.failures[:3])) or "; ".join(run.errors[:3])
        status, error = "failed", "exit_status"
        message = f"the run failed (exit status {exit_code}; ranks: {ended or 'all 0'})" + (f": {words}" if words else "")
    elif run.ranks != expected:
        status, error, message = "failed", "ranks", f"{run.ranks} ranks took part instead of {expected}"
    elif listed and None not in hosts and [host[:len(listed[place])] for place, host in enumerate(hosts)] != listed:
        status, error, message = "failed", "order", f"the ranks ran on {', '.join(listed)} instead of {', '.join(str(host) for host in hosts)}"
    elif not run.rows or run.largest is None or run.largest.busbw_gbytes_per_s is None:
        status, error, message = "failed", "no_figure", "the output has no figure"
    elif run.concluded is False:
        status, error, message = "failed", "incomplete", "the output ends before its closing line"
    return {**fields, "status": status, "error": error, "message": message, "wrong": wrong}


def _one_run(out: str) -> tuple[nccl_tests_output.Run, bool]:
    """Return the run that a text holds (an empty one without), and whether every rank ran one of its own."""
    try:
        runs = nccl_tests_output.parse(out)
    except nccl_tests_output.NcclTestsOutputError:
        return nccl_tests_output.Run(), False
    return runs[0], len(nccl_tests_output.one_rank_jobs(runs)) > 1 or (len(runs) > 1 and all(run.ranks <= 1 for run in runs))
