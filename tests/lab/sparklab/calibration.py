# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What RDMA tests reach on this host: emulated machines share its processors, so the figure depends on how many run.

Every number of tests at once that a plan's rounds use is measured with the tools of the product: ``ib_write_bw`` on all
those rails at once. Addresses are temporary and vanish with the snapshot that is loaded afterwards.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import time

from . import devices, machines, snapshots, ssh
from .errors import LabError
from .inventory import MOST_AT_ONCE, QP_TIMEOUT
from .progress import say, step
from .state import State
from .wiring import End, Wiring

SECONDS = 3
PORT = 18700
ATTEMPTS = 3
# Tests that share processors scatter: the least of so many runs is what each of them can be expected to reach.
REPEATS = 2


@dataclasses.dataclass(frozen=True)
class Test:
    """One ib_write_bw: data goes from ``client`` to ``server`` on one rail (both ways when bidirectional)."""

    client: End
    server: End
    rail: str
    bidirectional: bool = False


def switch_segments(wiring: Wiring) -> list[list[End]]:
    """Return the switch's ports by segment: the k-th port that a node has on the switch is in segment k."""
    segments: list[list[End]] = []
    for number in wiring.numbers:
        for place, cable in enumerate(cable for cable in wiring.cables if cable.b is None and cable.a.node == number):
            if place == len(segments):
                segments.append([])
            segments[place].append(cable.a)
    return segments


def links(wiring: Wiring) -> list[tuple[End, End]]:
    """Return the pairs of ports that exchange data: one for each cable, and neighbours round each switch segment."""
    found = [(cable.a, cable.b) for cable in wiring.cables if cable.b]
    for ends in switch_segments(wiring):
        if len(ends) > 1:
            found += [(ends[place], ends[(place + 1) % len(ends)]) for place in range(len(ends))]
    return found


def one_way(wiring: Wiring) -> list[tuple[End, End]]:
    """Return the directed links of one round: each node sends on one port at most and receives on one."""
    # On a ring port 0 is joined to port 1 of the next: from there the data goes round.
    forward = [(b, a) if (a.port, b.port) == (1, 0) else (a, b) for a, b in links(wiring)]
    chosen: list[tuple[End, End]] = []
    for sender, receiver in [*forward, *((b, a) for a, b in forward)]:
        if all(sender.node != other.node and receiver.node != far.node for other, far in chosen):
            chosen.append((sender, receiver))
    return chosen


def both_ways(wiring: Wiring) -> list[Test]:
    """Return the tests of one bidirectional round: one a node and rail, one a port; so rails run on different cables."""
    tests: list[Test] = []
    for rail in devices.RAILS:
        for a, b in links(wiring):
            ends = {a, b}
            nodes = {a.node, b.node}
            wires = {end for test in tests for end in (test.client, test.server)}
            busy = {end.node for test in tests if test.rail == rail for end in (test.client, test.server)}
            if not ends & wires and not nodes & busy:
                tests.append(Test(a, b, rail, True))
    return tests


def stages(wiring: Wiring) -> list[list[Test]]:
    """Return the groups of tests to run at once.

    One alone, as many as the inventory allows at once, as many as a plan's rounds have without that limit; then both ways.
    """
    directed = one_way(wiring)
    if not directed:
        return []
    alone = [Test(*directed[0], "a")]
    every = [Test(*pair, rail) for pair in directed for rail in devices.RAILS]
    both = both_ways(wiring)
    groups = [alone, every[:MOST_AT_ONCE], every, both[:MOST_AT_ONCE], both]
    return [group for place, group in enumerate(groups) if group not in groups[:place]]


def fabric_address(end: End, rail: str, wiring: Wiring) -> str:
    """Return the temporary address of an interface: one network a cable (or the switch) and rail."""
    cable = wiring.cabled()[end]
    if cable.b is None:
        place = next(k for k, ends in enumerate(switch_segments(wiring)) if end in ends) + 100
    else:
        place = wiring.cables.index(cable)
    return f"172.30.{place * 2 + devices.RAILS.index(rail)}.{end.node}"


