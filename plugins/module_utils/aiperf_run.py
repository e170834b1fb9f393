# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run of aiperf: its configuration, and what its files say of it."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import typing as t
import zlib

from ansible_collections.dgxspark.fabric.plugins.module_utils import aiperf_output
from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_job_spec import GRACE_SECONDS, InferenceJob
from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_record import RESULT_LIMIT, LoadResult, ResultError, together

#: The key of the API reaches aiperf in its environment: a command line can be read by every user of the machine.
KEY_VARIABLE = "DGXSPARK_FABRIC_API_KEY"
#: One process drives this many requests at once; few processes leave the processors to the server, where it runs on the same machine.
REQUESTS_A_WORKER = 32


def config(job: InferenceJob, model: str, concurrency: int, folder: str, counts_tokens: bool) -> dict[str, t.Any]:
    """Return the configuration of one run, which aiperf takes as YAML and so as JSON.

    No prompt comes twice, in warm-up and measurement or in two runs: servers keep what they have computed of a prompt (prefix caching), and the
    time to a first token would be that of a look into a cache.

    Each request has a connection of its own: servers close idle ones, and a request that meets such a close would count as broken off.

    :param counts_tokens: whether the server says how many tokens an answer has; else aiperf counts by its tokenizer
    """
    phase = {"type": "concurrency", "concurrency": concurrency, "duration": job.run_seconds, "gracePeriod": GRACE_SECONDS}
    warmup = {**phase, "name": "warmup", "requests": job.warmup_requests, "excludeFromResults": True}
    return {
        "schemaVersion": "2.0",
        "randomSeed": zlib.crc32(f"{job.run} {concurrency}".encode()),
        "benchmark": {
            "model": model,
            "endpoint": {
                "url": job.endpoint.url, "path": job.endpoint.path, "type": job.endpoint.kind, "streaming": True, "useLegacyMaxTokens": True,
                "useServerTokenCount": counts_tokens, "connectionReuse": "never",
                "timeout": job.endpoint.request_seconds, **({"extra": dict(job.endpoint.extra)} if job.endpoint.extra else {}),
                **({"apiKey": f"${{{KEY_VARIABLE}}}"} if job.endpoint.api_key else {})},
            "dataset": {
                "type": "synthetic", "entries": job.requests + job.warmup_requests,
                "prompts": {"isl": {"mean": job.input_tokens, "stddev": 0}, "osl": {"mean": job.output_tokens, "stddev": 0}}},
            "tokenizer": {"name": job.tokenizer or model},
            "phases": [*([warmup] if job.warmup_requests else []), {**phase, "name": aiperf_output.PROFILING, "requests": job.requests}],
            "artifacts": {"dir": folder, "summary": ["json"], "records": ["jsonl"], "raw": True},
            "gpuTelemetry": {"enabled": False},
            "serverMetrics": {"enabled": False},
            "runtime": {"ui": "none", "workers": 1 + (concurrency - 1) // REQUESTS_A_WORKER, "recordProcessors": 1},
            "logging": {"level": "ERROR"},
        },
    }


def command(program: str, configuration: str) -> list[str]:
    """Return the command line of a run."""
    return [program, "profile", "--config", configuration]


def environment(job: InferenceJob) -> dict[str, str]:
    """Return what aiperf needs in its environment. Its sockets go below /tmp: in the state folder their paths would be too long.

    Told to stay offline, aiperf looks for a folder's path in its cache of the hub and fails; a folder needs no hub, so it is not told.
    """
    added = {KEY_VARIABLE: job.endpoint.api_key} if job.endpoint.api_key else {}
    added |= {"HF_HUB_OFFLINE": "", "TRANSFORMERS_OFFLINE": ""} if os.path.isdir(job.tokenizer) else {}
    return {**added, "TOKENIZERS_PARALLELISM": "false", **({} if job.endpoint.verify else {"AIPERF_HTTP_SSL_VERIFY": "false"})}


def ended(folder: pathlib.Path) -> int:
    """Return how many requests have ended so far, warm-up included, as far as aiperf has written them down."""
    try:
        with open(folder / aiperf_output.REQUESTS, "rb") as stream:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: stream.read(1 << 20), b""))
    except OSError:
        return 0


def read(folder: pathlib.Path, limits: aiperf_output.Limits) -> LoadResult:
    """Return what a run's files say.

    Where every request failed, aiperf writes no summary; the requests are there.

    :raises ResultError: when there is no result
    """
    requests = aiperf_output.read_requests(raw_lines(folder), limits)
    seen = len(requests.failures)
    try:
        with open(folder / aiperf_output.SUMMARY, encoding="utf-8", errors="replace") as stream:
            result = aiperf_output.parse(stream.read(RESULT_LIMIT))
    except OSError as error:
        if seen and not requests.ok:
            return LoadResult(aiperf_output.TOOL, failed=seen, failures=together(requests.failures))
        raise ResultError(f"aiperf left no result ({error.strerror})") from None
    if not requests.ok and not seen:
        return result
    return dataclasses.replace(result, ok=requests.ok, failed=max(result.failed, seen), failures=together(requests.failures) or result.failures)


def raw_lines(folder: pathlib.Path) -> t.Iterator[str]:
    """Return the lines of the requests as they were: of the file of all, or of those of each process, which are put together at the end."""
    paths = [folder / aiperf_output.RAW] if (folder / aiperf_output.RAW).is_file() else sorted((folder / aiperf_output.RAW_PARTS).glob("*.jsonl"))
    for path in paths:
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="replace") as stream:
            yield from stream
