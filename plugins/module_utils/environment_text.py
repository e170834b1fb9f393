# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read settings of NCCL and its relatives from text: env files, ``nccl.conf``, shell exports, output of ``env``. Pure.

Only the names listed here are kept. Whatever else stands in an environment, tokens included, is never looked at.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

PREFIXES = ("NCCL_", "UCX_", "OMPI_MCA_", "GLOO_", "MN_IF_NAME", "TP_SOCKET_IFNAME")
ASSIGNMENT = re.compile(r"^\s*(?:export\s+|-e\s+|Environment=\"?|-x\s+|- )?(?P<name>[A-Z][A-Z0-9_]{1,60})=(?P<value>[^\n]{0,400}?)\s*$", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """One setting; the last one of a name wins. ``empty`` is set with nothing behind the sign, which is not "unset"."""

    name: str
    value: str

    @property
    def empty(self) -> bool:
        """Tell whether it is set to nothing."""
        return self.value == ""


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceChoice:
    """What ``NCCL_IB_HCA`` means: ``names`` of devices, whether they are ``exact`` (``=``) or to be left out (``^``)."""

    names: tuple[str, ...]
    exact: bool
    excluded: bool


def parse(lines: t.Iterable[str]) -> dict[str, Setting]:
    """Return the settings by name; lines of other kinds are skipped."""
    found: dict[str, Setting] = {}
    for line in lines:
        match = ASSIGNMENT.match(line)
        if match and match["name"].startswith(PREFIXES):
            value = match["value"].strip()
            if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            else:
                value = value.partition(" #")[0].rstrip().rstrip('"')
            found[match["name"]] = Setting(match["name"], value)
    return found


def device_choice(value: str) -> DeviceChoice:
    """Return the devices that a value of ``NCCL_IB_HCA`` names: ``^`` leaves out, ``=`` is exact, ``:port`` is cut off."""
    excluded = value.startswith("^")
    value = value[1:] if excluded else value
    exact = value.startswith("=")
    value = value[1:] if exact else value
    names = [part.strip().partition(":")[0] for part in value.split(",")]
    return DeviceChoice(tuple(dict.fromkeys(name for name in names if name)), exact, excluded)
