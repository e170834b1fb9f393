# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: not_ready
short_description: Says which nodes stand in the way of a change
version_added: "0.1.0"
author:
  - dgxspark.fabric contributors (@dgxspark)
description:
  - Returns one text that names every node that was lost or refused, and why; an empty text when none was.
positional: names, changing, goal
options:
  _input:
    description: C(hostvars).
    type: dict
    required: true
  names:
    description: The hosts of the play.
    type: list
    elements: str
    required: true
  changing:
    description: Whether nodes are being changed already; then the text says which are changed and which are not.
    type: bool
    default: false
  goal:
    description: What the nodes are to be, for the text.
    type: str
    default: as planned
"""

EXAMPLES = r"""
- name: Change nothing unless every node can be changed
  ansible.builtin.fail:
    msg: "{{ hostvars | dgxspark.fabric.not_ready(ansible_play_hosts_all) }}"
  when: hostvars | dgxspark.fabric.not_ready(ansible_play_hosts_all) | length > 0
"""

RETURN = r"""
_value:
  description: The text.
  type: str
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rollout import not_ready_text


def not_ready(hosts: Mapping[str, Any], names: Sequence[str], changing: bool = False, goal: str = "as planned") -> str:
    """Adapt ``not_ready_text`` to a filter."""
    if not isinstance(hosts, Mapping):
        raise AnsibleFilterError("the input must be hostvars")
    return not_ready_text(hosts, [str(name) for name in names], bool(changing), str(goal))


class FilterModule:
    """The filter of this file."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Return the filter by name."""
        return {"not_ready": not_ready}
