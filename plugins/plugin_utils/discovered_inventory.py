# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""An inventory from what was found: cabling, live addresses and the hosts' connection, ready to be used. Pure functions.

A cabling that a named topology gives by itself is written so; any other is listed cable by cable. A fabric that has addresses already is
written with them, so that it is validated as it is and never renumbered.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

import yaml

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cabling_map import found_shape
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cabling_seen import SeenCabling
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.interfaces import RAILS
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.model import Cable, Plug
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan import make_plan

#: Variables that say how a host is reached and who it is. Passwords are left out: they do not belong into a file.
CONNECTION = (
    "ansible_host", "ansible_port", "ansible_user", "ansible_connection", "ansible_python_interpreter",
    "ansible_ssh_private_key_file", "ansible_ssh_common_args", "fabric_cluster_name", "fabric_node_number", "fabric_management_address", "fabric_ssh_user",
)
USUAL_PORTS = {"pair": [1], "switch": [1]}
USUAL_MTU = 9000
USUAL_LINK_MBPS = 200000

Hosts = dict[str, dict[str, Any]]


class Discovered:
    """The inventory of a cabling: ``text`` of the file, and ``notes`` on what to look at before use.

    Raises FabricError where no cable was found, so that there is nothing to write.
    """

    def __init__(self, seen: SeenCabling, nodes: Mapping[str, Any], hosts: Mapping[str, Mapping[str, Any]]) -> None:
        """Work it out.

        Args:
            seen: The cabling.
            nodes: The facts ``fabric_node`` by host.
            hosts: The hosts' variables, in the order of the inventory.
        """
        self.notes: list[str] = []
        self._seen, self._nodes = seen, nodes
        self._cables = seen.cables()
        used = {plug.node for cable in self._cables for plug in cable.plugs}
        if len(used) < 2:
            raise FabricError("no cable between two nodes was found, so there is no fabric to write an inventory of: plug in the cables and run discover again")
        self.shape = found_shape(seen)
        self._base: Hosts = {host: _connection(variables) for host, variables in hosts.items() if host in used}
        self.notes += [f"{host} is left out: none of its ports hears another node" for host in hosts if host not in used]
        common = self._common()
        common |= self._shared()
        self._hosts, self._group = self._choose(common)
        self.text = self._document()

    def _choose(self, common: dict[str, Any]) -> tuple[Hosts, dict[str, Any]]:
        """Return host and group variables: a named topology where one fits, and live addresses where there are any others."""
        live = self._live_entries()
        for hosts, group in (*self._named(), self._listed([_bare(cable) for cable in self._cables])):
            group = {**common, **group}
            plan = self._plan(hosts, group)
            if plan is None:
                continue
            if not live or self._as_planned(plan):
                return hosts, group
            explicit = self._listed([live.get(cable.name, _bare(cable)) for cable in self._cables])
            whole = {**common, **explicit[1], **self._live_settings()}
            if self._plan(explicit[0], whole, "the live addresses are not taken over") is not None:
                return explicit[0], whole
            return hosts, group
        hosts, group = self._listed([_bare(cable) for cable in self._cables])
        self._plan(hosts, {**common, **group}, "the inventory is not yet ready to use")
        return hosts, {**common, **group}

    def _plan(self, hosts: Hosts, group: Mapping[str, Any], complaint: str = "") -> dict[str, Any] | None:
        """Return the plan of these variables when it has the cables that were found."""
        try:
            plan = make_plan({host: {**self._base[host], **group, **hosts.get(host, {})} for host in self._base})
        except FabricError as error:
            if complaint:
                self.notes.append(f"{complaint}: {error}")
            return None
        return plan if {_ends(cable) for cable in plan["cables"]} == {_model_ends(cable) for cable in self._cables} else None

    def _named(self) -> list[tuple[Hosts, dict[str, Any]]]:
        """Return the topologies that may give this cabling by themselves."""
        if self.shape in USUAL_PORTS:
            ports = {host: sorted(plug.port for cable in self._cables for plug in cable.plugs if plug.node == host) for host in self._base}
            return [({host: {"fabric_ports": mine} for host, mine in ports.items() if mine != USUAL_PORTS[self.shape]}, {"fabric_topology": self.shape})]
        if self.shape not in ("mesh", "ring"):
            return []
        following = {plug.node: other.node for cable in self._cables if cable.b for plug, other in ((cable.a, cable.b), (cable.b, cable.a)) if plug.port == 0}
        order = [next(iter(self._base))]
        while (onward := following.get(order[-1])) is not None and onward not in order:
            order.append(onward)
        usual = {"fabric_topology": self.shape}
        return [({}, usual), ({}, {**usual, "fabric_ring_order": order})]

    def _listed(self, entries: list[dict[str, Any]]) -> tuple[Hosts, dict[str, Any]]:
        return {}, {"fabric_topology": "custom", "fabric_cables": entries}

    def _common(self) -> dict[str, Any]:
        """Return what all nodes share: the management interface, and a link speed that is not the usual one."""
        found: dict[str, Any] = {}
        names = {host: ((self._nodes.get(host) or {}).get("management") or {}).get("interface") for host in self._base}
        if len(set(names.values())) == 1 and None not in names.values():
            found["fabric_management_interface"] = next(iter(names.values()))
        else:
            for host, name in names.items():
                if name:
                    self._base[host]["fabric_management_interface"] = name
        speeds = {live.get("speed_mbps") for live in self._live().values()} - {None}
        if len(speeds) == 1 and speeds != {USUAL_LINK_MBPS}:
            found["fabric_link_gbps"] = speeds.pop() / 1000
        return found

    def _shared(self) -> dict[str, Any]:
        """Take what is the same on all hosts out of them and return it."""
        first, *others = self._base.values()
        shared = {name: value for name, value in first.items() if all(name in other and other[name] == value for other in others)}
        for variables in self._base.values():
            for name in shared:
                del variables[name]
        return shared

    def _live(self) -> dict[tuple[Plug, str], Mapping[str, Any]]:
        """Return what the facts say of each cabled interface."""
        found = {}
        for plug in (plug for cable in self._cables for plug in cable.plugs):
            for letter, rail in self._seen.ports[plug].rails.items():
                found[plug, letter] = ((self._nodes.get(plug.node) or {}).get("interfaces") or {}).get(rail.interface) or {}
        return found

    def _live_settings(self) -> dict[str, Any]:
        mtus = {live.get("mtu") for live in self._live().values()} - {None}
        return {"fabric_mtu": mtus.pop()} if len(mtus) == 1 and mtus != {USUAL_MTU} else {}

    def _live_entries(self) -> dict[str, dict[str, Any]]:
        """Return by cable the entry of ``fabric_cables`` with the networks and addresses that its ends have in common."""
        live = {place: _address(facts) for place, facts in self._live().items()}
        entries = {}
        for cable in self._cables:
            networks: dict[str, str] = {}
            addresses: dict[str, dict[str, str]] = {}
            for rail in RAILS:
                ends = {plug: live.get((plug, rail)) for plug in cable.plugs}
                known = {entry.network for entry in ends.values() if entry is not None}
                if len(known) != 1 or None in ends.values():
                    continue
                networks[rail] = str(known.pop())
                for plug, entry in ends.items():
                    if entry is not None:
                        addresses.setdefault(str(plug), {})[rail] = str(entry.ip)
            if networks:
                entries[cable.name] = {**_bare(cable), "networks": networks, "addresses": addresses}
        return entries

    def _as_planned(self, plan: Mapping[str, Any]) -> bool:
        """Tell whether the live addresses are those that the plan gives by itself."""
        for plug, rail in self._live():
            interface = self._seen.ports[plug].rails[rail].interface
            planned = plan["nodes"][plug.node]["interfaces"].get(interface) or {}
            address = _address(self._live()[plug, rail])
            if address is None or str(address) != f"{planned.get('address')}/{planned.get('prefix')}":
                return False
        return True

    def _document(self) -> str:
        group = {"fabric_cluster_name": "spark", **self._group}
        hosts = {host: {**self._base[host], **self._hosts.get(host, {})} or None for host in self._base}
        body = yaml.safe_dump({"spark": {"hosts": hosts, "vars": group}}, sort_keys=False, default_flow_style=None, width=160)
        notes = "".join(f"# Note: {note}\n" for note in self.notes)
        return f"---\n# Written by dgxspark.fabric.discover from the cables that were found. Passwords are left out.\n{notes}{body}"


def _connection(variables: Mapping[str, Any]) -> dict[str, Any]:
    return {name: variables[name] for name in CONNECTION if variables.get(name) is not None}


def _bare(cable: Cable) -> dict[str, Any]:
    return {"a": str(cable.a), "b": "switch" if cable.b is None else str(cable.b)}


def _model_ends(cable: Cable) -> frozenset[str]:
    return frozenset(_bare(cable).values())


def _ends(cable: Mapping[str, Any]) -> frozenset[str]:
    """Return the ends of a planned cable as texts."""
    return frozenset("switch" if end is None else f"{end['node']}:{end['port']}" for end in (cable["a"], cable["b"]))


def _address(live: Mapping[str, Any]) -> ipaddress.IPv4Interface | None:
    """Return the first IPv4 address of an interface that is not link-local."""
    for text in live.get("addresses") or []:
        try:
            address = ipaddress.IPv4Interface(text)
        except ValueError:
            continue
        if not address.is_link_local:
            return address
    return None
