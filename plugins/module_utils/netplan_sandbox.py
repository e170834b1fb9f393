# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Try a netplan file on a copy of the node's whole configuration, before anything is written.

netplan merges /etc/netplan, /run/netplan and /lib/netplan (a desktop's choice of renderer lives in the last), so all three are
copied. ``netplan generate`` and ``netplan get`` take ``--root-dir``; neither touches the live system then.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils import netplan_yaml
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import Runner

DIRECTORIES = ("usr/lib/netplan", "etc/netplan", "run/netplan")
DEADLINE_SECONDS = 60


class NetplanError(RuntimeError):
    """netplan is missing, or rejects the configuration; the text is what it said."""


def error_text(standard_error: str) -> str:
    """Return netplan's error without its warnings and Python traces, which it prints on the same stream."""
    lines = [line for line in standard_error.splitlines() if line.strip() and "WARNING **" not in line]
    for number, line in enumerate(lines):
        if "Error in network definition" in line or ": Error " in line or "Invalid YAML" in line:
            return "\n".join(lines[number:]).replace("netplan.libnetplan.LibNetplanException: ", "").strip()
    return "\n".join(lines).strip() or standard_error.strip()


def _ask(run: Runner, subcommand: str, directory: str) -> str:
    done = run(["netplan", subcommand, "--root-dir", directory], timeout=DEADLINE_SECONDS)
    if not done.found:
        raise NetplanError("netplan is not installed: install the package netplan.io")
    if done.rc != 0:
        # The person knows the node's paths, not the copy's.
        text = error_text(done.err or done.out).replace(directory.rstrip("/") + "/", "/")
        raise NetplanError(text or f"netplan {subcommand} ended with status {done.rc}")
    return done.out


# What may configure an interface besides netplan. Files that netplan made from its own follow from those.
BESIDE = (("etc/NetworkManager/system-connections", "*"), ("etc/systemd/network", "*.network"))


def others_digest(own: str, root: str = "/") -> str:
    """Return one SHA-256 over the names and bytes of all files that configure networks, except ``own``: whether others changed since."""
    total = hashlib.sha256()
    for name, pattern in (*((name, "*.yaml") for name in DIRECTORIES), *BESIDE):
        directory = pathlib.Path(root) / name
        for file in sorted(directory.glob(pattern)) if directory.is_dir() else ():
            path = f"/{name}/{file.name}"
            if path != own:
                with contextlib.suppress(FileNotFoundError):
                    total.update(f"{path}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return total.hexdigest()


class Sandbox:
    """A copy of a node's netplan directories, in a private temporary directory."""

    def __init__(self, run: Runner, directory: pathlib.Path, root: str = "/") -> None:
        self.run = run
        self.directory = directory
        self.root = pathlib.Path(root)
        for name in DIRECTORIES:
            target = directory / name
            target.mkdir(parents=True, mode=0o700)
            source = pathlib.Path(root) / name
            for file in sorted(source.glob("*.yaml")) if source.is_dir() else ():
                # Follows links: what counts is what netplan would read.
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(file, target / file.name)
                    os.chmod(target / file.name, 0o600)
        os.symlink("usr/lib", directory / "lib")

    def place(self, path: str, content: str | bytes | None) -> None:
        """Write ``content`` where the node has ``path``; ``None`` takes the file away."""
        target = self.directory / path.lstrip("/")
        if content is None:
            with contextlib.suppress(FileNotFoundError):
                target.unlink()
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        os.chmod(target, 0o600)

    def generate(self) -> None:
        """Let netplan make its backends' files below the copy.

        Raises:
            NetplanError: netplan rejects the configuration.
        """
        _ask(self.run, "generate", str(self.directory))

    def tree(self) -> dict[str, t.Any]:
        """Return the merged configuration of the copy.

        Raises:
            NetplanError: netplan rejects the configuration, or prints what cannot be read.
        """
        return tree_of_text(_ask(self.run, "get", str(self.directory)))

    def content(self, path: str) -> bytes:
        """Return the bytes of a file of the copy, empty when it is not there."""
        with contextlib.suppress(FileNotFoundError):
            return (self.directory / path.lstrip("/")).read_bytes()
        return b""

    def files(self) -> list[str]:
        """Return the paths of all files of the copy, as the node names them."""
        return [f"/{name}/{file.name}" for name in DIRECTORIES for file in sorted((self.directory / name).glob("*.yaml"))]


@contextlib.contextmanager
def sandbox(run: Runner, root: str = "/") -> t.Iterator[Sandbox]:
    """Give a copy of the node's netplan directories for a while."""
    with tempfile.TemporaryDirectory(prefix="dgxspark-fabric-") as directory:
        yield Sandbox(run, pathlib.Path(directory), root)


def text_of_one_file(run: Runner, content: bytes, known: t.Collection[str] = ()) -> tuple[str, bool]:
    """Return what ``netplan get`` prints of a single file on its own, and whether ``known`` had to be defined beside it.

    Args:
        run: Runs a command.
        content: The file's bytes.
        known: Ethernet interfaces that other files define. Where the file builds upon them (a bond), they are defined beside it.

    Raises:
        NetplanError: The file alone is not valid.
    """
    with tempfile.TemporaryDirectory(prefix="dgxspark-fabric-") as directory:
        target = pathlib.Path(directory) / "etc/netplan"
        target.mkdir(parents=True)
        (target / "one.yaml").write_bytes(content)
        os.chmod(target / "one.yaml", 0o600)
        try:
            return _ask(run, "get", directory), False
        except NetplanError as exc:
            if not known or "is not defined" not in str(exc):
                raise
        beside = "".join(f"    {json.dumps(name)}: {{}}\n" for name in sorted(known))
        (target / "beside.yaml").write_text(f"network:\n  ethernets:\n{beside}", encoding="utf-8")
        os.chmod(target / "beside.yaml", 0o600)
        return _ask(run, "get", directory), True


def tree_of_text(text: str) -> dict[str, t.Any]:
    """Return the tree of what ``netplan get`` printed.

    Raises:
        NetplanError: It cannot be read.
    """
    try:
        return netplan_yaml.parse(text)
    except netplan_yaml.NetplanYamlError as exc:
        raise NetplanError(f"netplan get: {exc}") from exc
