# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A small cluster on the loopback for tests of the executor: nodes are threads with addresses of their own."""

from __future__ import annotations

import json
import os
import pathlib
import socket
import sys
import threading
import time
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils import perftest_job, perftest_spec
from ansible_collections.dgxspark.fabric.plugins.module_utils.perftest_test import Patience
from ansible_collections.dgxspark.fabric.plugins.module_utils.rendezvous import Timing
from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures"
DOUBLES = {"ib_write_bw": FIXTURES / "perftest_double/ib_write_bw_double.py", "iperf3": FIXTURES / "iperf3_double/iperf3_double.py"}
TIMING = Timing(heartbeat=0.1, silence=1.5, redial_grace=0.4, dial_every=0.05, dial_timeout=0.5, hello_timeout=0.5)
PATIENCE = Patience(gid=0.2, listen=5.0, connect=1.5, peer_end=0.8, exchange=0.5, start_together=0.3, poll=0.02)


#: Ports below the range that the kernel hands out, other ones for each test process: what is free now stays free until it is used.
PORTS = iter(range(20000 + os.getpid() % 100 * 100, 32000))


def free_port(*addresses: str) -> int:
    """Return a TCP port that is free on all of ``addresses`` and that no other test of this process gets."""
    for port in PORTS:
        try:
            for address in addresses:
                with socket.socket() as other:
                    other.bind((address, port))
        except OSError:
            continue
        return port
    raise RuntimeError("no TCP port below 32000 is left for the tests")


def write_device(root: pathlib.Path, device: str, interface: str, address: str, state: str = "4: ACTIVE") -> None:
    """Make the sysfs files of one RDMA device whose IPv4 GID has index 1."""
    port = root / "sys/class/infiniband" / device / "ports/1"
    mapped = "0000:0000:0000:0000:0000:ffff:" + ":".join(f"{int(a):02x}{int(b):02x}" for a, b in [address.split(".")[:2], address.split(".")[2:]])
    files = {"state": state, "gids/0": "fe80:0000:0000:0000:5054:00ff:fe01:0100", "gids/1": mapped, "gids/2": "0000:0000:0000:0000:0000:0000:0000:0000",
             "gid_attrs/types/0": "RoCE v2", "gid_attrs/types/1": "RoCE v2", "hw_counters/rcvd_pkts": "100"}
    for name, text in files.items():
        (port / name).parent.mkdir(parents=True, exist_ok=True)
        (port / name).write_text(text + "\n", encoding="ascii")
    statistics = root / "sys/class/net" / interface / "statistics"
    statistics.mkdir(parents=True, exist_ok=True)
    (statistics / "tx_bytes").write_text("5000\n", encoding="ascii")


