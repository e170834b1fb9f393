# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: ssh_mesh
short_description: Works out what the ssh files of each node should hold
version_added: "0.1.0"
author:
  - dgxspark.fabric contributors (@dgxspark)
description:
  - Returns for each node that answered the lines of C(authorized_keys), C(known_hosts) and C(config), what deviates (C(drift), C(differs)), and whom
    to connect to for the proof (C(targets)).
positional: plan, names, result
options:
  _input:
    description: C(hostvars).
    type: dict
    required: true
  plan:
    description: The plan.
    type: dict
    required: true
  names:
    description: The hosts of the play.
    type: list
    elements: str
    required: true
  result:
    description: The variable that holds a host's result of M(dgxspark.fabric.ssh_mesh) with C(phase=read).
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show what deviates
  ansible.builtin.debug:
    msg: "{{ (hostvars | dgxspark.fabric.ssh_mesh(fabric_plan, ansible_play_hosts_all, 'node_ssh'))[inventory_hostname].drift }}"
"""

RETURN = r"""
_value:
  description: A mapping by host.
  type: dict
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.ssh_mesh import mesh


def ssh_mesh(hosts: Mapping[str, Any], plan: Mapping[str, Any], names: Sequence[str], result: str) -> dict[str, dict[str, Any]]:
    """Adapt ``mesh`` to a filter."""
    if not isinstance(hosts, Mapping) or not isinstance(plan, Mapping):
        raise AnsibleFilterError("the input must be hostvars, and the plan a mapping")
    read = {str(name): {result: plain(hosts[name].get(result) or {})} for name in names}
    return mesh(plain(plan), read, [str(name) for name in names], str(result))


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, Callable[..., dict[str, dict[str, Any]]]]:
        """Return the filter by name."""
        return {"ssh_mesh": ssh_mesh}
