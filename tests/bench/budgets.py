# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Print each budget, what was measured on the lab (a mesh of three) and on this controller, and whether it holds."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/unit"), str(ROOT / "tests/integration"), str(ROOT / "tests/bench")]

import conftest  # noqa: E402
import manual_way  # noqa: E402

SECONDS = 5
#: What the lab's inventory leaves out to save time, and an owner of Sparks has by default.
EVERYTHING = {"fabric_rdma_tests": ["latency", "read", "send"], "fabric_iperf3_streams": [1, 4, 8]}


class Table:
    """Rows of what, budget and measured; prints each row as it comes."""

    def __init__(self) -> None:
        self.failed = 0

    def row(self, what: str, measured: float, budget: float, unit: str, least: bool = False) -> None:
        """Add a row; ``least`` budgets are to be reached, others not to be exceeded."""
        holds = measured >= budget if least else measured <= budget
        self.failed += not holds
        print(f"{what:<64} {measured:>8.2f} {unit:<10} {'at least' if least else 'at most':>8} {budget:<8g} {'pass' if holds else 'FAIL'}", flush=True)


def controller(table: Table) -> None:
    """Measure what runs on the controller alone, in a process of its own that knows the collection's name."""
    script = ROOT / "tests/bench/controller.py"
    done = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True)
    for what, measured, budget, unit in json.loads(done.stdout):
        table.row(what, measured, budget, unit)


def executions(table: Table, lab: conftest.Lab) -> None:
    """Count remote module executions in the journal of a node."""
    for what, playbook, arguments, budget in (
            ("remote executions a host, site --check, no drift", "site.yml", ("--check", "--diff"), 10),
            ("remote executions a host, validate", "playbooks/validate.yml", ("-e", json.dumps({"fabric_test_seconds": SECONDS, **EVERYTHING})), 8)):
        since = lab.clock("spark1")
        run = conftest.run_playbook(playbook, *arguments, timeout=1200)
        if run.status:
            raise SystemExit(f"{playbook} {' '.join(arguments)} failed on a healthy lab")
        table.row(what, len(lab.executions("spark1", since)), budget, "")


def stage_seconds(report: dict[str, t.Any]) -> float:
    """Return the wall time of the RDMA stage: from the first tool's start to the last one's end, by the nodes' clocks."""
    tests = [test for node in report["perftest"].values() for test in node["tests"] if test["started"] and test["ended"]]
    return max(test["ended"] for test in tests) - min(test["started"] for test in tests)


def measuring(table: Table, lab: conftest.Lab) -> None:
    """Compare the RDMA stage with its ideal and with the same tests one at a time over ssh.

    The lab's inventory keeps two tests at once, so that its two cores give even rates. Here time counts, not rates: rounds are as the plan of
    real Sparks has them, the verdict on the rates is left alone, and each test has to have ended with a number. The stage is write bandwidth
    on all rails, each way and both ways; what follows it in a run is left out, and so are repetitions.
    """
    unlimited = {"fabric_max_concurrent_tests": None, "fabric_test_seconds": SECONDS, "fabric_rdma_tests": [], "fabric_iperf3_streams": [],
                 "fabric_test_repeats": 0}
    conftest.run_playbook("playbooks/validate.yml", "-e", json.dumps(unlimited), timeout=1200)
    report = conftest.latest_report()
    silent = [test["id"] for node in report["perftest"].values() for test in node["tests"] if test["role"] == "client" and not test.get("gbps")]
    if silent:
        raise SystemExit(f"load tests without a number: {', '.join(silent)}")
    plan = report["plan"]
    seconds = stage_seconds(report)
    table.row("RDMA stage / (rounds x seconds a test), mesh of 3", seconds / (plan["rounds"] * SECONDS), 2.0, "")
    table.row("RDMA stage against the manual way, mesh of 3", manual_way.seconds(plan, report["nodes"], lab.call) / seconds, 1.8, "times", least=True)


def main() -> int:
    """Run everything; the status is 0 only if each budget holds."""
    table = Table()
    controller(table)
    lab = conftest.Lab()
    started = time.monotonic()
    try:
        lab.call("up", "--topology", "mesh", "--nodes", "3")
        lab.call("reset")
        if conftest.run_playbook("playbooks/provision.yml").status:
            raise SystemExit("the lab could not be provisioned")
        executions(table, lab)
        measuring(table, lab)
    finally:
        lab.call("down", check=False)
    print(f"{time.monotonic() - started:.0f} s on the lab")
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
