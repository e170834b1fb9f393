# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cabling_compare import compare, contradictions
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cabling_map import found_shape, map_lines
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cabling_seen import SeenCabling, seen_cabling
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.discovered_inventory import CONNECTION, Discovered
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.generated_folder import Change, apply
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain

display = Display()


class ActionModule(ActionBase):
    """Show the cabling that was found, compare it with the plan or write an inventory; on the controller, with no connection."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validated, arguments = self.validate_argument_spec(argument_spec={
            "hosts": {"type": "list", "elements": "str", "required": True},
            "plan": {"type": "dict"},
            "dest": {"type": "path", "default": "build/discovered/hosts.yml"},
            "show": {"type": "bool", "default": True},
        })
        hostvars = (task_vars or {}).get("hostvars", {})
        hosts = [str(host) for host in arguments["hosts"]]
        try:
            found = {host: plain(hostvars[host]["fabric_neighbours"]) for host in hosts if host in hostvars and hostvars[host].get("fabric_neighbours")}
            silent = {host: _reason(hostvars.get(host) or {}) for host in hosts if host not in found}
            seen = seen_cabling(found)
            verdicts = compare(plain(arguments["plan"]), seen) if arguments["plan"] else None
        except FabricError as error:
            raise AnsibleActionFail(str(error)) from error
        lines = map_lines(seen, verdicts, silent)
        result.update(changed=False, shape=found_shape(seen), lines=lines, contradictions=contradictions(verdicts or []), probed=list(found))
        if arguments["show"]:
            display.display("\n".join(["", *lines, ""]))
        if verdicts is None:
            self._write(result, seen, hostvars, hosts, Path(str(arguments["dest"])).absolute())
        return result

    def _write(self, result: dict[str, Any], seen: SeenCabling, hostvars: Mapping[str, Any], hosts: list[str], path: Path) -> None:
        """Write the inventory of what was found."""
        try:
            variables = {host: {name: plain(hostvars[host][name]) for name in CONNECTION if hostvars[host].get(name) is not None} for host in hosts}
            nodes = {host: plain(hostvars[host].get("fabric_node") or {}) for host in hosts}
            made = Discovered(seen, nodes, variables)
        except FabricError as error:
            raise AnsibleActionFail(str(error)) from error
        before = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None
        result.update(changed=before != made.text, inventory=str(path), notes=made.notes)
        if self._task.diff:
            result["diff"] = [{"before": before or "", "after": made.text, "before_header": str(path), "after_header": str(path)}]
        if not self._task.check_mode and before != made.text:
            try:
                apply(path.parent, [Change(path.name, before, made.text)])
            except OSError as error:
                raise AnsibleActionFail(
                    f"the inventory cannot be written to {path}: {error}; set cabling_inventory to a place that you may write to") from error
        for note in made.notes:
            display.warning(note)
        display.display(f"Inventory of what was found: {path}\n")


def _reason(variables: Mapping[str, Any]) -> str:
    """Say why a host was not probed."""
    return str(variables.get("fabric_lost") or "it is not part of this run")
