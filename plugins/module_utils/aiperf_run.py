# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run of aiperf: its configuration, and what its files say of it."""

from __future__ import annotations

import dataclasses
import pathlib
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils import aiperf_output
from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_job_spec import GRACE_SECONDS, InferenceJob
from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_record import RESULT_LIMIT, LoadResult, ResultError, together

#: The key of the API reaches aiperf in its environment: a command line can be read by every user of the machine.
KEY_VARIABLE = "DGXSPARK_FABRIC_API_KEY"
#: One process drives this many requests at once; few processes leave the processors to the server, where it runs on the same machine.
REQUESTS_A_WORKER = 32
#: The prompts of two runs are the same.
SEED = 20261201


def config(job: InferenceJob, model: str, concurrency: int, folder: str) -> dict[str, t.Any]:
    """Return the configuration of one run, which aiperf takes as YAML and so as JSON.

    A request may take as long as nothing may come plus the time of its answer: aiperf has one limit for both.
    """
    phase = {"type": "concurrency", "concurrency": concurrency, "duration": job.run_seconds, "gracePeriod": GRACE_SECONDS}
    warmup = {**phase, "name": "warmup", "requests": job.warmup_requests, "excludeFromResults": True}
    return {
        "schemaVersion": "2.0",
        "randomSeed": SEED,
        "benchmark": {
            "model": model,
            "endpoint": {
                "url": job.endpoint.url, "path": job.endpoint.path, "type": job.endpoint.kind, "streaming": True, "useLegacyMaxTokens": True,
                "timeout": job.endpoint.answer_seconds, **({"extra": dict(job.endpoint.extra)} if job.endpoint.extra else {}),
                **({"apiKey": f"${{{KEY_VARIABLE}}}"} if job.endpoint.api_key else {})},
            "dataset": {
                "type": "synthetic", "entries": job.requests,
                "prompts": {"isl": {"mean": job.input_tokens, "stddev": 0}, "osl": {"mean": job.output_tokens, "stddev": 0}}},
            "tokenizer": {"name": job.tokenizer or model},
            "phases": [*([warmup] if job.warmup_requests else []), {**phase, "name": aiperf_output.PROFILING, "requests": job.requests}],
            "artifacts": {"dir": folder, "summary": ["json"], "records": ["jsonl"], "raw": True},
            "gpuTelemetry": {"enabled": False},
            "serverMetrics": {"enabled": False},
            "runtime": {"ui": "none", "workers": 1 + (concurrency - 1) // REQUESTS_A_WORKER, "recordProcessors": 1},
            "logging": {"level": "WARNING"},
        },
    }


def command(program: str, configuration: str) -> list[str]:
    """Return the command line of a run."""
    return [program, "profile", "--config", configuration]


def environment(job: InferenceJob, folder: str) -> dict[str, str]:
    """Return what aiperf needs in its environment; ``folder`` takes its caches where there is no home."""
    added = {KEY_VARIABLE: job.endpoint.api_key} if job.endpoint.api_key else {}
    return {**added, "TOKENIZERS_PARALLELISM": "false", "NO_PROXY": "*", "no_proxy": "*", "TMPDIR": folder}


def ended(folder: pathlib.Path) -> int:
    """Return how many requests have ended so far, warm-up included, as far as aiperf has written them down."""
    try:
        with open(folder / aiperf_output.REQUESTS, "rb") as stream:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(1 << 20), b""))
    except OSError:
        return 0


def read(folder: pathlib.Path, stall_seconds: float) -> LoadResult:
    """Return what a run's files say.

    :raises ResultError: when there is no result
    """
    try:
        with open(folder / aiperf_output.SUMMARY, encoding="utf-8", errors="replace") as stream:
            result = aiperf_output.parse(stream.read(RESULT_LIMIT))
    except OSError as error:
        raise ResultError(f"aiperf left no result ({error.strerror})") from None
    try:
        with open(folder / aiperf_output.RAW, encoding="utf-8", errors="replace") as stream:
            requests = aiperf_output.read_requests(stream, stall_seconds)
    except OSError:
        return result
    if not requests.ok and not requests.failures:
        return result
    return dataclasses.replace(
        result, ok=requests.ok, failed=max(result.failed, len(requests.failures)), failures=together(requests.failures) or result.failures)
