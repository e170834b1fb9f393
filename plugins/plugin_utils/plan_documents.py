# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that a plan becomes in its folder: plan.json, hostfile, cables.md, switch.md, switch.html, and each host's 40-cx7.yaml, nccl.env, vllm.env."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_files import environment_text, hostfile_text
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cabling_sheet import cabling_sheet
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.switch_sheet import switch_documents
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.vllm_environment import vllm_text

NETPLAN_FILE = "40-cx7.yaml"
ENVIRONMENT_FILE = "nccl.env"
LAUNCH_FILE = "vllm.env"


def plan_documents(plan: dict[str, Any], render_netplan: Callable[[dict[str, Any]], str]) -> dict[str, str]:
    """Return {path in the plan's folder: content}.

    ``render_netplan`` makes the text of a netplan file from a node's document. A node whose cables all keep their addresses has no netplan
    file. Raises FabricError when the value is no plan.
    """
    try:
        documents = {"plan.json": json.dumps(plan, indent=2) + "\n", "hostfile": hostfile_text(plan["hostfile"]), "cables.md": cabling_sheet(plan)}
        documents |= switch_documents(plan)
        for name, node in plan["nodes"].items():
            if node["netplan"]["ethernets"]:
                documents[str(PurePosixPath(name, NETPLAN_FILE))] = render_netplan(node["netplan"])
            documents[str(PurePosixPath(name, ENVIRONMENT_FILE))] = environment_text(node["name"], node["nccl_environment"])
            documents[str(PurePosixPath(name, LAUNCH_FILE))] = vllm_text(plan, name)
    except (KeyError, TypeError, AttributeError) as problem:
        raise FabricError(
            f"the plan to write is incomplete ({type(problem).__name__}: {problem}); pass the result of the filter dgxspark.fabric.plan"
        ) from problem
    return documents