class Loopback:
    """Nodes n1, n2, ... at 127.0.1.1, 127.0.1.2, ...; each has one device for each peer, "roce_PEER"."""

    def __init__(self, folder: pathlib.Path, count: int) -> None:
        self.folder = folder
        self.addresses = {f"n{number}": f"127.0.1.{number}" for number in range(1, count + 1)}
        self.control_port = free_port(*self.addresses.values())
        self.tests: list[dict[str, t.Any]] = []
        self.faults: dict[str, t.Any] = {}
        self.jobs: dict[str, perftest_job.PerftestJob] = {}
        self.results: dict[str, dict[str, t.Any]] = {}
        self.users = dict.fromkeys(self.addresses, "[]")
        self.answers = False
        self.tools = {name: str(folder / name) for name in DOUBLES}
        for name in self.addresses:
            for peer in self.addresses:
                write_device(folder / name, f"roce_{peer}", f"eth_{peer}", self.fabric(name, peer))

    def fabric(self, of: str, towards: str) -> str:
        """Return the fabric address of node ``of`` on its link to node ``towards``."""
        low, high = sorted((int(of[1:]), int(towards[1:])))
        return f"10.{low}.{high}.{int(of[1:])}"

    def test(self, number: int, client: str, server: str, **more: t.Any) -> str:
        """Add a test; return its id."""
        identity = f"r{number}-{client}-{server}-{len(self.tests)}"
        self.tests.append({"id": identity, "round": number, "client": client, "server": server, "port": free_port("127.0.0.1"), **more})
        return identity

    def port(self, identity: str) -> int:
        """Return the port of a test."""
        return next(test["port"] for test in self.tests if test["id"] == identity)

    def job(self, name: str, **more: t.Any) -> dict[str, t.Any]:
        """Return the job of one node as the controller would make it."""
        mine = [test for test in self.tests if name in (test["client"], test["server"])]
        tests = []
        for test in mine:
            role = "client" if test["client"] == name else "server"
            peer = test["server"] if role == "client" else test["client"]
            tool = test.get("tool", "ib_write_bw")
            # A TCP test connects over its own addresses, which have to exist.
            ends = (self.addresses[name], self.addresses[peer]) if tool == "iperf3" else (self.fabric(name, peer), self.fabric(of=peer, towards=name))
            tests.append({"id": test["id"], "round": test["round"], "role": role, "peer": peer, "tool": tool, "device": f"roce_{peer}",
                          "interface": f"eth_{peer}", "address": test.get(f"{role}_address", ends[0]), "peer_address": ends[1],
                          "server_address": self.addresses[test["server"]], "port": test["port"], "seconds": 1, "stage": test.get("stage"),
                          "streams": test.get("streams"), "bidirectional": test.get("bidirectional", False), "concurrent": 2})
        peers = {test["peer"]: {"address": self.addresses[test["peer"]]} for test in tests}
        return {"run": "run-of-the-test", "node": name, "control_address": self.addresses[name], "control_port": self.control_port,
                "start_skew_seconds": 1.0, "grace_seconds": 4.0, "tests": tests, "peers": peers,
                "rounds": 1 + max(test["round"] for test in self.tests), **more}

    def machine(self, name: str) -> perftest_job.Machine:
        """Return the surroundings of one node."""
        return perftest_job.Machine(
            directory=self.folder / name / "state", tree=Tree(self.folder / name), find_tool=self.tools.get,
            list_users=lambda: self.users[name], answers=lambda address: self.answers, timing=TIMING, patience=PATIENCE, reach=0.8)

    def write_tool(self) -> None:
        """Put the test doubles in place, with their faults."""
        (self.folder / "faults.json").write_text(json.dumps(self.faults), encoding="utf-8")
        for name, double in DOUBLES.items():
            tool = self.folder / name
            tool.write_text(f"#!{sys.executable} -SE\n{double.read_text(encoding='utf-8')}", encoding="utf-8")
            tool.chmod(0o755)

    def run(self, *absent: str, **more: t.Any) -> dict[str, dict[str, t.Any]]:
        """Run the jobs of all nodes but the ``absent`` ones; return their records by node and test id."""
        self.start(*absent, **more)
        return self.finish()

    def start(self, *absent: str, **more: t.Any) -> None:
        """Start the jobs of all nodes but the ``absent`` ones."""
        self.write_tool()
        self.threads = []
        for name in self.addresses:
            if name not in absent:
                job = self.jobs[name] = perftest_job.PerftestJob(perftest_spec.parse_job(self.job(name, **more)), self.machine(name))
                job.open()
                self.threads.append(threading.Thread(target=lambda name=name, job=job: self.results.__setitem__(name, job.run()), daemon=True))
        for thread in self.threads:
            thread.start()

    def finish(self) -> dict[str, dict[str, t.Any]]:
        """Wait for the jobs; return their records by node and test id."""
        for thread in self.threads:
            thread.join(timeout=30)
            assert not thread.is_alive(), "a job did not end"
        return {name: {record["id"]: record for record in result["tests"]} for name, result in self.results.items()}


def left_behind(folder: pathlib.Path) -> list[str]:
    """Return the command lines of test doubles that still run."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if any(str(folder / name) in line for name in DOUBLES) and " -p " in line:
                found.append(line)
    return found


def wait_for_nothing_left(folder: pathlib.Path) -> None:
    """Give test doubles that were ended a moment to be gone."""
    until = time.monotonic() + 2
    while left_behind(folder) and time.monotonic() < until:
        time.sleep(0.05)
