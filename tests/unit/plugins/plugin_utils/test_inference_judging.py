# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Findings of layer inference from what was measured, alone and in a report; results of others taken over."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_facts import inference_facts, kept, progress_line, together, with_measured
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_import import import_results
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_runs import read_runs, scaling
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_verdict import judge_inference, measured_lines
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import judge_again, make_report, report_files
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils.test_inference_results import FIXTURES, VLLM
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_judge import run_of
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.test_report import schema_errors

SPREAD = {"mean": 50.0, "p50": 48.0, "p95": 61.0, "p99": 72.0}
RUN: dict[str, Any] = {
    "nodes": 2, "link_gbps": 200.0, "throughput_tokens_per_s": 90.0, "errors": 0, "requests": {"ok": 100, "failed": 0}, "failures": [], "incomplete": "",
    "conditions": {"model": "m", "quantisation": "fp8", "context_tokens": 4096, "input_tokens": 64, "output_tokens": 24, "concurrency": 8,
                   "stack": "vLLM 0.12"},
    "ttft_ms": SPREAD, "inter_token_ms": SPREAD, "request_ms": SPREAD, "measured_input_tokens": 64.0, "measured_output_tokens": 24.0, "parallel": "TP2"}


def fact(*runs: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"run": "abc12345", "node": "spark1", "status": "done", "reason": "", "message": "", "fix": "", "url": "http://spark1:8000", "tool": "aiperf 0.13.0",
            "endpoint": {}, "runs": list(runs), **more}


def failing(kind: str, message: str) -> dict[str, Any]:
    return fact({**RUN, "errors": 3, "requests": {"ok": 97, "failed": 3}, "failures": [{"kind": kind, "count": 3, "message": message}]})


def refused(reason: str, message: str, **more: Any) -> dict[str, Any]:
    return fact(status="refused", reason=reason, message=message, **more)


CASES: list[tuple[str, dict[str, Any], dict[str, str], str]] = [
    ("good", fact(RUN), {}, "the endpoint was measured without an error"),
    ("refused", refused("refused", "spark1:8000 refuses the connection"), {"inference.refused": "fail"}, "spark1:8000 refuses the connection"),
    ("tls", refused("tls", "no TLS"), {"inference.refused": "fail"}, "no TLS"),
    ("http", refused("http", "HTTP 500"), {"inference.http": "fail"}, "HTTP 500"),
    ("key", refused("unauthorized", "wants a key"), {"inference.http": "fail"}, "wants a key"),
    ("silent", refused("silent", "sent nothing for 60 s"), {"inference.stalled": "fail"}, "sent nothing"),
    ("truncated", refused("truncated", "broke off"), {"inference.truncated": "fail"}, "broke off"),
    ("model", refused("model", "does not serve x"), {"inference.fits": "fail"}, "does not serve x"),
    ("context", refused("context", "do not fit", fix="Lower them."), {"inference.fits": "fail"}, "do not fit"),
    ("some refused", failing("refused", "Cannot connect"), {"inference.refused": "fail"}, "m on 2 nodes, 8 at once: 3 of 100 requests (Cannot connect)"),
    ("some 500", failing("http", "HTTP 500: boom"), {"inference.http": "fail"}, "3 of 100 requests (HTTP 500: boom)"),
    ("some stalled", failing("stalled", "nothing came for 60 s"), {"inference.stalled": "fail"}, "3 of 100 requests (nothing came for 60 s)"),
    ("some slow", failing("slow", "not done after 600 s"), {"inference.slow": "fail"}, "too slow"),
    ("some truncated", failing("truncated", "without [DONE]"), {"inference.truncated": "fail"}, "without [DONE]"),
    ("some other", failing("other", "strange"), {"inference.failed": "fail"}, "strange"),
    ("of no kind", failing("new", "strange"), {"inference.failed": "fail"}, "strange"),
    ("no generator", fact(status="failed", reason="generator", message="aiperf cannot be installed", fix="Give a folder of wheels."),
     {"inference.generator": "fail"}, "aiperf cannot be installed"),
    ("lost", fact(status="lost", message="no result came"), {"inference.measured": "unknown"}, "no result came"),
    ("no figure", fact({**RUN, "throughput_tokens_per_s": None}), {"inference.figures": "unknown"}, "No throughput"),
    ("cut short", fact({**RUN, "incomplete": "40 of 100 requests ended within 600 s"}), {"inference.complete": "warn"}, ""),
    ("short answers", fact({**RUN, "measured_output_tokens": 9.0}), {"inference.lengths": "warn"}, ""),
    ("not stated", fact({**RUN, "conditions": {**RUN["conditions"], "stack": ""}}), {"inference.conditions": "warn"}, ""),
    ("slow first token", fact({**RUN, "ttft_ms": {**SPREAD, "p95": 20000.0}}), {"inference.ttft": "warn"}, ""),
    ("slow tokens", fact({**RUN, "inter_token_ms": {**SPREAD, "p95": 450.0}}), {"inference.inter_token": "warn"}, ""),
]


