# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.host_variables import read_host_variables
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan import make_plan
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan_notes import note_lines

display = Display()


class ActionModule(ActionBase):
    """Work out the plan on the controller; no host is connected to. As a task of its own, so that its errors reach the reader as they are."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validated, arguments = self.validate_argument_spec(
            argument_spec={"group": {"type": "str", "default": "spark"}, "show_notes": {"type": "bool", "default": True}}
        )
        group, variables = str(arguments["group"]), task_vars or {}
        try:
            hosts = read_host_variables(variables.get("hostvars", {}), variables.get("groups", {}).get(group, []))
            plan = make_plan(hosts, group)
        except FabricError as error:
            raise AnsibleActionFail(str(error)) from None  # the text says all; a cause would be printed beside it once more
        if arguments["show_notes"] and plan["notes"]:
            display.display("\n".join(["", *note_lines(plan), ""]))
        result.update(changed=False, plan=plan)
        return result
