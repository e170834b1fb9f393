# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_record import RESULT_LIMIT
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_import import import_results
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain


class ActionModule(ActionBase):
    """Read result files on the controller; return their runs as a fact."""

    _supports_check_mode = True
    _supports_async = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validated, arguments = self.validate_argument_spec(argument_spec={
            "results": {"type": "list", "elements": "dict", "required": True},
            "defaults": {"type": "dict", "default": {}},
        })
        try:
            fact = import_results(plain(arguments["results"]), plain(arguments["defaults"]), read_text, "localhost")
        except FabricError as error:
            raise AnsibleActionFail(str(error)) from None
        result.update(changed=False, ansible_facts={"fabric_inference": fact})
        return result


def read_text(path: str) -> str:
    """Return the text of a file; raises OSError."""
    with open(Path(path).expanduser(), encoding="utf-8", errors="replace") as stream:
        return stream.read(RESULT_LIMIT)