@pytest.mark.parametrize(("measured", "wanted", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_each_fault_has_its_finding(measured: dict[str, Any], wanted: dict[str, str], text: str) -> None:
    verdict = judge_inference({"spark1": measured}, "lab")
    told = {finding["id"]: finding["status"] for finding in verdict["findings"] if finding["status"] not in ("pass", "skip")}
    assert told == wanted
    assert verdict["status"] == ("fail" if {"fail", "unknown"} & set(wanted.values()) else "pass")
    assert text in verdict["message"]
    for finding in verdict["findings"]:
        if finding["status"] not in ("pass", "skip"):
            assert finding["message"] and finding["cause"] and finding["fix"]
            assert "{" not in finding["message"].replace('{"', "") + finding["fix"]
            assert any(finding["message"] in line for line in verdict["lines"])


def test_nothing_passes_that_was_not_looked_at() -> None:
    verdict = judge_inference({"spark1": refused("refused", "no")}, "lab")
    assert {finding["id"] for finding in verdict["findings"] if finding["status"] == "pass"} == {"inference.measured"}


def test_limits_are_the_sites() -> None:
    rules = [{"id": "inference.ttft", "warn": 20, "fail": 40}]
    verdict = judge_inference({"spark1": fact(RUN)}, "lab", rules)
    assert (verdict["status"], "The first token takes long: m on 2 nodes, 8 at once: 61.0 ms" in verdict["message"]) == ("fail", True)
    with pytest.raises(FabricError):
        judge_inference({}, "lab", [{"id": "inference.ttft", "warm": 1}])


def test_lines_show_every_percentile() -> None:
    (line,) = judge_inference({"spark1": fact(RUN)}, "lab")["lines"]
    assert line == "  m on 2 nodes, 8 at once: 90.0 tokens/s; " + "; ".join(
        f"{what} P50 48.0, P95 61.0, P99 72.0 ms" for what in ("first token", "between tokens", "request"))


def report_with(measured: dict[str, Any]) -> dict[str, Any]:
    stored = make_report(run_of("mesh"))
    return judge_again({**stored, "inference": with_measured(stored["inference"], {"spark1": measured})})


def test_a_stored_run_takes_the_runs_and_its_verdict_speaks_of_them() -> None:
    report = report_with(fact(RUN))
    ids = {finding["id"] for finding in report["findings"] if finding["layer"] == "inference"}
    assert {"inference.refused", "inference.ttft"} <= ids and report["verdict"]["status"] == "pass"
    assert not schema_errors(json.loads(json.dumps(report)))
    files = report_files(report)
    assert "inference.ttft" in files["report.json"] or b"inference.ttft" in files["report.json"]
    broken = report_with(failing("truncated", "broke off"))
    assert broken["verdict"]["status"] == "fail" and "inference.truncated on " in broken["verdict"]["message"]


def test_a_run_without_inference_says_nothing_of_it() -> None:
    assert not [finding for finding in make_report(run_of("mesh"))["findings"] if finding["layer"] == "inference"]


def test_runs_of_one_host_are_kept_together_and_the_newer_one_counts() -> None:
    one_node = {**RUN, "nodes": 1, "throughput_tokens_per_s": 60.0}
    stored = together(None, fact(RUN, one_node))
    again = together(stored, fact({**RUN, "throughput_tokens_per_s": 95.0}))
    assert [(run["nodes"], run["throughput_tokens_per_s"]) for run in again["runs"]] == [(1, 60.0), (2, 95.0)]
    runs, problems = read_runs({"spark1": again}, 200.0)
    assert (problems, round(scaling(runs, 200.0).percent)) == ([], 79)


def test_a_run_with_errors_is_left_out_of_the_verdict_on_buying() -> None:
    runs, problems = read_runs({"spark1": fact({**RUN, "errors": 2, "throughput_tokens_per_s": None})}, 200.0)
    assert (runs, problems) == ([], ["inference run 1 of spark1 had errors (2), its throughput does not count"])


def read_fixture(path: str) -> str:
    return json.dumps(VLLM) if path == "vllm.json" else (FIXTURES / path).read_text(encoding="utf-8")


STATED = {"quantisation": "fp8", "context_tokens": 4096, "stack": "vLLM 0.12", "nodes": 2, "link_gbps": 200.0}


def test_results_of_others_are_taken_over() -> None:
    found = import_results(
        [{"path": "aiperf-0.13.0.json"}, {"path": "guidellm-0.8.1.json", "nodes": 1, "input_tokens": 64}, {"path": "vllm.json", "link_gbps": 100}], STATED,
        read_fixture, "localhost")
    assert found["tool"] == "aiperf 0.13.0, guidellm 0.8.1, vllm bench serve"
    assert [(run["source"], run["nodes"], run["link_gbps"], run["errors"], run["conditions"]["model"]) for run in found["runs"]] == [
        ("aiperf-0.13.0.json", 2, 200.0, 0, "tiny"), ("guidellm-0.8.1.json", 1, 200.0, 4, "tiny"), ("vllm.json", 2, 100, 0, "GLM-5.2")]
    assert found["runs"][1]["conditions"]["input_tokens"] == 64
    runs, problems = read_runs({"localhost": found}, 200.0)
    assert (len(runs), len(problems)) == (2, 1)


@pytest.mark.parametrize(("entry", "text"), [
    ("x.json", "expected a mapping with path"), ({"path": ""}, "expected a mapping with path"), ({"path": "none.json"}, "none.json cannot be read"),
    ({"path": "aiperf-0.13.0.json", "node": 1}, "did you mean nodes?"), ({"path": "aiperf-0.13.0.json", "nodes": "two"}, "expected a whole number above 0"),
    ({"path": "aiperf-requests-good.jsonl"}, "is no result of guidellm, aiperf, vllm bench serve")])
def test_what_cannot_be_taken_over(entry: Any, text: str) -> None:
    with pytest.raises(FabricError, match="inference_bench_import: entry 1") as raised:
        import_results([entry], STATED, read_fixture, "localhost")
    assert text in str(raised.value)


def test_a_job_that_brought_nothing() -> None:
    nothing = kept({"run": "r", "node": "spark1", "status": "lost", "message": "gone", "tests": []})
    assert (nothing["status"], nothing["reason"], nothing["runs"]) == ("lost", "lost", [])
    assert "tests" not in kept({**fact(RUN), "tests": []})


def test_progress_in_words() -> None:
    progress = {"what": "8 at once", "round": 2, "rounds": 3, "ended": 40, "wanted": 108, "seconds_left": 25.2}
    assert progress_line(progress) == "8 at once (2 of 3), 40 of 108 requests ended, about 25 s left"
    assert progress_line({}) == "nothing yet, about 0 s left"


VALUES = st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=4) | st.lists(st.integers(), max_size=2)


@given(changes=st.dictionaries(st.sampled_from(sorted(RUN)), VALUES | st.dictionaries(st.sampled_from(["p95", "ok", "model", "concurrency"]), VALUES)))
@settings(max_examples=60, phases=(Phase.explicit, Phase.reuse, Phase.generate))
def test_whatever_a_stored_run_holds_is_laid_out(changes: dict[str, Any]) -> None:
    run = {**copy.deepcopy(RUN), **changes}
    assert "runs" in inference_facts({"spark1": fact(run)})
    assert measured_lines(fact(run))
