# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: in_use
short_description: Tell whether the cluster is in use, and by what
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Looks at what M(dgxspark.fabric.fabric_facts) saw of programs with RDMA queue pairs, of programs on the GPU and of traffic on the fabric.
  - Returns nothing for a cluster that is free. For one that is in use, returns each host's C(fabric_perftest), which says that it was not measured and why.
positional: hosts
options:
  _input:
    description: The magic variable C(hostvars), with C(fabric_node) set on the hosts that were observed.
    type: dict
    required: true
  hosts:
    description: Hosts that take part, usually C(ansible_play_hosts).
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: See whether the cluster is in use
  ansible.builtin.set_fact:
    fabric_in_use: "{{ hostvars | dgxspark.fabric.in_use(ansible_play_hosts) }}"
"""

RETURN = r"""
_value:
  description: Results by host, or nothing.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.busy_cluster import without_measuring
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain


def in_use(hostvars: Any, hosts: Any) -> dict[str, Any]:
    """Return the results of a cluster that is in use."""
    try:
        names = [str(host) for host in hosts]
        nodes = {host: {"busy": plain(hostvars[host]["fabric_node"].get("busy"))} for host in names if hostvars[host].get("fabric_node")}
        return without_measuring(nodes, names)
    except (FabricError, KeyError, TypeError, AttributeError) as error:
        raise AnsibleFilterError(f"fabric_node is not what the module fabric_facts returned: {error}") from error


class FilterModule:
    """Filters of a cluster's use."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"in_use": in_use}
