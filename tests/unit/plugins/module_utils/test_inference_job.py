# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The job of an inference measurement against real HTTP servers; the load generator is a stand-in here, the real one in tests/integration."""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.module_utils import inference_job_spec, load_generator
from ansible_collections.dgxspark.fabric.plugins.module_utils.aiperf_run import KEY_VARIABLE
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import NOT_FOUND, TIMED_OUT, Completed
from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_job import InferenceBench, Machine
from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_job_spec import JobInputError, parse_job
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_jobs import make_inference_job
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils.openai_server import serving
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils.test_inference_results import FIXTURES

#: Writes what aiperf wrote for real, where its configuration says.
STAND_IN = """#!{python}
import json, os, pathlib, shutil, sys, time
if sys.argv[1:] == ["--version"]:
    print("0.13.0")
    raise SystemExit
config = json.loads(pathlib.Path(sys.argv[sys.argv.index("--config") + 1]).read_text())["benchmark"]
folder = pathlib.Path(config["artifacts"]["dir"])
(folder / "seen.json").write_text(json.dumps({{"config": config, "key": os.environ.get("{key}"), "arguments": sys.argv}}))
{body}
"""
GOOD = """
(folder / "profile_export.jsonl").write_text("{}\\n" * 12)
shutil.copy("%(fixtures)s/aiperf-0.13.0.json", folder / "profile_export_aiperf.json")
"""
HALF_BROKEN = """
shutil.copy("%(fixtures)s/aiperf-0.13.0-http-500.json", folder / "profile_export_aiperf.json")
shutil.copy("%(fixtures)s/aiperf-requests-ended_early.jsonl", folder / "profile_export_raw.jsonl")
"""
ALL_BROKEN = """
(folder / "raw_records").mkdir()
lines = pathlib.Path("%(fixtures)s/aiperf-requests-http.jsonl").read_text().splitlines()[:2]
(folder / "raw_records/raw_records_1.jsonl").write_text("\\n".join(lines))
print("ERROR    All 12 inference request(s) failed; no successful responses were collected.")
raise SystemExit(1)
"""
NO_TOKENIZER = """
print(pathlib.Path("%(fixtures)s/aiperf-no-tokenizer.txt").read_text())
raise SystemExit(1)
"""
ENDLESS = """
time.sleep(600)
"""


