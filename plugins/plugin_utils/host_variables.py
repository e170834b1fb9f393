# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading of host variables for the plan: only those that a plan needs, templated where they are templates, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleError
from jinja2 import Undefined, UndefinedError

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, shown
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.variables import unknown, wanted


def read_host_variables(hostvars: Any, group: Any) -> dict[str, dict[str, Any]]:
    """Return {host: {variable: value}} of the group's hosts, in its order.

    ``hostvars`` is Ansible's magic variable of that name (or any mapping of mappings), ``group`` a list of hosts such as ``groups['spark']``.
    Other variables of the hosts are never touched: they may be secrets, or templates that cannot be resolved here. Raises FabricError.
    """
    if not isinstance(hostvars, Mapping):
        raise FabricError(
            f"the filter's input is {shown(hostvars)}; expected hostvars, as in hostvars | dgxspark.fabric.plan(groups['spark'])"
        )
    if not isinstance(group, (list, tuple)):
        raise FabricError(f"the filter's argument is {shown(group)}; expected a list of hosts, such as groups['spark']")
    return {_host(host, hostvars): _variables(str(host), hostvars[host]) for host in group}


def _host(host: Any, hostvars: Mapping[str, Any]) -> str:
    if not isinstance(host, str) or host not in hostvars:
        raise FabricError(f"{shown(host)} is no host of the inventory; pass hosts such as groups['spark']")
    return str(host)


def _variables(host: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in wanted([str(name) for name in variables]):
        if unknown(name) is not None:
            values[name] = None
            continue
        try:
            values[name] = _resolved(variables[name])
        except (AnsibleError, UndefinedError) as problem:
            raise FabricError(
                f"{name} of {host} cannot be worked out ({problem}): correct its template, or define what it refers to"
            ) from None
    return values


def _resolved(value: Any) -> Any:
    """Return the value with every nested template resolved now, so that no later access can fail; odd types stay for the checks to refuse.

    Raises AnsibleError or UndefinedError when a template fails.
    """
    if isinstance(value, Undefined):
        str(value)  # raises with the name of what is undefined
    if isinstance(value, Mapping):
        return {key: _resolved(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_resolved(entry) for entry in value]
    return value
