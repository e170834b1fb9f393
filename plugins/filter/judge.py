# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: judge
short_description: Judge a run of the fabric
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Returns the findings of a run, the verdict on every cable and rail, and the verdict on the whole.
  - Needs no cluster; the same input gives the same result.
  - For every cable and rail the lowest broken layer is the verdict, what stands above it is skipped, so one fault makes one failure.
options:
  _input:
    description: Plan, facts and results of the run, as the filter P(dgxspark.fabric.results#filter) returns them.
    type: dict
    required: true
"""

EXAMPLES = r"""
- name: Show what is wrong
  ansible.builtin.debug:
    msg: "{{ (run_results | dgxspark.fabric.judge).findings | selectattr('status', 'in', ['fail', 'unknown']) | map(attribute='message') }}"
"""

RETURN = r"""
_value:
  description: The input with C(findings), C(cables) and C(verdict); C(docs/report.schema.json) describes them.
  type: dict
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.judge import judge as judge_results


def judge(run: Any) -> dict[str, Any]:
    """Return the judged run."""
    try:
        return judge_results(run)
    except FabricError as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    """Filters that judge."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"judge": judge}
