# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The texts of ``nccl.env``, of the launch environment like it, and of the hostfile. Pure.

One assignment a line and whole-line comments: a shell reads that (``set -a; . nccl.env``), systemd (``EnvironmentFile=``), docker (``--env-file``), and a Slurm
prolog alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MARK = "# Managed by dgxspark.fabric"
"""How each file for a node begins; only files that begin so are ever removed."""


def environment_text(node: str, entries: Sequence[Mapping[str, Any]], title: str = "NCCL's environment", remarks: Sequence[str] = ()) -> str:
    """Return an environment of a node, each value with its reason above it; ``remarks`` are comments of one line below the title."""
    lines = [f"{MARK}: {title} on {node}", *(f"# {remark}" for remark in remarks)]
    for entry in entries:
        lines += [f"# {entry['reason']}", f"{entry['name']}={entry['value']}"]
    return "\n".join(lines) + "\n"


def hostfile_text(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the hostfile: one node an entry, in the order of the ranks."""
    lines = [f"{MARK}: hosts in NCCL's rank order, on management addresses"]
    for entry in entries:
        lines += [f"# {entry['node']}", f"{entry['address']} slots={entry['slots']}"]
    return "\n".join(lines) + "\n"
