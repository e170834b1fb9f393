# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory of the lab as text: ``inventories/lab/hosts.yml`` and ``group_vars/spark.yml``."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
from typing import Any

from . import devices, keys, ssh
from .paths import control_dir, inventory_dir
from .wiring import SWITCH, Wiring

HEADER = "# Written by tests/lab/lab up; changes are lost.\n"
# Emulated machines share processors, so results scatter: below this part of the calibration something is broken.
LEAST_PERCENT = 40
# More tests at once would share two processors too unevenly for a verdict on each.
MOST_AT_ONCE = 2
# An emulated machine may take longer than perftest's 67 ms to acknowledge a packet: 4.096 us x 2^20 = 4.3 s.
QP_TIMEOUT = 20
RATE_RULES = ("rdma.rail_bandwidth", "rdma.rail_bidirectional", "rdma.cable_bandwidth")
#: Rules that only warn, and whose figures scatter as much.
WARNING_RULES = ("rdma.read_bandwidth", "rdma.send_bandwidth", "tcp.rail_bandwidth", "tcp.dispersion")
#: Rules that compare what shared processors make incomparable: latencies, one rail with two, and a test among others with the same alone.
IDLE_RULES = ("rdma.outlier", "rdma.latency", "rdma.jitter", "rdma.unsteady", "tcp.no_gain")


def scalar(value: Any) -> str:
    """Return a YAML scalar: JSON's form is one."""
    return json.dumps(value)


def hosts_text(wiring: Wiring) -> str:
    """Return hosts.yml."""
    lines = [HEADER + "spark:", "  hosts:"]
    for number in wiring.numbers:
        lines.append(f"    {devices.node_name(number)}:")
        lines.append(f"      ansible_host: {devices.address(number)}")
        lines.append(f"      fabric_node_number: {number}")
        ports = sorted(end.port for end in wiring.cabled() if end.node == number)
        if wiring.topology == "custom":
            lines.append(f"      fabric_ports: {scalar(ports)}")
    return "\n".join([*lines, ""])


def ssh_common_args(known_hosts: str, proxy_command: str) -> str:
    """Return ansible_ssh_common_args: split by shell rules by Ansible, the proxy command once more by ssh's shell."""
    words = [
        "-o", f"ProxyCommand={proxy_command}", "-o", f"UserKnownHostsFile={ssh.config_path(known_hosts)}", "-o", "GlobalKnownHostsFile=/dev/null",
        "-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes",
    ]
    return " ".join(shlex.quote(word) for word in words)


def group_text(wiring: Wiring, paths: dict[str, str], calibration: dict[str, dict[str, float]]) -> str:
    """Return group_vars/spark.yml.

    Args:
        paths: ``known_hosts``, ``private_key``, ``control_dir`` and ``proxy_command``.
        calibration: ``directed`` and ``bidirectional``: tests at once in the cluster -> Gb/s of each.
    """
    lines = [
        HEADER + "ansible_user: root",
        "ansible_python_interpreter: /usr/bin/python3",
        f"ansible_ssh_private_key_file: {scalar(paths['private_key'])}",
        f"ansible_ssh_common_args: {scalar(ssh_common_args(paths['known_hosts'], paths['proxy_command']))}",
        f"ansible_control_path_dir: {scalar(paths['control_dir'])}",
        "",
        "# The machines have no internet, and nothing to build with in their image.",
        "packages_build_names: []",
        "fabric_cluster_name: lab",
        f"fabric_topology: {wiring.topology}",
    ]
    if wiring.topology in ("pair", "switch"):
        lines.append("fabric_ports: [1]")
    elif wiring.topology in ("mesh", "ring"):
        lines.append("fabric_ports: [0, 1]")
    else:
        lines.append("fabric_cables:")
        for cable in wiring.cables:
            lines.append(f"  - {{a: {scalar(str(cable.a))}, b: {scalar(str(cable.b) if cable.b else SWITCH)}}}")
    if wiring.order:
        lines.append(f"fabric_ring_order: {scalar([devices.node_name(number) for number in wiring.order])}")
    lines += rate_lines(calibration)
    return "\n".join([*lines, ""])


def rate_lines(calibration: dict[str, dict[str, float]]) -> list[str]:
    """Return the expected rates and how far a result may fall below them."""
    if not calibration:
        return []
    lines = ["", "# Measured on this host by lab calibrate: number of tests at once in the cluster -> Gb/s of each."]
    for name, kind in (("fabric_rail_gbps", "directed"), ("fabric_rail_bidirectional_gbps", "bidirectional")):
        if calibration.get(kind):
            lines.append(f"{name}:")
            lines += [f"  {count}: {rate}" for count, rate in sorted(calibration[kind].items(), key=lambda item: int(item[0]))]
    lines += ["# Emulated machines acknowledge late, and share processors.", f"fabric_test_qp_timeout: {QP_TIMEOUT}",
              f"fabric_max_concurrent_tests: {MOST_AT_ONCE}"]
    lines += ["# Two tests at a time make many rounds: of what follows the screening, a sample of each kind.",
              "fabric_rdma_tests: [latency]", "fabric_latency_iterations: 200", "fabric_iperf3_streams: [4]", "fabric_iperf3_seconds: 1"]
    lines.append("# Percent of the expected rate: machines that share processors scatter.")
    lines.append("fabric_rules:")
    lines += [f"  - {{id: {rule}, warn: {LEAST_PERCENT}, fail: {LEAST_PERCENT}}}" for rule in RATE_RULES]
    lines += [f"  - {{id: {rule}, warn: {LEAST_PERCENT}}}" for rule in WARNING_RULES]
    lines += [f"  - {{id: {rule}, enabled: false}}" for rule in IDLE_RULES]
    return lines


def write(wiring: Wiring, calibration: dict[str, dict[str, float]]) -> pathlib.Path:
    """Write the inventory and return its folder."""
    folder = inventory_dir()
    paths = {
        "known_hosts": str(ssh.known_hosts()),
        "private_key": str(keys.private_key()),
        "control_dir": str(control_dir()),
        "proxy_command": ssh.proxy_command(),
    }
    for name, text in (("hosts.yml", hosts_text(wiring)), ("group_vars/spark.yml", group_text(wiring, paths, calibration))):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)
    return folder
