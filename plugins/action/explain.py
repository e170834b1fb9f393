# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain import explain
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_context import Context
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_files import check_out, inputs
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain

display = Display()


class ActionModule(ActionBase):
    """Explain files on the controller; no host is connected to."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validated, arguments = self.validate_argument_spec(
            argument_spec={
                "files": {"type": "list", "elements": "path", "required": True},
                "out": {"type": "path"},
                "topology": {"type": "str", "choices": ["", "pair", "switch", "mesh", "ring"], "default": ""},
                "ports": {"type": "list", "elements": "int", "default": []},
                "rail_gbps": {"type": "float", "default": 0.0},
                "link_gbps": {"type": "float", "default": 200.0},
                "network": {"type": "str", "choices": ["IB", "Socket"], "default": "IB"},
                "show": {"type": "bool", "default": True},
            }
        )
        arguments = plain(arguments)
        try:
            found = inputs(arguments["files"])
            if arguments["out"]:
                check_out(arguments["out"], arguments["files"])
            document = explain(found, context(arguments))
        except FabricError as error:
            raise AnsibleActionFail(str(error)) from None  # the text says all; a cause would be printed beside it once more
        text = json.dumps(document, indent=2, ensure_ascii=False)
        if arguments["out"]:
            write(Path(arguments["out"]), text + "\n")
        if arguments["show"]:
            display.display(text)
        result.update(changed=False, **document)
        return result


def context(arguments: dict[str, Any]) -> Context:
    """Return what the user knows about the cluster.

    :raises FabricError: for a rate or a port that cannot be
    """
    if arguments["rail_gbps"] < 0 or arguments["link_gbps"] <= 0:
        raise FabricError(
            f"explain_rail_gbps is {arguments['rail_gbps']:g} and explain_link_gbps {arguments['link_gbps']:g}; "
            "both are rates in Gb/s above 0 (for the rail, 0 means derived)."
        )
    wrong = [port for port in arguments["ports"] if port not in (0, 1)]
    if wrong:
        raise FabricError(f"explain_ports names port {wrong[0]}; a Spark has ports 0 and 1.")
    return Context(arguments["topology"], tuple(arguments["ports"]), arguments["rail_gbps"] or None, arguments["link_gbps"], arguments["network"])


def write(path: Path, text: str) -> None:
    """Write the findings; the folder is made when it is not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise AnsibleActionFail(f"explain_out: {path} cannot be written: {error.strerror or error}; name a file in a folder that you may write to.") from None
