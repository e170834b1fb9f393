# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""ssh to the machines: with the lab's key and host keys, through ``lab proxy``, and nothing of the user's own set-up."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shlex
import subprocess

from . import devices, keys
from .paths import PROGRAM, control_dir, run_dir
from .state import State


def known_hosts() -> pathlib.Path:
    """Return the path of the lab's list of host keys."""
    return run_dir() / "known_hosts"


def known_hosts_text(host_keys: dict[str, str], numbers: range) -> str:
    """Return the list of host keys: they came over the machines' serial ports, so nothing has to be trusted."""
    lines = [
        f"{devices.node_name(number)},{devices.address(number)} {host_keys[devices.node_name(number)]}"
        for number in numbers
        if devices.node_name(number) in host_keys
    ]
    return "\n".join([*lines, ""])


def proxy_command() -> str:
    """Return the ProxyCommand: a shell command in which ssh replaces %h and %p."""
    return f"{shlex.quote(str(PROGRAM)).replace('%', '%%')} proxy %h %p"


def config_path(path: str) -> str:
    """Return a path as ssh's options take it, which know blanks as separators and % as a sign of their own."""
    path = path.replace("%", "%%")
    return f'"{path}"' if any(sign.isspace() for sign in path) else path


def options() -> list[str]:
    """Return the options that every connection of the lab has."""
    return [
        "-o", f"ProxyCommand={proxy_command()}",
        "-o", f"UserKnownHostsFile={config_path(str(known_hosts()))}",
        "-o", "GlobalKnownHostsFile=/dev/null",
        "-o", "StrictHostKeyChecking=yes",
        "-o", "IdentitiesOnly=yes",
    ]


def command(number: int, remote: list[str], user: str = "root") -> list[str]:
    """Build the command line of a connection to a machine."""
    multiplex = [
        "-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-o", f"ControlPath={control_dir()}/lab-{user}-{number}",
        "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=4", "-o", "LogLevel=ERROR",
    ]
    return [
        "ssh", "-F", "/dev/null", "-i", str(keys.private_key()), *options(), *multiplex,
        f"{user}@{devices.address(number)}", *(["--", *remote] if remote else []),
    ]


def run(number: int, script: str, timeout: float) -> subprocess.CompletedProcess[str]:
    """Run a shell script on a machine as root."""
    return subprocess.run(command(number, ["sh", "-s"]), input=script, capture_output=True, text=True, timeout=timeout, check=False)


def write_known_hosts(state: State) -> None:
    """Write the list of host keys."""
    part = known_hosts().with_suffix(".part")
    part.write_text(known_hosts_text(state.host_keys, state.wiring.numbers), encoding="ascii")
    os.replace(part, known_hosts())


def drop_connections() -> None:
    """End all multiplexed connections: after a snapshot is loaded, the machine's end of them is no more."""
    for path in control_dir().iterdir():
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(
                ["ssh", "-F", "/dev/null", "-o", f"ControlPath={path}", "-O", "exit", "lab"],
                stdin=subprocess.DEVNULL, capture_output=True, timeout=2, check=False,
            )
        path.unlink(missing_ok=True)
