# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The fault matrix: faults one at a time over pair, mesh, ring of four and switch; each gets its first broken layer, subject and cause.

One run is the evidence: it ends with a table of fault, expected verdict, what was got, and seconds, which is also written to
``reports/fault-matrix``. ``-k pair`` (mesh, ring, switch) takes one topology; ``--clean-runs 10`` more runs without a fault.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import threading
import time
import typing as t

import pytest

import matrix_breaking as breaking
from conftest import ROOT, Lab, latest_report, run_playbook, start_playbook
from matrix_cables import MESH, RING, SWITCH
from matrix_pair import PAIR
from matrix_verdict import Fault, Report, Row, differences, table, verdict_text

pytestmark = pytest.mark.long

#: The ring last: another test stays on it.
FAULTS = {"pair": PAIR, "mesh": MESH, "switch": SWITCH, "ring": RING}
NODES = {"pair": 2, "mesh": 3, "ring": 4, "switch": 3}
#: The screening alone, short, since it is not the figures that matter here.
SCREEN = {"fabric_test_seconds": 2, "fabric_test_repeats": 1, "fabric_rdma_tests": [], "fabric_iperf3_streams": [], "perftest_grace_seconds": 8,
          "perftest_poll_seconds": 2}
#: Seconds that a run may take, and that it may take to come to the moment of a fault in mid-run.
LIMIT, SOON = 900, 300


class Ground:
    """The lab, provisioned with one topology after the other, and the rows of the table."""

    def __init__(self, lab: Lab, folder: pathlib.Path) -> None:
        self.lab, self.folder = lab, folder
        self.started = time.strftime("%Y%m%dT%H%M%S")
        self.rows: list[Row] = []
        self.topology = ""

    def ready(self, topology: str) -> Lab:
        """Return the lab with provisioned, faultless machines of a topology."""
        if self.topology != topology:
            self.topology = ""
            self.lab.call("up", "--topology", topology, "--nodes", str(NODES[topology]), timeout=1800)
            self.lab.call("reset", "--boot")
            breaking.tidy(self.lab)
            assert run_playbook("playbooks/provision.yml").status == 0
            self.lab.call("mark")
            self.topology = topology
        else:
            breaking.tidy(self.lab)
            self.lab.call("reset")
        return self.lab

    def note(self, fault: str, expected: str, got: str, began: float, right: bool) -> None:
        """Add a row; the table is written each time, so that a run cut off leaves one."""
        self.rows.append(Row(fault, self.topology, expected, got, time.monotonic() - began, right))
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"{self.started}.md").write_text(table(self.rows) + "\n", encoding="utf-8")


@pytest.fixture(scope="module")
def ground(lab: Lab, request: pytest.FixtureRequest) -> t.Iterator[Ground]:
    """Return the ground; the table is printed when all is done."""
    the_ground = Ground(lab, ROOT / "reports/fault-matrix")
    yield the_ground
    breaking.tidy(lab)
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and the_ground.rows:
        reporter.write_line(f"\n\n{table(the_ground.rows)}\n")


def validate(fault: Fault, lab: Lab) -> tuple[int, Report]:
    """Run validate with a fault in force, or one that comes once the output has a line of its moment; return its status and its report."""
    if not fault.moment:
        fault.inject(lab)
    latest = ROOT / "reports/lab/latest"
    latest.unlink(missing_ok=True)  # so that no older report is taken for this run's
    variables = json.dumps({**SCREEN, **fault.variables})
    process = start_playbook("playbooks/validate.yml", "-e", variables, *fault.options)
    come = threading.Event()
    lines: list[str] = []

    def follow() -> None:
        for line in process.stdout or ():
            lines.append(line)
            if fault.moment and re.search(fault.moment, line):
                come.set()

    reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    try:
        if fault.moment:
            assert come.wait(SOON), f"no line of the output matched {fault.moment}"
            fault.inject(lab)
        status = process.wait(LIMIT)
    except subprocess.TimeoutExpired:
        pytest.fail(f"validate.yml did not end within {LIMIT} s")
    finally:
        process.kill()
        reader.join(10)
        print("".join(lines))
    return status, latest_report()


def clean_runs(count: int) -> dict[str, tuple[Fault, ...]]:
    """Return so many runs without a fault by topology, in turn, each at least once."""
    found = {}
    for place, topology in enumerate(FAULTS):
        share = max(1, len(range(place, count, len(FAULTS))))
        found[topology] = tuple(Fault(name=f"none, clean run {number}", topology=topology, inject=lambda lab: None) for number in range(1, share + 1))
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Lay out the matrix topology by topology, so that each is booted and provisioned once."""
    if "fault" in metafunc.fixturenames:
        clean = clean_runs(metafunc.config.getoption("--clean-runs"))
        faults = [fault for topology, listed in FAULTS.items() for fault in (*clean[topology], *listed)]
        metafunc.parametrize("fault", faults, ids=[fault.identity for fault in faults])


def test_the_verdict_names(fault: Fault, ground: Ground) -> None:
    lab = ground.ready(fault.topology)
    began, got, wrong = time.monotonic(), "no report", ["no verdict"]
    try:
        status, report = validate(fault, lab)
        got, wrong = verdict_text(report), differences(fault, status, report)
    finally:
        ground.note(fault.name, fault.expected, got, began, not wrong)
    assert not wrong, "\n".join(wrong)


def test_a_ring_of_four_is_screened_in_two_rounds(ground: Ground) -> None:
    # Eight tests at once share two processors, so any figure is good enough here.
    free = {"fabric_max_concurrent_tests": None, "fabric_rail_gbps": 0.005, "fabric_rail_bidirectional_gbps": 0.005}
    began, got, expected = time.monotonic(), "no report", "16 results one way in 2 rounds"
    lab = ground.ready("ring")
    try:
        _status, report = validate(Fault(name="screening", topology="ring", inject=lambda lab: None, variables=free), lab)
        one_way = {test["id"]: test["round"] for test in report["plan"]["tests"] if test["stage"] == "directed"}
        results = {one["test"] for cable in report["cables"] for rail in cable["rails"].values() for one in rail["measurements"]
                   if one["stage"] == "directed" and one["gbps"]}
        got = f"{len(results)} results one way in {len(set(one_way.values()))} rounds"
    finally:
        ground.note("none, as many tests at once as may be", expected, got, began, got == expected)
    assert got == expected
