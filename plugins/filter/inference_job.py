# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: inference_job
short_description: Work out the job of measuring an endpoint
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Puts together and checks what the machine that drives an OpenAI-compatible endpoint has to know. Every error names the variable of the role.
positional: node
options:
  _input:
    description: What to measure and how, as the role C(inference_bench) passes it; every key but C(url) may be left out.
    type: dict
    required: true
  node:
    description: Name of the machine that drives the endpoint.
    type: str
    required: true
  run:
    description: Name of the run, never used twice. At least 6 letters, digits or dashes.
    type: str
    required: true
  nodes:
    description: How many nodes serve the model.
    type: int
    required: true
  link_gbps:
    description: Speed of the links between them, in 10^9 bit/s.
    type: float
    required: true
"""

EXAMPLES = r"""
- name: Show the job
  ansible.builtin.debug:
    msg: "{{ {'url': 'http://192.168.1.10:8000'} | dgxspark.fabric.inference_job('spark1', run='20261201T120000Z-ab12', nodes=2, link_gbps=200) }}"
"""

RETURN = r"""
_value:
  description: The job, as the module M(dgxspark.fabric.inference_bench) takes it.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_jobs import make_inference_job
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain


def inference_job(options: Any, node: Any, run: Any, nodes: Any, link_gbps: Any) -> dict[str, Any]:
    """Return the job."""
    try:
        return make_inference_job(plain(options), str(node), str(run), plain(nodes), plain(link_gbps))
    except FabricError as error:
        raise AnsibleFilterError(str(error)) from error
    except (TypeError, AttributeError) as error:
        raise AnsibleFilterError(f"the options are not those of the role inference_bench: {error}") from error


class FilterModule:
    """Filters of measuring inference."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"inference_job": inference_job}
