# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes as network namespaces, cables as bridges between them: both twins of both ends on one wire, as on a real cable."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[4]
RAILS = {"a": "enp1s0f{0}np{0}", "b": "enP2p1s0f{0}np{0}"}
# Bit 14: bridges forward LLDP's group address only when told to; a cable passes it, a switch does not.
LLDP_FORWARD = "0x4000"

DRIVER = """
import json, sys
from ansible.module_utils.testing import patch_module_args
from ansible_collections.dgxspark.fabric.plugins.modules import link_probe
with patch_module_args(json.load(sys.stdin)):
    link_probe.main()
"""


def usable() -> bool:
    """Tell whether this process may make network namespaces."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    name = f"dgxf{os.getpid()}t"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
    if done.returncode == 0:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return done.returncode == 0


class Wires:
    """Namespaces of a test; ``close`` removes them all."""

    def __init__(self, folder: pathlib.Path, nodes: t.Sequence[str], cables: t.Sequence[tuple[str, ...]]) -> None:
        """Join plugs such as ``spark1:0``: a tuple of two is a cable, one with "switch" first is a switch with all the others."""
        self.folder = folder
        self.prefix = f"dgxf{os.getpid()}"
        self.nodes = list(nodes)
        self._made: list[str] = []
        site = folder / "collections/ansible_collections/dgxspark/fabric"
        site.parent.mkdir(parents=True)
        site.symlink_to(ROOT)
        for name in ["wires", *nodes]:
            self.ip("netns", "add", self.space(name))
            self._made.append(name)
        for node in nodes:
            for port in (0, 1):
                for rail, pattern in RAILS.items():
                    self.ip("-n", self.space("wires"), "link", "add", self.tap(f"{node}:{port}", rail), "type", "veth",
                            "peer", "name", pattern.format(port), "netns", self.space(node))
                    self.ip("-n", self.space(node), "link", "set", pattern.format(port), "up")
        for place, ends in enumerate(cables):
            bridge, forward = f"br{place}", "0" if ends[0] == "switch" else LLDP_FORWARD
            self.ip("-n", self.space("wires"), "link", "add", bridge, "type", "bridge", "mcast_snooping", "0", "group_fwd_mask", forward)
            self.ip("-n", self.space("wires"), "link", "set", bridge, "up")
            for plug in ends:
                if plug != "switch":
                    self.plug(plug, bridge)

    def space(self, name: str) -> str:
        """Return the namespace of a node, or of the wires."""
        return f"{self.prefix}{name}"

    def tap(self, plug: str, rail: str) -> str:
        """Return the far end of an interface."""
        node, port = plug.split(":")
        return f"t{self.nodes.index(node)}p{port}{rail}"

    def ip(self, *words: str) -> None:
        """Run ip."""
        subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)

    def plug(self, plug: str, bridge: str) -> None:
        """Put both twins of a port on a wire."""
        for rail in RAILS:
            self.ip("-n", self.space("wires"), "link", "set", self.tap(plug, rail), "master", bridge, "up")

    def add_management(self, node: str, address: str) -> None:
        """Give a node a management interface."""
        far = f"m{self.nodes.index(node)}"
        self.ip("-n", self.space("wires"), "link", "add", far, "up", "type", "veth", "peer", "name", "enP7s7", "netns", self.space(node))
        self.ip("-n", self.space(node), "address", "add", address, "dev", "enP7s7")
        self.ip("-n", self.space(node), "link", "set", "enP7s7", "up")

    def down(self, node: str, interface: str) -> None:
        """Switch an interface off."""
        self.ip("-n", self.space(node), "link", "set", interface, "down")

    def is_up(self, node: str, interface: str) -> bool:
        """Tell whether an interface is switched on."""
        done = subprocess.run(["ip", "-n", self.space(node), "-j", "link", "show", interface], check=True, capture_output=True, text=True, timeout=20)
        return "UP" in json.loads(done.stdout)[0]["flags"]

    def cut_rail(self, plug: str, rail: str) -> None:
        """Take the carrier from one twin."""
        self.ip("-n", self.space("wires"), "link", "set", self.tap(plug, rail), "down")

    def start(self, node: str, **options: t.Any) -> dict[str, t.Any]:
        """Start the module on a node and return its result."""
        arguments = {"run": "testrun1", "cluster": "lab", "node": node, "state_directory": str(self.folder / node), "window_seconds": 60, **options}
        path = os.pathsep.join([str(self.folder / "collections"), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            ["ip", "netns", "exec", self.space(node), sys.executable, "-c", DRIVER], input=json.dumps(arguments), env=environment, capture_output=True,
            text=True, timeout=60, check=False)
        return json.loads(done.stdout)

    def shell(self, command: str) -> str:
        """Run a shell command (files are the same in every namespace)."""
        return subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=90, check=False).stdout

    def close(self) -> None:
        """Remove everything; probes that still run end with their window."""
        for name in self._made:
            subprocess.run(["ip", "netns", "del", self.space(name)], capture_output=True, check=False)
