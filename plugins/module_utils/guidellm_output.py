# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the report of guidellm (``benchmarks.json``): text in, one record a benchmark out. A sweep has several, each at a load of its own."""

from __future__ import annotations

import datetime
import re
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_record import (
    Failure, LoadResult, ResultError, Spread, at, count, figure, read_document, texts, together)

TOOL = "guidellm"
#: What a failed request met, by the words of its exception.
CLASSES = (
    ("refused", r"ConnectError|Connection refused|All connection attempts failed"),
    ("stalled", r"[Tt]ime(d )?[ _]?out"),
    ("truncated", r"RemoteProtocolError|ReadError|incomplete chunked|peer closed|Server disconnected"),
    ("http", r"HTTPStatusError|\b[45]\d\d\b"),
)


def parse(text: str) -> list[LoadResult]:
    """Return what a report says.

    :raises ResultError: when it is none of this tool
    """
    document = read_document(text, TOOL)
    benchmarks = document.get("benchmarks")
    if not isinstance(benchmarks, list):
        raise ResultError(f"no result of {TOOL}: it has no list benchmarks")
    version = texts(at(document, "metadata", "guidellm_version"))
    results = [one(benchmark, f"{TOOL} {version}".strip()) for benchmark in benchmarks if isinstance(at(benchmark, "metrics"), dict)]
    if not results:
        raise ResultError(f"no result of {TOOL}: it has no benchmark with metrics")
    return results


def one(benchmark: t.Any, tool: str) -> LoadResult:
    """Return one benchmark."""
    metrics = at(benchmark, "metrics")
    totals = at(metrics, "request_totals")
    errors = at(benchmark, "requests", "errored")
    words = [texts(at(error, "info", "error")) for error in errors] if isinstance(errors, list) else []
    failed = count(at(totals, "errored"))
    failures = [Failure(kind_of(word), 1, word) for word in words if word]
    if failed > len(failures):
        failures.append(Failure("other", failed - len(failures), "requests failed and the report does not say why"))
    strategy = at(benchmark, "config", "strategy")
    started = figure(at(benchmark, "start_time"))
    return LoadResult(
        tool=tool,
        model=texts(at(benchmark, "config", "backend", "model")),
        concurrency=count(at(strategy, "streams")) or count(at(strategy, "max_concurrency")) or (1 if at(strategy, "type_") == "synchronous" else None),
        started="" if started is None or started > 2**33 else datetime.datetime.fromtimestamp(started).strftime("%Y-%m-%dT%H:%M:%S"),
        seconds=figure(at(benchmark, "duration")),
        ok=count(at(totals, "successful")),
        failed=max(failed, len(failures)),
        input_tokens=figure(at(metrics, "prompt_token_count", "successful", "mean")),
        output_tokens=figure(at(metrics, "output_token_count", "successful", "mean")),
        tokens_per_s=figure(at(metrics, "output_tokens_per_second", "successful", "mean")) or None,
        requests_per_s=figure(at(metrics, "requests_per_second", "successful", "mean")),
        ttft_ms=spread(metrics, "time_to_first_token_ms"),
        inter_token_ms=spread(metrics, "inter_token_latency_ms"),
        request_ms=spread(metrics, "request_latency", 1000.0),
        failures=together(failures),
        incomplete="requests were cut off at its end" if count(at(totals, "incomplete")) and not count(at(totals, "successful")) else "",
    )


def spread(metrics: t.Any, name: str, factor: float = 1.0) -> Spread:
    """Return a distribution over the requests that ended well; ``factor`` turns its unit into milliseconds."""
    summary = at(metrics, name, "successful")
    values = [figure(at(summary, "mean")), *(figure(at(summary, "percentiles", key)) for key in ("p50", "p95", "p99"))]
    return Spread(*(None if value is None or not count(at(summary, "count")) else value * factor for value in values))


def kind_of(error: str) -> str:
    """Return what a failed request met."""
    return next((kind for kind, pattern in CLASSES if re.search(pattern, error)), "other")
