# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import time
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.link_probe_end import finish_command, read_result, settle_seconds
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain


class ActionModule(ActionBase):
    """End a node's link probe and return what it heard as a fact."""

    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validated, arguments = self.validate_argument_spec(argument_spec={
            "started": {"type": "dict", "required": True},
            "all_started": {"type": "float"},
            "raised": {"type": "bool", "default": False},
        })
        node = str((task_vars or {}).get("inventory_hostname", ""))
        try:
            started = plain(arguments["started"])
        except FabricError as error:
            raise AnsibleActionFail(str(error)) from error
        if not started.get("folder"):
            raise AnsibleActionFail(f"the link probe of {node} did not start: {started.get('msg') or 'no answer'}")
        command = finish_command(str(started["folder"]), settle_seconds(arguments["all_started"], time.time()), bool(arguments["raised"]))
        answer = self._low_level_execute_command(command)
        found = read_result(str(answer.get("stdout", "")))
        if found is None:
            said = str(answer.get("stderr") or "").strip()[-200:] or "no answer"
            raise AnsibleActionFail(f"the link probe of {node} gave no result: {said}; job.log beside {started['folder']} there may say why")
        result.update(changed=False, ansible_facts={"fabric_neighbours": found})
        return result
