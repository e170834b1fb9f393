# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: size
short_description: Answers sizing questions from measured numbers
version_added: "0.1.0"
author:
  - dgxspark.fabric contributors (@dgxspark)
description:
  - Says how many nodes hold a model, what tensor parallelism costs a token, whether the fabric beats the local disk, how a reading
    scales, and which split suits.
  - The file docs/sizing.md lists the questions with their inputs.
options:
  _input:
    description: Questions by name, V(memory), V(tp_tax), V(data_path), V(scaling) or V(parallel), each with its inputs.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show how many nodes a model of 800 GB needs
  ansible.builtin.debug:
    msg: "{{ ({'memory': {'size_gb': 800, 'nodes': 4}} | dgxspark.fabric.size).memory.nodes_needed }}"
"""

RETURN = r"""
_value:
  description: The answers, by question.
  type: dict
"""

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.sizing import size


def answers(request: Mapping[str, Any]) -> dict[str, Any]:
    """Adapt ``size`` to a filter."""
    try:
        return size(request)
    except FabricError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, Any]:
        """Return the filter by name."""
        return {"size": answers}
