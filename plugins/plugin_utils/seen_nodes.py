# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was observed of the nodes, in the little that measuring needs: taken out of the hosts' variables as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, shown
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain


@dataclasses.dataclass(frozen=True, slots=True)
class SeenInterface:
    """An interface as it was observed: MAC, addresses without prefix, and whether its link is up (None: unknown)."""

    mac: str | None
    addresses: tuple[str, ...]
    up: bool | None


@dataclasses.dataclass(frozen=True, slots=True)
class SeenNode:
    """A node as it was observed. ``management`` is its management address, None when none was found."""

    name: str
    management: str | None
    interfaces: dict[str, SeenInterface]


def seen_nodes(hostvars: Mapping[str, Any], names: Iterable[str]) -> dict[str, SeenNode]:
    """Return what was observed of those of ``names`` that were observed and have not dropped out since.

    ``hostvars`` is Ansible's magic variable, or any mapping from hosts to their variables; only C(fabric_node)
    and C(fabric_lost) are looked at. Raises FabricError.
    """
    if not isinstance(hostvars, Mapping):
        raise FabricError(f"hostvars are expected, got {shown(hostvars)}")
    found = {}
    for name in names:
        variables = hostvars.get(name) if name in hostvars else None
        if not isinstance(variables, Mapping) or variables.get("fabric_lost"):
            continue
        node = variables.get("fabric_node")
        if isinstance(node, Mapping):
            found[str(name)] = _seen(str(name), node)
    return found


def _seen(name: str, node: Mapping[str, Any]) -> SeenNode:
    management = node.get("management")
    address = management.get("address") if isinstance(management, Mapping) else None
    interfaces = node.get("interfaces")
    if not isinstance(interfaces, Mapping):
        raise FabricError(f"fabric_node of {name} has no interfaces: is it what the module fabric_facts returned?")
    return SeenNode(name, str(address) if address else None, {str(key): _interface(value) for key, value in interfaces.items() if isinstance(value, Mapping)})


def _interface(value: Mapping[str, Any]) -> SeenInterface:
    addresses = tuple(str(address).partition("/")[0] for address in plain(value.get("addresses") or []))
    mac, carrier = value.get("mac"), value.get("carrier")
    up = False if value.get("admin_up") is False else carrier if isinstance(carrier, bool) else None
    return SeenInterface(str(mac) if mac else None, addresses, up)
