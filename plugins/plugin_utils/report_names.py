# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the files of a report are called."""

from __future__ import annotations

#: Names that the report as a whole uses; a host of such a name gets another one.
TAKEN = frozenset({"report", "summary", "junit", "fabric"})


def host_file(host: str, kind: str) -> str:
    """Return the name of a host's own file, with the ending ``json`` or ``html``."""
    stem = host.replace("/", "_")
    return f"host-{stem}.{kind}" if stem in TAKEN else f"{stem}.{kind}"
