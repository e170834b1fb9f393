# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The plan's files: their content, and the folder that holds them."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_files import MARK
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.cabling_sheet import cabling_sheet
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.generated_folder import apply, differences
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan import make_plan
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan_documents import plan_documents
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.variables import REQUIRED, VARIABLES, Variable

README = pathlib.Path(__file__).resolve().parents[4] / "roles" / "plan" / "README.md"


def plan_of(count: int = 3, **common: Any) -> dict[str, Any]:
    return make_plan(
        {f"spark{number}": {"ansible_host": f"10.77.0.{number}", "fabric_topology": "mesh", **common} for number in range(1, count + 1)}
    )


def documents_of(plan: dict[str, Any]) -> dict[str, str]:
    return plan_documents(plan, lambda document: f"{MARK}\n{json.dumps(document)}\n")


def test_files_of_a_mesh() -> None:
    documents = documents_of(plan_of())
    assert sorted(documents) == sorted(
        ["plan.json", "hostfile", "cables.md", "switch.md", "switch.html"]
        + [f"spark{number}/{name}" for number in (1, 2, 3) for name in ("40-cx7.yaml", "nccl.env", "vllm.env")]
    )
    assert json.loads(documents["plan.json"]) == plan_of()
    assert [line for line in documents["hostfile"].splitlines() if not line.startswith("#")] == [
        f"10.77.0.{number} slots=1" for number in (1, 2, 3)
    ]
    settings = [line for line in documents["spark1/nccl.env"].splitlines() if not line.startswith("#")]
    assert "NCCL_IB_SUBNET_AWARE_ROUTING=1" in settings and all(re.fullmatch(r"[A-Za-z_]+=\S*", line) for line in settings)


def test_no_netplan_for_cables_that_keep_their_addresses() -> None:
    cables = [{"a": "spark1:1", "b": "spark2:1", "networks": ["10.1.0.0/24", "10.1.1.0/24"]}]
    documents = documents_of(plan_of(2, fabric_topology="pair", fabric_cables=cables))
    assert "spark1/nccl.env" in documents and "spark1/40-cx7.yaml" not in documents
    assert "kept as it is" in documents["cables.md"]


def test_sheet_names_every_cable_port_and_address() -> None:
    plan = plan_of()
    sheet = cabling_sheet(plan)
    assert "| 2 | spark1 port 1 | spark3 port 0 | 192.168.187.0/24 | 192.168.188.0/24 |" in sheet
    assert "next to the RJ45 socket" in sheet
    for node in plan["nodes"].values():
        for interface in node["interfaces"].values():
            assert interface["name"] in sheet and interface["address"] in sheet
    many = make_plan({f"n{number}": {"fabric_topology": "switch"} for number in range(1, 65)})
    assert "the switch" in cabling_sheet(many) and "..." in cabling_sheet(many)


@pytest.mark.parametrize("broken", [{}, {"hostfile": 1}, {"nodes": None, "hostfile": []}])
def test_anything_but_a_plan_is_refused(broken: dict[str, Any]) -> None:
    with pytest.raises(FabricError, match="the plan to write is incomplete"):
        documents_of(broken)


def test_folder_is_written_once_and_left_alone_after(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "new" / "plan"
    documents = documents_of(plan_of())
    changes = differences(folder, documents, MARK)
    assert not folder.exists() and len(changes) == len(documents)
    apply(folder, changes)
    assert differences(folder, documents, MARK) == []
    assert {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()} == set(documents)
    (folder / "hostfile").write_bytes(b"\xff")
    assert [change.path for change in differences(folder, documents, MARK)] == ["hostfile"]


def test_files_of_hosts_that_left_go_and_other_files_stay(tmp_path: pathlib.Path) -> None:
    apply(tmp_path, differences(tmp_path, documents_of(plan_of()), MARK))
    foreign = tmp_path / "spark3" / "notes.txt"
    foreign.write_text("mine")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "nccl.env").write_text("NCCL_DEBUG=INFO\n")
    pair = documents_of(plan_of(2, fabric_topology="pair"))
    changes = differences(tmp_path, pair, MARK)
    assert {change.path for change in changes if change.after is None} == {"spark3/40-cx7.yaml", "spark3/nccl.env", "spark3/vllm.env"}
    apply(tmp_path, changes)
    assert foreign.read_text() == "mine" and (tmp_path / "other" / "nccl.env").exists()
    assert not (tmp_path / "spark3" / "nccl.env").exists() and differences(tmp_path, pair, MARK) == []


def readme_row(variable: Variable) -> str:
    if variable.default is REQUIRED:
        default = "required"
    else:
        default = "" if variable.default is None else "`" + json.dumps(variable.default).strip('"') + "`"
    return f"| `{variable.name}` | {default} | {variable.kind.expected} | {'*host*; ' if variable.scope == 'host' else ''}{variable.description} |"


def test_readme_of_the_role_has_the_table_of_variables() -> None:
    rows = [line for line in README.read_text().splitlines() if line.startswith("| `fabric_")]
    assert rows == [readme_row(variable) for variable in VARIABLES.values()]
