# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Results of load generators as records: what the tools wrote for real, what their formats allow, and what is none of it."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.module_utils import aiperf_output, aiperf_run, guidellm_output, vllm_bench_output
from ansible_collections.dgxspark.fabric.plugins.module_utils.aiperf_output import Limits
from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_record import FAILURES, Failure, ResultError, Spread, Terms, record

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures/inference"
LIMITS = Limits(request_seconds=4.0, stall_seconds=3.0)


def fixture(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def test_aiperf_good() -> None:
    result = aiperf_output.parse(fixture("aiperf-0.13.0.json"))
    written = json.loads(fixture("aiperf-0.13.0.json"))
    assert (result.tool, result.model, result.concurrency, result.ok, result.failed) == ("aiperf 0.13.0", "tiny", 2, 12, 0)
    assert result.tokens_per_s == written["output_token_throughput"]["avg"]
    assert result.ttft_ms == Spread(*(written["time_to_first_token"][key] for key in ("avg", "p50", "p95", "p99")))
    assert result.inter_token_ms.p95 == written["inter_token_latency"]["p95"]
    assert result.request_ms.p99 == written["request_latency"]["p99"]
    assert (result.input_tokens, result.output_tokens) == (written["input_sequence_length"]["avg"], 24.0)
    assert (result.failures, result.incomplete) == ((), "")
    assert result.started.startswith("2026-12-01T12:5")
    assert 0 < result.seconds < 60


def test_aiperf_with_errors() -> None:
    result = aiperf_output.parse(fixture("aiperf-0.13.0-http-500.json"))
    assert (result.ok, result.failed) == (8, 4)
    assert [(failure.kind, failure.count) for failure in result.failures] == [("http", 4)]
    assert result.failures[0].message.startswith('HTTP 500: {"error": {"message": "CUDA error: out of memory"')


@pytest.mark.parametrize(("name", "ok", "kinds", "text"), [
    ("good", 1, [], ""),  # the warm-up beside it does not count
    ("http", 1, ["http", "http"], "HTTP 500"),
    ("stalled", 1, ["stalled", "stalled"], "the stream stopped after 3 pieces: nothing came for 4 s"),
    ("truncated", 1, ["truncated", "truncated"], "Response payload is not completed"),
    ("ended_early", 1, ["truncated", "truncated"], "ended after 3 pieces without finish_reason and without [DONE]"),
])
def test_requests_tell_how_they_failed(name: str, ok: int, kinds: list[str], text: str) -> None:
    seen = aiperf_output.read_requests(fixture(f"aiperf-requests-{name}.jsonl").splitlines(), LIMITS)
    assert (seen.ok, [failure.kind for failure in seen.failures]) == (ok, kinds)
    assert all(text in failure.message for failure in seen.failures)


def test_text_that_keeps_coming_is_slow_and_not_stalled() -> None:
    request = json.loads(fixture("aiperf-requests-stalled.jsonl").splitlines()[0])
    request["responses"][-1]["perf_ns"] = request["start_perf_ns"] + 3_500_000_000
    failure = aiperf_output.request_failure(request, LIMITS)
    assert (failure.kind, failure.message) == ("slow", "the answer was not done after 4 s, 3 pieces had come")
    request["responses"] = []
    assert aiperf_output.request_failure(request, LIMITS) == Failure("stalled", 1, "nothing came for 4 s")


@pytest.mark.parametrize(("error", "kind"), [
    ({"code": 503, "type": "Service Unavailable", "message": ""}, "http"),
    ({"type": "ClientConnectorError", "message": "Cannot connect to host 127.0.0.1:9"}, "refused"),
    ({"type": "TimeoutError", "message": "TimeoutError()", "cause_chain": ["TimeoutError", "CancelledError"]}, "stalled"),
    ({"type": "ServerDisconnectedError", "message": "Server disconnected"}, "truncated"),
    ({"code": 502, "type": "SSEResponseError", "message": "engine died"}, "http"),
    ({"code": 499, "type": "RequestCancellationError", "message": "Request cancelled by external signal"}, "other"),
    ({"type": "Strange"}, "other"),
])
def test_kinds_of_errors_of_aiperf(error: dict[str, Any], kind: str) -> None:
    assert aiperf_output.kind_of(error) == kind


def test_an_error_within_a_stream_is_one() -> None:
    request = json.loads(fixture("aiperf-requests-ended_early.jsonl").splitlines()[0])
    request["responses"][-1]["packets"] = [{"name": "data", "value": '{"error": {"message": "EngineCore died"}}'}]
    failure = aiperf_output.request_failure(request, LIMITS)
    assert (failure.kind, "EngineCore died" in failure.message) == ("http", True)


def test_where_all_failed_there_is_no_summary_and_the_requests_tell(tmp_path: pathlib.Path) -> None:
    parts = tmp_path / "raw_records"
    parts.mkdir()
    failing = fixture("aiperf-requests-http.jsonl").splitlines()[:2]
    (parts / "raw_records_1.jsonl").write_text("\n".join(failing), encoding="utf-8")
    result = aiperf_run.read(tmp_path, LIMITS)
    assert (result.ok, result.failed, result.tokens_per_s, result.failures[0].kind) == (0, 2, None, "http")
    (parts / "raw_records_1.jsonl").unlink()
    with pytest.raises(ResultError, match="aiperf left no result"):
        aiperf_run.read(tmp_path, LIMITS)


#: As ``--save-result --metric-percentiles 95,99`` writes it.
VLLM = {
    "date": "20261201-101500", "endpoint_type": "openai-chat", "backend": "openai-chat", "label": None, "model_id": "GLM-5.2", "tokenizer_id": "GLM-5.2",
    "num_prompts": 100, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 8, "duration": 300.0, "completed": 100, "failed": 0,
    "total_input_tokens": 102400, "total_output_tokens": 25600, "request_throughput": 0.333, "output_throughput": 85.33, "total_token_throughput": 426.6,
    "mean_ttft_ms": 812.5, "median_ttft_ms": 790.1, "std_ttft_ms": 101.0, "p95_ttft_ms": 1002.2, "p99_ttft_ms": 1210.9, "mean_tpot_ms": 88.0,
    "median_tpot_ms": 87.5, "std_tpot_ms": 3.1, "p95_tpot_ms": 93.0, "p99_tpot_ms": 95.2, "mean_itl_ms": 88.1, "median_itl_ms": 86.9, "std_itl_ms": 12.0,
    "p95_itl_ms": 104.0, "p99_itl_ms": 131.5}


def test_vllm() -> None:
    result = vllm_bench_output.parse(json.dumps(VLLM))
    assert (result.model, result.concurrency, result.ok, result.failed, result.tokens_per_s) == ("GLM-5.2", 8, 100, 0, 85.33)
    assert result.ttft_ms == Spread(812.5, 790.1, 1002.2, 1210.9)
    assert result.inter_token_ms == Spread(88.1, 86.9, 104.0, 131.5)
    assert result.request_ms == Spread()
    assert (result.input_tokens, result.output_tokens, result.started) == (1024.0, 256.0, "2026-12-01T10:15:00")


def test_vllm_with_errors_and_pairs_of_percentiles() -> None:
    errors = [
        "", "Traceback (most recent call last):\naiohttp.client_exceptions.ClientPayloadError: Response payload is not completed", "Internal Server Error",
        "asyncio.exceptions.TimeoutError"]
    document = {**VLLM, "completed": 95, "errors": errors, "p95_itl_ms": None, "percentiles_itl_ms": [[95.0, 104.5], [99.0, 131.5]]}
    result = vllm_bench_output.parse(json.dumps(document))
    assert result.failed == 5
    assert [(failure.kind, failure.count) for failure in result.failures] == [("http", 1), ("stalled", 1), ("truncated", 1), ("other", 2)]
    assert result.inter_token_ms.p95 == 104.5


@pytest.mark.parametrize("parse", [aiperf_output.parse, guidellm_output.parse, vllm_bench_output.parse])
@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", "1", '{"benchmarks": []}', '{"benchmarks": [1, {}]}', "[" * 100000])
def test_what_is_no_result(parse: Any, text: str) -> None:
    with pytest.raises(ResultError):
        parse(text)


KEYS = [
    "request_count", "error_request_count", "error_summary", "error_details", "avg", "p95", "unit", "count", "code", "type", "message", "input_config",
    "phases", "name", "models", "items", "benchmarks", "metrics", "request_totals", "successful", "errored", "requests", "percentiles", "info", "error",
    "config", "strategy", "streams", "start_time", "duration", "completed", "output_throughput", "total_output_tokens", "errors", "percentiles_itl_ms",
    "num_prompts", "metadata", "benchmark_phase", "responses", "packets", "value", "start_perf_ns", "perf_ns", "cause_chain", "time_to_first_token",
    "output_token_throughput", "time_to_first_token_ms", "guidellm_version", "date"]
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["profiling", "data", "ms", "TimeoutError", "[DONE]"]) | st.text(max_size=6)
DOCUMENTS = st.dictionaries(st.sampled_from(KEYS), st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4), max_leaves=12), max_size=8)


