# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is asked for on a node, and what validating it found: plain records."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.dgxspark.fabric.plugins.module_utils.foreign_settings import Survey
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_tree import Planned

MARK = "dgxspark.fabric"


@dataclass(frozen=True)
class Request:
    """What the module was asked for."""

    node: str
    path: str
    content: bytes
    planned: tuple[Planned, ...]
    arp: bool = True
    sysctl_path: str = ""
    foreign: str = "refuse"
    force_busy: bool = False
    management_interface: str | None = None
    management_address: str | None = None
    timeout: float = 90.0
    confirm_seconds: float = 0.0
    validated: str = ""  # digest of everything else that configures networks, when it was validated
    networks: tuple[str, ...] = ()  # every network of the plan, on any node


@dataclass
class Verdict:
    """Why the node must not be changed (``problems``), what is worth saying (``warnings``), and what others set (``survey``)."""

    problems: list[dict[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    survey: Survey = field(default_factory=Survey)
    configured: dict[str, t.Any] = field(default_factory=dict)  # the merged configuration as it is

    def refuse(self, identifier: str, message: str) -> None:
        """Add a problem with a stable name."""
        self.problems.append({"id": identifier, "message": message})
