# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What taking the fabric's settings back would do on a node: the kept files, and what netplan leaves on the interfaces."""

from __future__ import annotations

import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils import live_state, managed_file
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import Runner
from ansible_collections.dgxspark.fabric.plugins.module_utils.live_state import Live
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_compare import NETPLAN_MODE, Comparison, WantedFile
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_sandbox import NetplanError, sandbox
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_tree import Planned
from ansible_collections.dgxspark.fabric.plugins.module_utils.provision_record import Record, digest


def planned_interfaces(record: Record) -> tuple[Planned, ...]:
    """Return the interfaces that were provisioned; their MTU before, where it is known."""
    original = record.original_live()
    return tuple(Planned(name, address, int(original.get(name, {}).get("mtu") or 1500)) for name, address in record.interfaces().items())


def wanted_files(record: Record) -> tuple[WantedFile, ...]:
    """Return every file that provisioning touched, as it was before.

    Raises:
        managed_file.FileError: A file is no plain file now, or its kept bytes are missing.
    """
    found = []
    for state in record.original_files():
        owner = (state.owner or 0, state.group or 0)
        found.append(WantedFile(managed_file.read(state.path), state.content, state.mode if state.mode is not None else NETPLAN_MODE, owner, adopted=True))
    return tuple(found)


def compare(record: Record, live: t.Mapping[str, Live]) -> Comparison:
    """Return everything that differs from the state before provisioning.

    Raises:
        managed_file.FileError: A file is no plain file now, or its kept bytes are missing.
    """
    return Comparison(wanted_files(record), tuple(live_state.restore_differences(record.original_live(), live, record.interfaces())))


def rejected(run: Runner, files: t.Iterable[WantedFile]) -> str | None:
    """Return why netplan does not accept the configuration as it was before; ``None`` when it does. A file that it rejects may have been adopted."""
    with sandbox(run) as copy:
        for file in files:
            if file.state.path.endswith(".yaml"):
                copy.place(file.state.path, file.content)
        try:
            copy.tree()
        except NetplanError as exc:
            return str(exc)
    return None


def edited(record: Record, files: t.Iterable[WantedFile]) -> list[str]:
    """Return the files that somebody changed since they were written: they are neither as written nor as before, and would be lost."""
    written = record.provisioned().get("files", {})
    return [file.state.path for file in files if digest(file.state.content) not in (written.get(file.state.path), digest(file.content))]