def prepare_script(wiring: Wiring, node: int) -> str:
    """Return the shell script that gives a node its temporary addresses and waits for their GIDs."""
    lines = ["set -e"]
    wait = []
    for end in sorted(end for end in wiring.cabled() if end.node == node):
        for rail in devices.RAILS:
            name = devices.INTERFACES[end.port, rail]
            lines.append(f"sysctl -qw net.ipv4.conf.{name}.arp_ignore=1 net.ipv4.conf.{name}.arp_announce=2")
            lines.append(f"ip link set {name} mtu 9000 up")
            lines.append(f"ip address add {fabric_address(end, rail, wiring)}/24 dev {name}")
            wait.append(f"until {gid_test(end.port, rail)}; do sleep 0.1; done")
    return "\n".join([*lines, *wait, ""])


def gid_test(port: int, rail: str) -> str:
    """Return the shell command that succeeds once a device has the GID of an IPv4 address."""
    return f"grep -q '^0000:0000:0000:0000:0000:ffff:' /sys/class/infiniband/{devices.RDMA_DEVICES[port, rail]}/ports/1/gids/*"


def tool_command(test: Test, end: End, port: int) -> str:
    """Return one end's command; the GID index is looked up, since it differs between devices."""
    device = devices.RDMA_DEVICES[end.port, test.rail]
    index = f"$(grep -l '^0000:0000:0000:0000:0000:ffff:' /sys/class/infiniband/{device}/ports/1/gids/* | head -1 | sed 's/.*[/]//')"
    both = " -b" if test.bidirectional else ""
    return f"timeout {SECONDS + 25} ib_write_bw -d {device} -x {index} -p {port} -D {SECONDS} --report_gbits -F -u {QP_TIMEOUT}{both}"


def server_script(tests: list[tuple[int, Test]], node: int) -> str | None:
    """Return the script that starts a node's servers and says LISTENING when all do; None when it has none."""
    mine = [(port, test) for port, test in tests if test.server.node == node]
    if not mine:
        return None
    lines = [f"{tool_command(test, test.server, port)} >/dev/null 2>&1 &" for port, test in mine]
    lines += [f"until grep -qi ':{port:04X} [0-9A-F:]* 0A' /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done" for port, _test in mine]
    return "\n".join([*lines, "echo LISTENING", "wait", ""])


def client_script(tests: list[tuple[int, Test]], node: int) -> str | None:
    """Return the script that runs a node's clients at once and prints their results; None when it has none."""
    mine = [(port, test) for port, test in tests if test.client.node == node]
    if not mine:
        return None
    # A file each: the texts of two tools on one pipe run into each other.
    lines = ["cd $(mktemp -d)"]
    lines += [f"{tool_command(test, test.client, port)} {devices.address(test.server.node)} >{port} 2>&1 &" for port, test in mine]
    return "\n".join([*lines, "wait", 'for name in *; do echo "== $name"; cat "$name"; done', ""])


def parse_rates(output: str) -> list[float]:
    """Return the average bandwidths (Gb/s) of the result rows in perftest's output."""
    return [float(found) for found in re.findall(r"^\s*65536\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$", output, re.MULTILINE)]


def silent_tests(output: str) -> str:
    """Return the first words (errors stand before the header) of the tests that printed no result."""
    texts = re.split(r"^== (?=\d+$)", output, flags=re.MULTILINE)[1:]
    return " | ".join(text.strip()[:300] for text in texts if not any(parse_rates(text))) or "nothing"


