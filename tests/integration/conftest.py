# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab and the playbooks, as the acceptance tests drive them."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import re
import shlex
import subprocess
import time
import typing as t

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAB = ROOT / "tests/lab/lab"
FABRIC_INTERFACES = ("enp1s0f0np0", "enp1s0f1np1", "enP2p1s0f0np0", "enP2p1s0f1np1")
#: The screening alone, with short tests.
QUICK = ("-e", '{"fabric_test_seconds": 2, "fabric_rdma_tests": [], "fabric_iperf3_streams": []}')


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: belongs to `make test-all` only")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--clean-runs", type=int, default=3, help="runs of the fault matrix without a fault, over all topologies")


@dataclasses.dataclass(frozen=True)
class Run:
    """One finished ansible-playbook run."""

    status: int
    output: str
    seconds: float

    @property
    def changed(self) -> dict[str, int]:
        """Return the recap's count of changed tasks by host."""
        recap = self.output.rpartition("PLAY RECAP")[2]
        return {host: int(changed) for host, changed in re.findall(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)", recap, re.M)}


class Lab:
    """The running lab."""

    def call(self, *args: str, check: bool = True, timeout: int = 900) -> subprocess.CompletedProcess[str]:
        """Run ``tests/lab/lab`` with arguments."""
        done = subprocess.run([str(LAB), *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)
        if check and done.returncode:
            pytest.fail(f"lab {shlex.join(args)}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def ssh(self, node: str, command: str, check: bool = True, timeout: int = 600) -> str:
        """Run a shell command on a node, as root, and return its standard output."""
        return self.call("ssh", node, "--", command, check=check, timeout=timeout).stdout

    def fault(self, *args: str) -> None:
        """Inject a fault, or clear all."""
        self.call("fault", *args)

    def executions(self, node: str, since: float, polls: bool = False) -> list[str]:
        """Return the module executions that a node's journal shows since a time in epoch seconds of the node."""
        lines = self.ssh(node, f"journalctl --no-pager -o cat --since @{int(since)} | grep 'Invoked with' || true").splitlines()
        return [line for line in lines if polls or "state=poll" not in line]

    def clock(self, node: str) -> float:
        """Return a node's clock, epoch seconds."""
        return float(self.ssh(node, "date +%s.%N"))


def ansible_environment() -> dict[str, str]:
    """Return the environment of a run: this checkout's collection, nothing else of ours."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("ANSIBLE_", "MOLECULE_"))}
    environment["ANSIBLE_HOME"] = str(ROOT / ".ansible")
    environment["ANSIBLE_NOCOLOR"] = "1"
    environment["ANSIBLE_FORCE_COLOR"] = "0"
    environment["PATH"] = f"{ROOT / '.venv/bin'}:{environment['PATH']}"
    return environment


def start_playbook(playbook: str, *args: str, inventory: str | pathlib.Path = "inventories/lab", cwd: pathlib.Path = ROOT,
                   environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    """Start ansible-playbook and return the process."""
    return subprocess.Popen(
        ["ansible-playbook", "-i", str(inventory), playbook, *args], cwd=cwd, env=environment or ansible_environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run_playbook(playbook: str, *args: str, timeout: int = 900, **kwargs: t.Any) -> Run:
    """Run ansible-playbook to its end; its output is printed, so that pytest shows it on failure."""
    started = time.monotonic()
    process = start_playbook(playbook, *args, **kwargs)
    try:
        output, _unused = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _unused = process.communicate()
        pytest.fail(f"{playbook} did not end within {timeout} s\n{output}")
    print(output)
    return Run(process.returncode, output, time.monotonic() - started)


def latest_report(cluster: str = "lab", root: pathlib.Path = ROOT) -> dict[str, t.Any]:
    """Return the newest report of a cluster."""
    return json.loads((root / "reports" / cluster / "latest/report.json").read_text(encoding="utf-8"))


def broken(report: dict[str, t.Any]) -> list[dict[str, t.Any]]:
    """Return the findings of a report that make it fail."""
    return [finding for finding in report["findings"] if finding["status"] in ("fail", "unknown")]


@pytest.fixture(scope="session")
def lab() -> t.Iterator[Lab]:
    """Return the lab; taken down after the last test, whatever happened."""
    the_lab = Lab()
    yield the_lab
    the_lab.call("down", check=False)


@pytest.fixture(scope="module")
def mesh(lab: Lab) -> Lab:
    """Return an untouched mesh of three."""
    lab.call("up", "--topology", "mesh", "--nodes", "3")
    lab.call("reset")
    return lab


@pytest.fixture(scope="module")
def provisioned(mesh: Lab) -> Lab:
    """Return a mesh of three that site.yml provisioned and found healthy; what follows the screening has tests of its own."""
    run = run_playbook("site.yml", "-e", '{"fabric_rdma_tests": [], "fabric_iperf3_streams": []}')
    assert run.status == 0
    return mesh


@pytest.fixture
def faultless(provisioned: Lab) -> t.Iterator[Lab]:
    """Return the provisioned mesh for a test that injects faults; they are cleared after it."""
    yield provisioned
    provisioned.fault("clear")