@given(document=DOCUMENTS, floor=st.booleans())
def test_nothing_but_the_own_error_is_raised(document: dict[str, Any], floor: bool) -> None:
    if floor:
        document = {"completed": 1, "output_throughput": 2, "total_output_tokens": 3, "request_count": {"avg": 1}, "duration": 1, **document}
    text = json.dumps(document)
    for parse in (aiperf_output.parse, guidellm_output.parse, vllm_bench_output.parse):
        try:
            parsed = parse(text)
        except ResultError:
            continue
        for result in parsed if isinstance(parsed, list) else [parsed]:
            assert json.dumps(record(result, TERMS), allow_nan=False)
            assert result.failed >= 0 and all(failure.kind in FAILURES for failure in result.failures)
    seen = aiperf_output.read_requests([text], LIMITS)
    assert all(failure.kind in FAILURES for failure in seen.failures)


TERMS = Terms(model="m", quantisation="", context_tokens=0, input_tokens=1, output_tokens=1, concurrency=1, stack="", nodes=1, link_gbps=200.0, parallel="")


def test_a_record_states_no_condition_that_nobody_knows() -> None:
    assert record(vllm_bench_output.parse(json.dumps(VLLM)), TERMS)["conditions"] == {"model": "m", "input_tokens": 1, "output_tokens": 1, "concurrency": 1}


def test_guidellm() -> None:
    (result,) = guidellm_output.parse(fixture("guidellm-0.8.1.json"))
    metrics = json.loads(fixture("guidellm-0.8.1.json"))["benchmarks"][0]["metrics"]
    assert (result.tool, result.model, result.concurrency, result.ok, result.failed) == ("guidellm 0.8.1", "tiny", 2, 8, 4)
    assert [(failure.kind, failure.count) for failure in result.failures] == [("http", 4)]
    assert result.tokens_per_s == metrics["output_tokens_per_second"]["successful"]["mean"]
    assert result.tokens_per_s == pytest.approx(8 * 24 / result.seconds, rel=0.01)
    assert result.request_ms.p50 == 1000 * metrics["request_latency"]["successful"]["percentiles"]["p50"]
    assert (result.input_tokens, result.output_tokens) == (10.0, 24.0)
