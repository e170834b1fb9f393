# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the result file of ``vllm bench serve --save-result``: text in, record out.

Percentiles are there as far as ``--metric-percentiles`` asked for them (99 alone unless told otherwise); the median always is.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_record import (
    Failure, LoadResult, ResultError, Spread, at, count, figure, read_document, texts, together)

TOOL = "vllm bench serve"
NEEDED = ("completed", "output_throughput", "total_output_tokens", "duration")
DATE = re.compile(r"(\d{4})(\d{2})(\d{2})-(\d{2})(\d{2})(\d{2})", re.ASCII)
CLASSES = (
    ("refused", r"Connect call failed|Connection refused|Cannot connect to host"),
    ("stalled", r"[Tt]ime(d )?out"),
    ("truncated", r"ClientPayloadError|TransferEncoding|Server disconnected|Connection reset|IncompleteRead|Never received a valid chunk"),
    ("http", r"Internal Server Error|Bad Request|Service Unavailable|Bad Gateway|Not Found|Unauthorized|Too Many Requests|\b[45]\d\d\b"),
)


def parse(text: str) -> LoadResult:
    """Return what a result file says.

    :raises ResultError: when it is none of this tool
    """
    document = read_document(text, TOOL)
    missing = [key for key in NEEDED if figure(document.get(key)) is None]
    if missing:
        raise ResultError(f"no result of {TOOL}: it has no number {missing[0]}")
    ok = count(document["completed"])
    errors = [error for error in document.get("errors") or [] if isinstance(error, str) and error] if isinstance(document.get("errors"), list) else []
    failed = max(count(document.get("failed")), count(document.get("num_prompts")) - ok, len(errors))
    failures = [Failure(kind_of(error), 1, last_line(error)) for error in errors]
    if failed > len(errors):
        failures.append(Failure("other", failed - len(errors), "requests failed and the file does not say why (--save-detailed keeps it)"))
    date = DATE.fullmatch(texts(document.get("date")))
    return LoadResult(
        tool=TOOL,
        model=texts(document.get("model_id")),
        concurrency=count(document.get("max_concurrency")) or None,
        started="{}-{}-{}T{}:{}:{}".format(*date.groups()) if date else "",
        seconds=figure(document["duration"]),
        ok=ok,
        failed=failed,
        input_tokens=mean(document.get("total_input_tokens"), ok),
        output_tokens=mean(document["total_output_tokens"], ok),
        tokens_per_s=figure(document["output_throughput"]) or None,
        requests_per_s=figure(document.get("request_throughput")),
        ttft_ms=spread(document, "ttft"),
        inter_token_ms=spread(document, "itl"),
        request_ms=spread(document, "e2el"),
        failures=together(failures),
    )


def spread(document: Mapping[str, t.Any], name: str) -> Spread:
    """Return the distribution of one measure."""
    listed = document.get(f"percentiles_{name}_ms")
    pairs = {str(at(pair, 0)): figure(at(pair, 1)) for pair in listed} if isinstance(listed, list) else {}

    def percentile(number: int) -> float | None:
        named = figure(document.get(f"p{number}_{name}_ms"))
        return named if named is not None else pairs.get(f"{number}.0", pairs.get(str(number)))

    middle = figure(document.get(f"median_{name}_ms"))
    return Spread(figure(document.get(f"mean_{name}_ms")), middle if middle is not None else percentile(50), percentile(95), percentile(99))


def mean(total: t.Any, requests: int) -> float | None:
    """Return tokens a request."""
    tokens = figure(total)
    return None if tokens is None or not requests else tokens / requests


def kind_of(error: str) -> str:
    """Return what a request met, by the words that the tool kept."""
    return next((kind for kind, pattern in CLASSES if re.search(pattern, error)), "other")


def last_line(error: str) -> str:
    """Return the line of a traceback that says most: its last."""
    return next((line.strip() for line in reversed(error.splitlines()) if line.strip()), error)
