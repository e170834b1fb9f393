# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_facts import with_measured
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.measured_layers import inference_beside
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.redaction import mask_secrets
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import judge_again, make_report, redacted, report_files, with_bottleneck
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_folder import load, rewrite, store
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.run_history import compare_with, comparisons, newest_for, scenario_run, spared
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_name import scenario_of
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_table import scenario_reports, scenario_rows
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.summary import summary_lines

display = Display()


class ActionModule(ActionBase):
    """Judge a run and write its report on the controller; no host is connected to and no privilege taken."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        result = super().run(tmp, task_vars)
        _validated, arguments = self.validate_argument_spec(
            argument_spec={
                "results": {"type": "dict"},
                "source": {"type": "path"},
                "rules": {"type": "list", "elements": "dict", "default": []},
                "dest": {"type": "path"},
                "keep": {"type": "int", "default": 20},
                "redact": {"type": "bool", "default": False},
                "baseline": {"type": "str"},
                "noise_percent": {"type": "float", "default": 10.0},
                "scenario": {"type": "dict", "default": {}},
                "scenarios": {"type": "list", "elements": "dict", "default": []},
                "inference": {"type": "list", "elements": "dict", "default": []},
                "measured_inference": {"type": "dict", "default": {}},
                "bottleneck": {"type": "bool", "default": False},
                "started": {"type": "str"},
                "show": {"type": "bool", "default": True},
            },
            mutually_exclusive=[("results", "source")],
            required_one_of=[("results", "source")],
        )
        try:
            report, folder = self._report(plain(arguments))
        except FabricError as error:
            raise AnsibleActionFail(str(error)) from None  # the text says all; a cause would be printed beside it once more
        except OSError as error:
            raise AnsibleActionFail(f"the report cannot be written: {error}; set report_dir to a folder that you may write to") from None
        summary = [*summary_lines(report), f"Report: {folder}"]
        if arguments["show"]:
            display.display("\n".join(["", *summary, ""]))
        # A report is no state of a node: it is written in check mode too, and never counts as a change.
        result.update(
            changed=False,
            report=str(folder),
            run_id=report["run_id"],
            verdict=report["verdict"],
            summary=summary,
            cables={cable["name"]: cable["status"] for cable in report["cables"]},
            comparison=report.get("comparison", []),
        )
        return result

    def _report(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], Path]:
        """Make the report and write it; return it and its folder."""
        if arguments["source"] is not None:
            return self._again(arguments)
        results = arguments["results"]
        if isinstance(results.get("plan"), dict) and arguments["rules"]:
            results["plan"]["rules"] = [*(results["plan"].get("rules") or []), *arguments["rules"]]
        add_inference(results, arguments["inference"])
        report = make_report(results, started=arguments["started"] or None)
        folder = Path(arguments["dest"] or "reports").absolute()
        runs = folder / report["cluster"]
        bad_names: list[str] = []  # a mistyped name must not cost the run that was just measured
        try:
            compared = comparisons(report, runs, arguments["baseline"] or None, arguments["noise_percent"])
        except FabricError as error:
            bad_names.append(str(error))
            compared = comparisons(report, runs, None, arguments["noise_percent"])
        try:
            report = completed(report, arguments, runs, compared)
        except FabricError as error:
            bad_names.append(str(error))
            report = completed(report, {**arguments, "scenario": {}, "scenarios": []}, runs, compared)
        written = store(folder, report["cluster"], report["run_id"], report_files(report), arguments["keep"], spared(runs, compared))
        if bad_names:
            raise FabricError(f"{' '.join(bad_names)} The run itself is stored in {written}.")
        return report, written

    def _again(self, arguments: dict[str, Any]) -> tuple[dict[str, Any], Path]:
        """Judge a stored run again and write its files."""
        source = Path(arguments["source"]).absolute()
        stored = load(source)
        stored.get("plan", {}).setdefault("rules", []).extend(arguments["rules"])
        add_inference(stored, arguments["inference"])
        stored["inference"] = with_measured(stored.get("inference"), arguments["measured_inference"])
        report = judge_again(stored)
        beside = (source if source.is_dir() else source.parent).resolve()
        compared = [compare_with(report, beside.parent, arguments["baseline"], arguments["noise_percent"])] if arguments["baseline"] else None
        report = completed(report, arguments, beside.parent, compared)
        folder = Path(arguments["dest"]).absolute() if arguments["dest"] else source if source.is_dir() else source.parent
        rewrite(folder, report_files(report))
        return report, folder


def add_inference(results: dict[str, Any], runs: list[dict[str, Any]]) -> None:
    """Add runs of inference that were given by hand to those of the hosts."""
    if runs:
        results["inference"] = {**(results.get("inference") or {}), "localhost": {"runs": runs}}


def completed(report: dict[str, Any], arguments: dict[str, Any], runs: Path, compared: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Add to a judged run what it is compared with, and take out what must not leave."""
    if compared is not None:
        report["comparison"] = compared
    scenario = mask_secrets(scenario_of(arguments["scenario"]))
    if scenario:
        report["scenario"] = scenario
    if arguments["scenarios"]:
        reports = scenario_reports(arguments["scenarios"], lambda run: scenario_run(run, runs, report), lambda name: newest_for(name, runs, report))
        report["scenarios"] = scenario_rows(mask_secrets(arguments["scenarios"]), reports)
        report["inference"] = inference_beside(report, filter(None, reports.values()))
    report = with_bottleneck(report, arguments["bottleneck"])
    return redacted(report) if arguments["redact"] else report
