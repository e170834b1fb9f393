# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action plugin judges and writes on the controller, prints the summary, and never counts as a change."""

from __future__ import annotations

import json
import pathlib
import types
from typing import Any

import pytest

pytest.importorskip("ansible.plugins.action")

from ansible.errors import AnsibleActionFail  # noqa: E402
from ansible.parsing.dataloader import DataLoader  # noqa: E402
from ansible.playbook.task import Task  # noqa: E402

from ansible_collections.dgxspark.fabric.plugins.action import report as action_module  # noqa: E402
from ansible_collections.dgxspark.fabric.plugins.action.report import ActionModule  # noqa: E402
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_judge import CABLE, cut, run_of  # noqa: E402


def run_action(check_mode: bool = False, **arguments: Any) -> dict[str, Any]:
    """Run the action as a task would."""
    task = Task()
    task.action, task.args, task.check_mode = "dgxspark.fabric.report", arguments, check_mode
    connection = types.SimpleNamespace(_shell=types.SimpleNamespace(tmpdir="unused"))
    return ActionModule(task=task, connection=connection, play_context=None, loader=DataLoader(), templar=None, shared_loader_obj=None).run(task_vars={})


@pytest.fixture(name="shown")
def shown_fixture(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect what would be printed."""
    texts: list[str] = []
    monkeypatch.setattr(action_module.display, "display", lambda text, *_args, **_kwargs: texts.append(text))
    return texts


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_report_is_written_and_told(tmp_path: pathlib.Path, shown: list[str], check_mode: bool) -> None:
    data = run_of()
    cut(data)
    result = run_action(check_mode, results=data, dest=str(tmp_path), started="2026-11-30T22:15:00Z")
    assert result["changed"] is False
    assert result["verdict"]["status"] == "fail"
    assert result["cables"][CABLE] == "fail"
    folder = pathlib.Path(result["report"])
    assert folder.parent == tmp_path / "spark" and folder.name.startswith("20261130T221500Z-")
    assert json.loads((folder / "report.json").read_text(encoding="utf-8"))["verdict"] == result["verdict"]
    assert f"FAIL link.carrier on {CABLE}" in shown[0]
    assert result["summary"][-1] == f"Report: {folder}"
    json.dumps(result)


def test_a_stored_report_is_judged_by_other_rules(tmp_path: pathlib.Path, shown: list[str]) -> None:
    data = run_of()
    data["nodes"]["spark1"]["interfaces"]["enp1s0f0np0"]["speed_mbps"] = 100000
    first = run_action(results=data, dest=str(tmp_path / "reports"), show=False)
    assert shown == []
    assert first["verdict"]["status"] == "fail"
    again = run_action(source=first["report"], dest=str(tmp_path / "again"), rules=[{"id": "link.speed", "warn": 50, "fail": 50}])
    assert again["verdict"]["status"] == "pass"
    assert again["run_id"] == first["run_id"]
    assert (tmp_path / "again/summary.md").is_file()


@pytest.mark.parametrize(("arguments", "words"), [
    ({}, "one of the following is required"),
    ({"results": {"mode": "validate"}}, "the input lacks plan"),
    ({"source": "/nowhere"}, "report_from: /nowhere"),
])
def test_bad_arguments_fail_with_the_reason(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(Exception, match=words) as caught:
        run_action(**arguments)
    assert isinstance(caught.value, AnsibleActionFail) or "required" in words


def test_a_folder_that_cannot_be_written_is_named(tmp_path: pathlib.Path, shown: list[str]) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(AnsibleActionFail, match="set report_dir"):
        run_action(results=run_of("pair", 2), dest=str(tmp_path / "file"))


def test_runs_are_compared_and_redacted(tmp_path: pathlib.Path, shown: list[str]) -> None:
    first = run_action(results=run_of(), dest=str(tmp_path), started="2026-11-30T22:15:00Z")
    assert first["comparison"] == []
    data = run_of()
    cut(data)
    second = run_action(results=data, dest=str(tmp_path), started="2026-11-30T22:20:00Z", baseline=first["run_id"], redact=True)
    assert [entry["against"] for entry in second["comparison"]] == ["last_good", "baseline"]
    assert "02:00:00:00" not in (pathlib.Path(second["report"]) / "report.json").read_text(encoding="utf-8")
    assert f"Compared against the last good run {first['run_id']}: 6 figures lost, on {CABLE}" in shown[1]
    again = run_action(source=first["report"], baseline=second["run_id"], scenarios=[{"name": "A", "run": first["run_id"]}], dest=str(tmp_path / "again"))
    assert again["comparison"][0]["mended"] == [{"id": "link.carrier", "subject": CABLE}]
    assert json.loads((tmp_path / "again/report.json").read_text(encoding="utf-8"))["scenarios"][0]["run_id"] == first["run_id"]


def test_a_mistyped_baseline_does_not_cost_the_run(tmp_path: pathlib.Path, shown: list[str]) -> None:
    with pytest.raises(AnsibleActionFail, match="report_baseline: .*/nowhere cannot be read.*The run itself is stored in"):
        run_action(results=run_of("pair", 2), dest=str(tmp_path), baseline="/nowhere")
    assert (tmp_path / "spark/latest/report.html").is_file()


def test_a_mistyped_baseline_does_not_cost_the_scenario_and_notes_keep_no_secret(tmp_path: pathlib.Path, shown: list[str]) -> None:
    with pytest.raises(AnsibleActionFail, match="report_baseline: .* The run itself is stored in"):
        run_action(results=run_of("pair", 2), dest=str(tmp_path), baseline="/nowhere", scenario={"name": "A", "notes": "password=hunter2secret"})
    stored = (tmp_path / "spark/latest/report.json").read_text(encoding="utf-8")
    assert json.loads(stored)["scenario"]["name"] == "A" and "hunter2secret" not in stored


def test_a_run_is_named_and_stands_in_the_table_at_once(tmp_path: pathlib.Path, shown: list[str]) -> None:
    run = run_action(results=run_of("pair", 2), dest=str(tmp_path))
    run_action(source=run["report"], scenario={"name": "A", "nodes": 2}, scenarios=[{"name": "A", "p95": "token=abcdef0123456789 900 ms"}])
    folder = pathlib.Path(run["report"])
    stored = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert [row["run_id"] for row in stored["scenarios"]] == [run["run_id"], None, None]
    assert (folder / "scenarios.md").is_file() and "abcdef0123456789" not in "".join(path.read_text(encoding="utf-8") for path in folder.iterdir())


def test_inference_given_by_hand_counts_once_and_so_does_that_of_scenarios(tmp_path: pathlib.Path, shown: list[str]) -> None:
    conditions = dict.fromkeys(("model", "quantisation", "context_tokens", "input_tokens", "output_tokens", "concurrency", "stack"), "same")
    runs = [{"nodes": nodes, "throughput_tokens_per_s": rate, "conditions": conditions} for nodes, rate in ((1, 60), (3, 90))]
    first = run_action(results=run_of(), dest=str(tmp_path), bottleneck=True)
    assert "Bottleneck: not enough data: RDMA is good" in shown[-1]
    second = run_action(results=run_of(), dest=str(tmp_path), inference=runs)
    assert "More nodes: 3 nodes 90.0, 1 node 60.0 tokens/s" in shown[-1]
    for _again in range(2):
        run_action(source=second["report"], inference=runs, scenarios=[{"name": "A", "run": first["run_id"]}, {"name": "B", "run": second["run_id"]}])
        stored = json.loads((pathlib.Path(second["report"]) / "report.json").read_text(encoding="utf-8"))
        assert list(stored["inference"]) == ["localhost"] and stored["bottleneck"]["scaling"]["percent"] == 50.0
    run_action(source=first["report"], scenarios=[{"name": "B", "run": second["run_id"]}])
    assert "More nodes: 3 nodes 90.0" in shown[-1]
