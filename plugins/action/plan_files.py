# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.template import trust_as_template

from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_files import MARK
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.generated_folder import Change, apply, differences
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan_documents import plan_documents


class ActionModule(ActionBase):
    """Write the files of a plan into a folder of the controller; no host is connected to and no privilege taken."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validated, arguments = self.validate_argument_spec(
            argument_spec={
                "dest": {"type": "path", "required": True},
                "plan": {"type": "dict", "required": True},
                "netplan_template": {"type": "path", "required": True},
            }
        )
        folder = Path(str(arguments["dest"])).absolute()
        try:
            if not str(arguments["dest"]).strip():
                raise FabricError("plan_dir is empty; expected a folder for the plan: name one, or remove plan_dir to take build/plan")
            documents = plan_documents(plain(arguments["plan"]), self._renderer(str(arguments["netplan_template"])))
            changes = differences(folder, documents, MARK)
            if not self._task.check_mode:
                apply(folder, changes)
        except FabricError as error:
            raise AnsibleActionFail(str(error)) from error
        except OSError as error:
            raise AnsibleActionFail(
                f"the plan cannot be written to {folder}: {error}; set plan_dir to a folder that you may write to"
            ) from error
        result.update(changed=bool(changes), dest=str(folder), files=sorted(documents))
        if self._task.diff:
            result["diff"] = [_diff(folder, change) for change in changes]
        return result

    def _renderer(self, template: str) -> Any:
        """Return the function that renders the netplan template with a document, seeing no other variables."""
        text = trust_as_template(self._loader.get_text_file_contents(template))

        def render(document: dict[str, Any]) -> str:
            return str(self._templar.copy_with_new_env(available_variables={"netplan_document": document}).template(text))

        return render


def _diff(folder: Path, change: Change) -> dict[str, str]:
    path = str(folder / change.path)
    return {
        "before": change.before or "",
        "after": change.after or "",
        "before_header": path,
        "after_header": path if change.after is not None else f"{path} (removed)",
    }
