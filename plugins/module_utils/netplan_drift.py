# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drift beyond files and live values: what will not survive a reboot, who renders an interface, and a file that NVIDIA Sync put aside. Pure."""

from __future__ import annotations

import pathlib
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils.live_state import Live
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_tree import Planned

Entry = dict[str, t.Any]


def _entry(node: str, subject: str, key: str, wanted: t.Any, live: t.Any, message: str) -> Entry:
    return {"host": node, "subject": subject, "key": key, "wanted": wanted, "live": live, "message": f"{node}: {message}" if node else message}


def not_lasting(node: str, planned: t.Iterable[Planned], live: t.Mapping[str, Live], tree: t.Mapping[str, t.Any] | None) -> list[Entry]:
    """Return the live addresses that no configuration holds: they are gone after a reboot.

    Args:
        node: The node's name.
        planned: The planned interfaces.
        live: Their live state.
        tree: The merged netplan configuration as it is; ``None`` when it is known to be the plan.
    """
    found = []
    for interface in planned:
        settings = ((tree or {}).get("ethernets") or {}).get(interface.name)
        values = (settings.get("addresses") or []) if isinstance(settings, dict) else []
        configured = {str(next(iter(value), "") if isinstance(value, dict) else value) for value in values}
        if tree is None:
            configured = {interface.address or ""}
        for address in live[interface.name].addresses:
            if address not in configured and address not in live[interface.name].dynamic and not address.startswith("169.254."):
                found.append(_entry(node, interface.name, "persistence", "in netplan", "live only",
                                    f"{address} of {interface.name} is live, but not in netplan: it will not survive a reboot"))
    return found


def renderers(node: str, live: t.Mapping[str, Live], provisioned: t.Mapping[str, str]) -> list[Entry]:
    """Return the interfaces that somebody else renders than when they were provisioned."""
    return [
        _entry(node, name, "renderer", provisioned[name], state.renderer,
               f"{name} is rendered by {state.renderer}, it was provisioned with {provisioned[name]}: see nmcli device and networkctl for who took it")
        for name, state in live.items()
        if state.renderer and name in provisioned and state.renderer != provisioned[name]
    ]


def put_aside(node: str, path: str, root: str = "/") -> list[Entry]:
    """Return whether NVIDIA Sync renamed the managed file, as it does when it writes its own plan."""
    file = pathlib.Path(root) / path.lstrip("/")
    aside = sorted(other.name for other in file.parent.glob(f"{file.name}.sync-disabled*")) if not file.exists() and file.parent.is_dir() else []
    return [_entry(node, path, "put_aside", "in place", aside[-1],
                   f"NVIDIA Sync put {path} aside as {aside[-1]}: delete the cluster in Sync (Settings, Clusters), then provision again")] if aside else []
