# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Measure what runs on the controller alone: plan and schedule, judge and report, explaining a large log.

Prints rows ``[what, measured, budget, unit]`` as JSON. Each is measured in a process of its own, whose peak memory is then that of this work.

python tests/bench/controller.py
"""

from __future__ import annotations

import importlib
import json
import pathlib
import resource
import subprocess
import sys
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/bench"))
explain_log = importlib.import_module("explain_log")  # makes the collection importable, too

PLAN_NODES, REPORT_NODES = 200, 64
LOG_MEGABYTES = (16, 64)


def plan() -> dict[str, float]:
    """Plan a large switch, its schedule included."""
    from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy

    started = time.perf_counter()
    made = healthy.plan_of("switch", PLAN_NODES)
    return {"seconds": time.perf_counter() - started, "tests": len(made["tests"])}


def report() -> dict[str, float]:
    """Judge a run of a large switch on which everything was measured, redact it, and make all its files."""
    from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import make_report, redacted, report_files
    from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy, sweeps

    data = healthy.healthy_run(healthy.plan_of("switch", REPORT_NODES))
    hosts = list(data["plan"]["nodes"])
    data["iperf3"] = sweeps.ladder(data["plan"])
    data["nccl"] = {hosts[0]: {"runs": [sweeps.nccl_sweep("all_reduce", hosts), sweeps.nccl_sweep("all_gather", hosts)]}}
    started, cpu = time.perf_counter(), time.process_time()
    files = report_files(redacted(make_report(data)))
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "files": len(files),
    }


PARTS: dict[str, t.Callable[[], dict[str, float]]] = {"plan": plan, "report": report}


def measured(part: str) -> dict[str, float]:
    """Measure one part in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--one", part], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def rows() -> list[tuple[str, float, float, str]]:
    """Return what was measured beside its budget."""
    judged = measured("report")
    small, large = (explain_log.bench(size) for size in LOG_MEGABYTES)
    growth = max(large["megabytes"] - small["megabytes"], 0.0)
    return [
        (f"plan and schedule, {PLAN_NODES} nodes on a switch", measured("plan")["seconds"], 2.0, "s"),
        (f"judge and report, {REPORT_NODES} nodes, {judged['files']:.0f} files", judged["seconds"], 10.0, "s"),
        (f"judge and report, {REPORT_NODES} nodes, peak memory", judged["megabytes"], 500.0, "MB"),
        (f"explain a log of NCCL of {LOG_MEGABYTES[1]} MB", large["seconds"], explain_log.BUDGET_SECONDS, "s"),
        (f"explain, memory for a log of {LOG_MEGABYTES[1]} MB", large["megabytes"], explain_log.BUDGET_MEGABYTES, "MB"),
        (f"explain, more memory for {LOG_MEGABYTES[1]} MB than for {LOG_MEGABYTES[0]} MB", growth, explain_log.FLAT_MEGABYTES, "MB"),
    ]


def main(arguments: list[str]) -> int:
    """Print the rows, or one part's figures."""
    print(json.dumps(PARTS[arguments[1]]() if arguments[:1] == ["--one"] else rows()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
