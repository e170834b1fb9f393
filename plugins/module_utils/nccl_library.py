# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an NCCL library knows, and what follows from it for the environment. Pure.

A variable that a library knows stands in it as a text. A patched library keeps the version number of the stock one, so what it can do is read from
these texts and never from a name or a version.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence

MARKER = "NCCL_SWITCHLESS_RING_ONLY"
#: Shapes in which some nodes have no cable between them, so that NCCL's trees cannot connect.
TREELESS = ("ring", "graph")
SWITCHLESS_RING = (
    (MARKER, "1", "the library knows it: no connections beside the ring, since opposite nodes have no cable"),
    ("NCCL_MIN_NCHANNELS", "4", "one stream reaches a fraction of a cable, four fill it"),
    ("NCCL_MAX_NCHANNELS", "4", "keeps the channels at the number that the ring profile was measured with"),
)
#: Named profiles that take care of the trees by themselves.
UPSTREAM = "upstream"


def asked(environments: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the names to look for in a library: the marker, and NCCL's variables of the environments."""
    names = {name for environment in environments for name in environment if name.startswith("NCCL_")}
    return sorted({MARKER, *(name for name, _value, _reason in SWITCHLESS_RING), *names})


def adapted(entries: Sequence[Mapping[str, t.Any]], known: Mapping[str, bool], shape: str, profile: str) -> list[dict[str, t.Any]]:
    """Return an environment ([{name, value, reason}]) completed by what the library can do.

    On a ring of four or more a library that knows the marker gets it, with the channel counts; what the inventory sets itself stays.
    """
    result = [dict(entry) for entry in entries]
    if shape in TREELESS and profile == UPSTREAM and known.get(MARKER):
        names = {entry["name"] for entry in result}
        result.extend(
            {"name": name, "value": value, "reason": reason, "follows": None} for name, value, reason in SWITCHLESS_RING if name not in names
        )
    return result


def tree_risk(known: Mapping[str, bool], shape: str, profile: str) -> str | None:
    """Return what may happen with a library on a shape without trees, None where nothing stands against it."""
    if shape not in TREELESS or known.get(MARKER) is not False or profile == "runtime_connect":
        return None
    return (
        f"the library does not know {MARKER}: NCCL also connects trees, opposite nodes of the ring have no cable, and some builds die in "
        "ncclTransportTreeConnect after 'Connected all rings'"
    )


def ignored(environment: Mapping[str, str], known: Mapping[str, bool]) -> list[str]:
    """Return the variables of an environment that the library does not know: it ignores them without a word."""
    return sorted(name for name in environment if known.get(name) is False)
