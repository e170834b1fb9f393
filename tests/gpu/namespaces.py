# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Nodes on one machine: namespaces with a name, a network, processes, a /run and a /root of their own, an sshd in each.

For one GPU and several ranks, and wherever real machines are too slow for a test of launching. Needs root, ip (iproute2), sshd and a kernel with veth.
Nothing outside the namespaces is changed but a bridge, and that goes with the last node.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import shutil
import signal
import subprocess
import time

BRIDGE = "fabricgpu0"
INTERFACE = "enP7s7"
NETWORK = "10.99.77"
#: Folders of a node that start as copies of these and are its own from then on.
PRIVATE = ("/run", "/tmp", "/root", "/var/tmp")


class NamespaceError(Exception):
    """A node cannot be made; the text says what is missing."""


def call(*arguments: str) -> str:
    """Run a program and return its output.

    Raises:
        NamespaceError: it failed.
    """
    done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NamespaceError(f"{' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip() or done.returncode}")
    return done.stdout


@dataclasses.dataclass
class Node:
    """One node: name, address, and the process that its namespaces belong to (as seen from outside)."""

    name: str
    address: str
    folder: pathlib.Path
    pid: int = 0

    def run(self, command: str, check: bool = True) -> str:
        """Run a shell command on the node and return its output."""
        done = subprocess.run(
            ["nsenter", "-t", str(self.pid), "-n", "-u", "-m", "-p", "sh", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if check and done.returncode:
            raise NamespaceError(f"{command} on {self.name}: {done.stderr or done.stdout}")
        return done.stdout


class Cluster:
    """Some nodes, the controller's key for them, and an inventory."""

    def __init__(self, folder: pathlib.Path, count: int) -> None:
        self.folder = folder
        self.key = folder / "key"
        self.nodes = [Node(f"spark{number}", f"{NETWORK}.{number}", folder / f"spark{number}") for number in range(1, count + 1)]
        self._processes: list[subprocess.Popen[bytes]] = []

    def up(self) -> None:
        """Make the nodes.

        Raises:
            NamespaceError: something is missing or fails.
        """
        for program in ("ip", "unshare", "nsenter", "ssh", "ssh-keygen", "/usr/sbin/sshd"):
            if shutil.which(program) is None:
                raise NamespaceError(f"{program} is not installed")
        if os.geteuid() != 0:
            raise NamespaceError("namespaces with processes of their own need root")
        self.folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key))
        call("ip", "link", "add", BRIDGE, "type", "bridge")
        call("ip", "addr", "add", f"{NETWORK}.254/24", "dev", BRIDGE)
        call("ip", "link", "set", BRIDGE, "up")
        for node in self.nodes:
            self._prepare(node)
        known = "".join(f"{node.address} {(node.folder / 'root/sshd/host.pub').read_text(encoding='utf-8')}" for node in self.nodes)
        (self.folder / "known_hosts").write_text(known, encoding="utf-8")
        for node in self.nodes:
            (node.folder / "root/.ssh/known_hosts").write_text(known, encoding="utf-8")
            self._start(node)
        for node in self.nodes:
            self._wait(node)

    def _prepare(self, node: Node) -> None:
        for path in PRIVATE:
            (node.folder / path.strip("/").replace("/", "_")).mkdir(parents=True, mode=0o755)
        (node.folder / "cgroup").mkdir()
        ssh = node.folder / "root/sshd"
        ssh.mkdir()
        call("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(ssh / "host"))
        (ssh / "sshd_config").write_text(
            f"ListenAddress {node.address}\nHostKey /root/sshd/host\nPermitRootLogin prohibit-password\nUsePAM no\nStrictModes no\nPidFile none\n"
            "Subsystem sftp internal-sftp\nMaxStartups 100\n",
            encoding="utf-8",
        )
        home = node.folder / "root"
        (home / ".ssh").mkdir(mode=0o700)
        shutil.copy(self.key, home / ".ssh/id_ed25519")
        (home / ".ssh/id_ed25519").chmod(0o600)
        shutil.copy(f"{self.key}.pub", home / ".ssh/authorized_keys")
        (node.folder / "tmp").chmod(0o1777)
        (node.folder / "run/sshd").mkdir()

    def _start(self, node: Node) -> None:
        mounts = " && ".join(f"mount --bind {node.folder}/{path.strip('/').replace('/', '_')} {path}" for path in PRIVATE)
        # The folder itself may lie below one of the mounts: it is entered before they hide it.
        # A sysfs of the node's own network hides the control groups, which container engines need.
        script = (
            f"ulimit -l unlimited; echo {node.name} >/proc/sys/kernel/hostname && cd {node.folder} && {mounts} && "
            f"mount --rbind /sys/fs/cgroup {node.folder}/cgroup && mount -t sysfs sysfs /sys && "
            f"mount --rbind {node.folder}/cgroup /sys/fs/cgroup && umount -l {node.folder}/cgroup && ip link set lo up && "
            f"until ip link show {INTERFACE} >/dev/null 2>&1; do sleep 0.05; done && ip addr add {node.address}/24 dev {INTERFACE} && "
            f"ip link set {INTERFACE} up && exec /usr/sbin/sshd -D -e -f /root/sshd/sshd_config"
        )
        log = (node.folder / "sshd.log").open("wb")
        process = subprocess.Popen(
            ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()
        self._processes.append(process)
        until = time.monotonic() + 10
        while not node.pid and time.monotonic() < until:
            children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()
            node.pid = int(children[0]) if children else 0
            time.sleep(0.02)
        if not node.pid:
            raise NamespaceError(f"{node.name} did not start: {(node.folder / 'sshd.log').read_text(encoding='utf-8', errors='replace').strip() or 'no word'}")
        here, there = f"fgpu{node.address.rpartition('.')[2]}", INTERFACE
        call("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", str(node.pid))
        call("ip", "link", "set", here, "master", BRIDGE, "up")

    def _wait(self, node: Node) -> None:
        until = time.monotonic() + 20
        while time.monotonic() < until:
            if subprocess.run(self.ssh(node, "true"), stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0:
                return
            time.sleep(0.2)
        raise NamespaceError(f"sshd of {node.name} does not answer:\n{(node.folder / 'sshd.log').read_text(encoding='utf-8', errors='replace')}")

    def ssh(self, node: Node, command: str) -> list[str]:
        """Return the command that runs another on a node over ssh."""
        known = f"UserKnownHostsFile={self.folder / 'known_hosts'}"
        return ["ssh", "-i", str(self.key), "-o", known, "-o", "BatchMode=yes", f"root@{node.address}", command]

    def inventory(self, variables: str) -> pathlib.Path:
        """Write an inventory of the nodes; ``variables`` are lines of YAML for all of them."""
        hosts = "".join(f"    {node.name}:\n      ansible_host: {node.address}\n" for node in self.nodes)
        path = self.folder / "hosts.yml"
        path.write_text(
            f"spark:\n  hosts:\n{hosts}  vars:\n    ansible_user: root\n    ansible_ssh_private_key_file: {self.key}\n"
            f"    ansible_ssh_extra_args: -o UserKnownHostsFile={self.folder / 'known_hosts'}\n    fabric_cluster_name: namespaces\n"
            + "".join(f"    {line}\n" for line in variables.splitlines()),
            encoding="utf-8",
        )
        return path

    def down(self) -> None:
        """End everything on the nodes and remove them."""
        for process in self._processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        for node in self.nodes:
            subprocess.run(["ip", "link", "del", f"fgpu{node.address.rpartition('.')[2]}"], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)