def generator(folder: pathlib.Path, body: str) -> str:
    path = folder / "aiperf"
    path.write_text(STAND_IN.format(python=sys.executable, key=KEY_VARIABLE, body=body % {"fixtures": FIXTURES}), encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def job_of(url: str, **more: Any) -> dict[str, Any]:
    options = {"url": url, "input_tokens": 64, "output_tokens": 24, "concurrency": [2], "requests": 12, "warmup_requests": 2, "connect_seconds": 1.0,
               "stall_seconds": 0.5, "request_seconds": 4.0, "quantisation": "fp8"}
    return make_inference_job({**options, **{key: value for key, value in more.items() if key != "api_key"}}, "spark1", "abc12345", 2, 200.0) | {
        "api_key": more.get("api_key", "")}


def measure(tmp_path: pathlib.Path, job: dict[str, Any]) -> dict[str, Any]:
    bench = InferenceBench(parse_job(job), Machine(tmp_path / "state", look_seconds=0.05))
    bench.open()
    fact = bench.run()
    assert json.loads((bench.folder.path / "result.json").read_text(encoding="utf-8")) == fact
    assert json.loads((bench.folder.path / "progress.json").read_text(encoding="utf-8"))["status"] == fact["status"]
    return fact


def test_a_measurement_keeps_its_conditions_and_figures(tmp_path: pathlib.Path) -> None:
    with serving() as server:
        fact = measure(tmp_path, job_of(server.url, program=generator(tmp_path, GOOD), stack="NCCL 2.30.7", parallel="TP2", concurrency=[2, 4]))
    assert (fact["status"], fact["message"], fact["tool"]) == ("done", "", "aiperf 0.13.0")
    assert [run["conditions"] for run in fact["runs"]] == [
        {"model": "tiny", "quantisation": "fp8", "context_tokens": 4096, "input_tokens": 64, "output_tokens": 24, "concurrency": level,
         "stack": "NCCL 2.30.7, vLLM 0.12.3"} for level in (2, 4)]
    run = fact["runs"][0]
    assert (run["nodes"], run["link_gbps"], run["parallel"], run["errors"], run["requests"]) == (2, 200.0, "TP2", 0, {"ok": 12, "failed": 0})
    assert run["throughput_tokens_per_s"] > 0 and run["ttft_ms"]["p95"] > 0 and run["inter_token_ms"]["p99"] > 0


def test_the_key_is_in_no_file_and_on_no_command_line(tmp_path: pathlib.Path) -> None:
    with serving() as server:
        fact = measure(tmp_path, job_of(server.url, program=generator(tmp_path, GOOD), api_key="sk-very-secret", requests=10))
    seen = json.loads((tmp_path / "state/abc12345/aiperf-2/seen.json").read_text(encoding="utf-8"))
    assert seen["key"] == "sk-very-secret"
    assert seen["config"]["endpoint"]["apiKey"] == f"${{{KEY_VARIABLE}}}"
    written = [path.read_text(encoding="utf-8") for path in (tmp_path / "state").rglob("*.json") if path.name != "seen.json"]
    assert "sk-very-secret" not in "".join([*written, json.dumps(fact), *seen["arguments"]])


def test_prompts_are_never_the_same_and_the_server_counts(tmp_path: pathlib.Path) -> None:
    with serving() as server:
        measure(tmp_path, job_of(server.url, program=generator(tmp_path, GOOD), concurrency=[2, 40]))
    folder = tmp_path / "state/abc12345"
    two, forty = (json.loads((folder / f"aiperf-{level}.json").read_text(encoding="utf-8")) for level in (2, 40))
    assert two["randomSeed"] != forty["randomSeed"]
    assert two["benchmark"]["datasets" if "datasets" in two["benchmark"] else "dataset"]["entries"] == 14
    assert [phase["name"] for phase in two["benchmark"]["phases"]] == ["warmup", "profiling"]
    assert two["benchmark"]["endpoint"]["useServerTokenCount"] is True
    assert (two["benchmark"]["runtime"]["workers"], forty["benchmark"]["runtime"]["workers"]) == (1, 2)


@pytest.mark.parametrize(("fault", "reason"), [
    ("http", "http"), ("silent", "silent"), ("stalled", "stalled"), ("truncated", "truncated"), ("unauthorized", "unauthorized"), ("two_models", "model")])
def test_a_broken_endpoint_is_told_and_no_load_is_made(tmp_path: pathlib.Path, fault: str, reason: str) -> None:
    with serving(fault) as server:
        fact = measure(tmp_path, job_of(server.url, program="/nowhere/aiperf"))
    assert (fact["status"], fact["reason"], fact["runs"]) == ("refused", reason, [])


def test_prompts_that_do_not_fit_are_refused(tmp_path: pathlib.Path) -> None:
    with serving() as server:
        fact = measure(tmp_path, job_of(server.url, input_tokens=4000, output_tokens=200))
    assert (fact["status"], fact["reason"], fact["message"]) == ("refused", "context", "4000 + 200 tokens do not fit into the 4096 of tiny")


def test_a_half_broken_endpoint_keeps_what_failed(tmp_path: pathlib.Path) -> None:
    with serving() as server:
        fact = measure(tmp_path, job_of(server.url, program=generator(tmp_path, HALF_BROKEN), requests=3))
    run = fact["runs"][0]
    assert (run["errors"], run["failures"][0]["kind"]) == (4, "truncated")


def test_no_further_load_where_every_request_fails(tmp_path: pathlib.Path) -> None:
    with serving() as server:
        fact = measure(tmp_path, job_of(server.url, program=generator(tmp_path, ALL_BROKEN), concurrency=[2, 8]))
    assert (fact["status"], len(fact["runs"])) == ("done", 1)
    run = fact["runs"][0]
    assert (run["throughput_tokens_per_s"], run["errors"], run["failures"][0]["kind"], run["tool"]) == (None, 2, "http", "aiperf 0.13.0")
    assert run["incomplete"] == "2 of 12 requests ended within 600 s"


def test_a_tokenizer_that_cannot_be_had_is_told_with_the_way_out(tmp_path: pathlib.Path) -> None:
    with serving() as server:
        fact = measure(tmp_path, job_of(server.url, program=generator(tmp_path, NO_TOKENIZER)))
    assert (fact["status"], fact["reason"]) == ("failed", "tokenizer")
    assert "Dataset configuration failed: TokenizerError: Failed to load tokenizer '/srv/none': HFValidationError: Repo id" in fact["message"]
    assert "inference_bench_tokenizer" in fact["fix"]


def test_a_load_generator_that_does_not_end_is_ended(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inference_job_spec, "OVERHEAD_SECONDS", 0.0)
    monkeypatch.setattr(inference_job_spec, "GRACE_SECONDS", 0.0)
    with serving() as server:
        fact = measure(tmp_path, job_of(server.url, program=generator(tmp_path, ENDLESS), run_seconds=1))
    assert (fact["status"], fact["reason"]) == ("failed", "generator")
    assert fact["message"].startswith("aiperf did not end within 2 s, aiperf left no result")


@pytest.mark.parametrize(("field", "value", "text"), [
    ("url", "spark1:8000", "inference_bench_url: expected a URL such as"), ("concurrency", [], "inference_bench_concurrency"),
    ("concurrency", [0], "inference_bench_concurrency: expected a whole number from 1"), ("requests", "many", "inference_bench_requests"),
    ("version", "latest; rm", "inference_bench_version"), ("api", "embeddings", "inference_bench_api"), ("extra", [1], "inference_bench_extra"),
    ("model", ["a"], "inference_bench_model"), ("stall_seconds", True, "inference_bench_stall_seconds"), ("input_token", 1, "did you mean input_tokens")])
def test_bad_input_names_its_variable(field: str, value: Any, text: str) -> None:
    with pytest.raises(FabricError, match="inference_bench_") as raised:
        make_inference_job({"url": "http://host:1", field: value}, "spark1", "abc12345", 2, 200.0)
    assert text in str(raised.value)


@pytest.mark.parametrize(
    "document", [None, [], {}, {"run": "abc12345"}, {"run": "abc12345", "concurrency": [1], "version": "1.0", "kind": "chat", "api_key": "a b"}])
def test_what_is_no_job(document: Any) -> None:
    with pytest.raises(JobInputError):
        parse_job(document)


class Steps:
    """Answers to the commands that make an environment, by their names."""

    def __init__(self, **answers: Completed) -> None:
        self.answers, self.asked = answers, []

    def __call__(self, name: str, command: Any, seconds: float) -> Completed:
        self.asked.append((name, list(command)))
        if name == "venv" and "venv" not in self.answers:
            (pathlib.Path(command[-1]) / "bin").mkdir(parents=True)
        if name == "pip" and "pip" not in self.answers:
            program = pathlib.Path(command[0]).parent / "aiperf"
            program.write_text("", encoding="utf-8")
            program.chmod(0o755)
        usual = {"python": done(out="3.12\n"), "version": done(out="0.13.0\n")}
        return self.answers.get(name, usual.get(name, done()))


def done(rc: int = 0, out: str = "", err: str = "") -> Completed:
    return Completed((), rc, out, err)


def make(tmp_path: pathlib.Path, steps: Steps, found: tuple[str, ...] = ("python3.12",), **more: Any) -> str:
    options = {"python": "", "pip_options": ["--no-index"], "seconds": 60.0, **more}
    return load_generator.make(str(tmp_path / "envs"), "0.13.0", step=steps, find_program=lambda name: f"/usr/bin/{name}" if name in found else None, **options)


def test_the_environment_is_made_once(tmp_path: pathlib.Path) -> None:
    steps = Steps()
    program = make(tmp_path, steps)
    assert program == str(tmp_path / "envs/aiperf-0.13.0/bin/aiperf")
    assert [name for name, _command in steps.asked] == ["python", "venv", "pip", "version"]
    assert steps.asked[2][1][-2:] == ["--no-index", "aiperf==0.13.0"]
    again = Steps()
    assert (make(tmp_path, again), again.asked) == (program, [])
    (tmp_path / "envs/aiperf-0.13.0/.complete").unlink()
    assert make(tmp_path, Steps()) == program


@pytest.mark.parametrize(("answers", "found", "message", "fix"), [
    ({}, (), "needs Python 3.11, 3.12, 3.13: none is here", "python3.12-venv"),
    ({"python": done(out="3.10\n")}, ("python3",), "/usr/bin/python3 is 3.10", "inference_bench_python"),
    ({"venv": done(1, "The virtual environment was not created successfully because ensurepip is not\navailable.")}, ("python3.12",), "available.",
     "Install python3.12-venv."),
    ({"pip": done(1, err="ERROR: Could not find a version that satisfies the requirement aiperf==0.13.0\nERROR: No matching distribution found")},
     ("python3.12",), "Could not find a version that satisfies the requirement aiperf==0.13.0", "inference_bench_pip_options"),
    ({"pip": done(TIMED_OUT)}, ("python3.12",), "pip did not end within 60 s", "inference_bench_from: localhost"),
    ({"pip": done(1, err="fatal error: Python.h: No such file or directory\nERROR: Failed to build 'crick'")}, ("python3.12",), "Failed to build 'crick'",
     "build-essential, python3-dev"),
    ({"version": done(1, err="ImportError: libfoo.so")}, ("python3.12",), "does not run: ImportError: libfoo.so", "inference_bench_python"),
])
def test_why_there_is_no_load_generator(tmp_path: pathlib.Path, answers: dict[str, Completed], found: tuple[str, ...], message: str, fix: str) -> None:
    with pytest.raises(load_generator.GeneratorError) as raised:
        make(tmp_path, Steps(**answers), found)
    assert message in raised.value.message and fix in raised.value.fix
    assert not (tmp_path / "envs/aiperf-0.13.0").exists()


@pytest.mark.parametrize(("answer", "text"), [
    (done(NOT_FOUND, err="No such file"), "is not there"), (done(2, err="boom"), "ends with status 2: boom"), (done(out="0.9.0\n"), "is version 0.9.0")])
def test_an_installed_load_generator_that_does_not_fit(answer: Completed, text: str) -> None:
    with pytest.raises(load_generator.GeneratorError, match=text):
        load_generator.find("/opt/aiperf", "0.13.0", lambda command, timeout: answer)


def test_a_folder_that_cannot_be_written_to(tmp_path: pathlib.Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", encoding="utf-8")
    with pytest.raises(load_generator.GeneratorError, match="cannot be made"):
        load_generator.make(str(blocked / "envs"), "0.13.0", "", [], Steps(), 60.0, lambda name: f"/usr/bin/{name}")
    assert os.path.isfile(blocked)
