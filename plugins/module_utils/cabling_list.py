# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read lists of cables and maps of layer 2: ``n1.p0-n2.p1``, ``spark1:0 spark2:1``, or host, interface, host, interface. Pure."""

from __future__ import annotations

import dataclasses
import re
import typing as t

END = r"(?P<{0}>[A-Za-z][\w-]{{0,62}})(?:\.p|:p?|\.port)(?P<{1}>[01])"
CABLE = re.compile(END.format("a", "pa") + r"\s*(?:-|--|<->|->|<-->|,|\s)\s*" + END.format("b", "pb") + r"(?![\w.])", re.ASCII)
MAP_ROW = re.compile(
    r"^\s*(?P<a>[A-Za-z][\w.-]{0,62})\s+(?P<ia>en\w{1,30})\s+(?P<b>[A-Za-z][\w.-]{0,62})\s+(?P<ib>en\w{1,30})(?:\s+(?P<speed>\d{1,7}))?\s*$", re.ASCII
)
#: ``rocep1s0f0:1`` is a device with its port, no end of a cable.
DEVICE_NAME = re.compile(r"(?:roce|mlx|ibp|enp|enP|eth)\w*", re.ASCII)
#: An interface of the fabric: domain 0000 is rail a, domain 0002 is rail b; the function is the port.
FABRIC_INTERFACE = re.compile(r"en(?P<domain>p1|P2p1)s0f(?P<port>[01])np[01]$", re.ASCII)


@dataclasses.dataclass(frozen=True, slots=True)
class Cable:
    """One cable, with the rails on which it was seen ("" where the list does not tell)."""

    node_a: str
    port_a: int
    node_b: str
    port_b: int
    rails: str = ""

    @property
    def name(self) -> str:
        """Return the cable's name."""
        return f"{self.node_a}:{self.port_a}-{self.node_b}:{self.port_b}"


def place(interface: str) -> tuple[int, str] | None:
    """Return port and rail of a fabric interface by its name, None for any other."""
    match = FABRIC_INTERFACE.match(interface)
    return (int(match["port"]), "a" if match["domain"] == "p1" else "b") if match else None


def cables(lines: t.Iterable[str]) -> list[Cable]:
    """Return the cables, each once; both rails of one cable are one entry."""
    found: dict[tuple[tuple[str, int], tuple[str, int]], set[str]] = {}
    for line in lines:
        row = MAP_ROW.match(line)
        if row:
            here, there = place(row["ia"]), place(row["ib"])
            if here and there:
                _add(found, (row["a"], here[0]), (row["b"], there[0]), here[1])
            continue
        if line.lstrip().startswith("#"):
            continue
        for match in CABLE.finditer(line[:4000]):
            _add(found, (match["a"], int(match["pa"])), (match["b"], int(match["pb"])), "")
    return [Cable(*ends[0], *ends[1], "".join(sorted(rails))) for ends, rails in found.items()]


def _add(found: dict[tuple[tuple[str, int], tuple[str, int]], set[str]], here: tuple[str, int], there: tuple[str, int], rail: str) -> None:
    if here[0] == there[0] or len(found) >= 4096 or DEVICE_NAME.match(here[0]) or DEVICE_NAME.match(there[0]):
        return
    key = (there, here) if (there, here) in found else (here, there)
    found.setdefault(key, set()).update({rail} if rail else ())