def run_stage(state: State, group: list[Test]) -> list[float]:
    """Run a group of tests at once and return their bandwidths in Gb/s.

    Raises:
        LabError: a test gave no bandwidth.
    """
    numbered = [(PORT + place, test) for place, test in enumerate(group)]
    servers: dict[int, subprocess.Popen[str]] = {}
    clients: dict[int, subprocess.Popen[str]] = {}
    try:
        for node in state.wiring.numbers:
            script = server_script(numbered, node)
            if script:
                servers[node] = begin(node, script)
        for node, process in servers.items():
            line = process.stdout.readline() if process.stdout else ""
            if line.strip() != "LISTENING":
                raise LabError(f"calibration: the servers on {devices.node_name(node)} did not start: {line.strip() or 'no answer'}")
        for node in state.wiring.numbers:
            script = client_script(numbered, node)
            if script:
                clients[node] = begin(node, script)
        output = "".join(process.communicate(timeout=SECONDS + 60)[0] for process in clients.values())
        for process in servers.values():
            process.communicate(timeout=SECONDS + 60)
    except subprocess.TimeoutExpired as error:
        raise LabError(f"calibration: {len(group)} tests did not end in time") from error
    finally:
        for process in [*servers.values(), *clients.values()]:
            process.kill()
            process.wait()
    rates = parse_rates(output)
    if len(rates) != len(group) or not all(rates):
        raise LabError(f"calibration: {len(group)} tests gave the rates {rates}; the others said: {silent_tests(output)}")
    return rates


def run_patiently(state: State, group: list[Test]) -> list[float]:
    """Run a group again when a test of it fails: a machine short of processor time loses a connection now and then.

    Raises:
        LabError: it failed each time.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return run_stage(state, group)
        except LabError as error:
            if attempt == ATTEMPTS:
                raise
            say(f"  once more: {error}")
    return []


def begin(node: int, script: str) -> subprocess.Popen[str]:
    """Start a script on a node."""
    process = subprocess.Popen(
        ssh.command(node, ["sh", "-s"]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    if process.stdin:
        process.stdin.write(script)
        process.stdin.close()
        process.stdin = None
    return process


def measure(state: State) -> dict[str, dict[str, float]]:
    """Measure all stages on the machines as they run now; they keep the temporary addresses.

    Raises:
        LabError: a stage gave no result, each time.
    """
    result: dict[str, dict[str, float]] = {"directed": {}, "bidirectional": {}}

    def prepare(node: int) -> None:
        done = ssh.run(node, prepare_script(state.wiring, node), 60)
        if done.returncode:
            raise LabError(f"calibration: {devices.node_name(node)} took no addresses: {done.stderr.strip()}")

    with step("calibration: what RDMA tests reach on this host"):
        machines.in_parallel(prepare, state.wiring.numbers)
        for group in stages(state.wiring):
            kind = "bidirectional" if group[0].bidirectional else "directed"
            started = time.monotonic()
            runs = [run_patiently(state, group) for _run in range(REPEATS if len(group) > 1 else 1)]
            rate = min(rate for rates in runs for rate in rates)
            result[kind][str(len(group))] = float(f"{rate:.3g}")
            say(f"  {len(group)} {kind} at once: {rate:.3f} Gb/s at least ({time.monotonic() - started:.0f} s)")
    return result


def record_path(state: State) -> os.PathLike[str]:
    """Return where a wiring's calibration is kept: with the snapshots of the machines that it was measured on."""
    names = "+".join(cable.name for cable in state.wiring.cables).replace(":", ".").replace("spark", "")
    return snapshots.folder(state.snapshots) / f"calibration-{state.wiring.topology}-{state.wiring.nodes}-{names}.json"


def load(state: State) -> dict[str, dict[str, float]] | None:
    """Return the stored calibration of this wiring, or None."""
    try:
        with open(record_path(state), encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError):
        return None


def store(state: State, result: dict[str, dict[str, float]]) -> None:
    """Keep a calibration."""
    path = str(record_path(state))
    with open(f"{path}.part", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    os.replace(f"{path}.part", path)
