# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The results of a run, gathered from the host variables in which the roles left them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain

#: Host variables and the key under which judging takes each of them.
HOST_RESULTS = {
    "fabric_node": "nodes",
    "fabric_neighbours": "neighbours",
    "fabric_paths": "paths",
    "fabric_perftest": "perftest",
    "fabric_iperf3": "iperf3",
    "fabric_nccl": "nccl",
    "fabric_inference": "inference",
}


def collect_results(hostvars: Mapping[str, Any], hosts: Iterable[str], tested: Iterable[str], mode: str = "validate") -> dict[str, Any]:
    """Gather what was planned, observed and measured.

    :param hostvars: variables of all hosts
    :param hosts: the cluster's hosts (the group ``spark``)
    :param tested: the hosts of the play, those that dropped out included; the others count as not tested
    :param mode: ``validate`` or ``check``
    :return: the input of ``judge``
    """
    names = [str(host) for host in hosts]
    wanted = {str(host) for host in tested}
    data: dict[str, Any] = {
        "plan": None,
        "nodes": {},
        "unreachable": {},
        "not_tested": [name for name in names if name not in wanted],
        "neighbours": {},
        "paths": {},
        "perftest": {},
        "iperf3": {},
        "diagnosis": [],
        "nccl": {},
        "inference": {},
        "drift": [],
        "mode": str(mode),
    }
    for name in names:
        try:
            variables = hostvars[name]
        except KeyError as exc:
            raise FabricError(f"results: there are no variables of host {name}; is it in the inventory?") from exc
        if data["plan"] is None and variables.get("fabric_plan"):
            data["plan"] = plain(variables["fabric_plan"])
        if not data["diagnosis"] and variables.get("fabric_diagnosis"):
            data["diagnosis"] = plain(variables["fabric_diagnosis"])
        if name in wanted:
            take_host(data, name, variables)
    return data


def take_host(data: dict[str, Any], name: str, variables: Mapping[str, Any]) -> None:
    """Take what one host left behind."""
    data["nodes"][name] = plain(variables.get("fabric_node")) or None
    for variable, key in HOST_RESULTS.items():
        if variable != "fabric_node" and variables.get(variable) is not None:
            data[key][name] = plain(variables[variable])
    if variables.get("fabric_lost"):
        data["unreachable"][name] = str(variables["fabric_lost"])
    for entry in variables.get("fabric_drift") or []:
        data["drift"].append({"host": name, **plain(entry)})
