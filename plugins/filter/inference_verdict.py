# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: inference_verdict
short_description: Judge a measurement of inference by itself
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Asks the checks of layer C(inference) about what was measured, where no run of the network is at hand.
positional: cluster
options:
  _input:
    description: C(fabric_inference), by the host that holds it.
    type: dict
    required: true
  cluster:
    description: Name of the cluster.
    type: str
    required: true
  rules:
    description: Rules that add to or override the shipped ones, as C(fabric_rules).
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Show the verdict
  ansible.builtin.debug:
    msg: "{{ ({inventory_hostname: fabric_inference} | dgxspark.fabric.inference_verdict('spark')).lines }}"
"""

RETURN = r"""
_value:
  description: C(status) (V(pass) or V(fail)), C(message), C(counts), C(findings), and C(lines) for people.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_verdict import judge_inference
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain


def inference_verdict(results: Any, cluster: Any, rules: Any = None) -> dict[str, Any]:
    """Return the verdict."""
    try:
        return judge_inference(plain(results), str(cluster), plain(rules or []))
    except FabricError as error:
        raise AnsibleFilterError(str(error)) from error
    except (TypeError, AttributeError) as error:
        raise AnsibleFilterError(f"the input is not fabric_inference by host: {error}") from error


class FilterModule:
    """Filters that judge inference."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"inference_verdict": inference_verdict}
