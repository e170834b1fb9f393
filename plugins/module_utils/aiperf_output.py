# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the results of NVIDIA's aiperf: its summary (``profile_export_aiperf.json``) and the requests themselves (``profile_export_raw.jsonl``).

The summary is enough for the figures; genai-perf, its predecessor, writes the same names. A stream that ends without an end is a good answer to
aiperf, only shorter: the requests tell.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t
from collections.abc import Iterable, Iterator, Mapping

from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_record import (
    Failure, LoadResult, ResultError, Spread, at, count, figure, read_document, texts, together)

TOOL = "aiperf"
SUMMARY, REQUESTS, RAW = "profile_export_aiperf.json", "profile_export.jsonl", "profile_export_raw.jsonl"
#: Folder of the requests by process, until they are put together.
RAW_PARTS = "raw_records"
PROFILING = "profiling"
NANOSECONDS = 1e9
#: What a failed request met, by type and message of its error; a status of HTTP goes before.
CLASSES = (
    ("refused", r"ConnectorError|ConnectionRefused|Connect call failed|Cannot connect to host"),
    ("stalled", r"[Tt]ime(d )?[ _]?out"),
    ("truncated", r"Payload|ServerDisconnected|ConnectionReset|ClientOSError|Incomplete|NoContent|InvalidInferenceResult|no (valid )?(content|response)"),
    ("http", r"SSEResponseError|ContentTypeError"),
)


def parse(text: str) -> LoadResult:
    """Return what a summary says.

    :raises ResultError: when it is none of this tool
    """
    document = read_document(text, TOOL)
    ok, failed = count(at(document, "request_count", "avg")), count(at(document, "error_request_count", "avg"))
    if "request_count" not in document and "error_request_count" not in document and "error_summary" not in document:
        raise ResultError(f"no result of {TOOL}: it has neither request_count nor error_request_count")
    errors = document.get("error_summary")
    failures = [failure for entry in errors if (failure := failure_of(entry))] if isinstance(errors, list) else []
    if failed > (known := sum(failure.count for failure in failures)):
        failures.append(Failure("other", failed - known, "requests failed and the file does not say why"))
    config = at(document, "input_config")
    phases = at(config, "phases")
    measured = next((phase for phase in phases if at(phase, "name") == PROFILING), None) if isinstance(phases, list) else None
    return LoadResult(
        tool=f"{TOOL} {document['aiperf_version']}" if isinstance(document.get("aiperf_version"), str) else TOOL,
        model=texts(at(config, "models", "items", 0, "name")),
        concurrency=count(at(measured, "concurrency")) or None,
        started=texts(document.get("start_time")).partition(".")[0],
        seconds=seconds(at(document, "benchmark_duration")),
        ok=ok,
        failed=max(failed, sum(failure.count for failure in failures)),
        input_tokens=figure(at(document, "input_sequence_length", "avg")),
        output_tokens=figure(at(document, "output_sequence_length", "avg")),
        tokens_per_s=figure(at(document, "output_token_throughput", "avg")) or None,
        requests_per_s=figure(at(document, "request_throughput", "avg")),
        ttft_ms=spread(document.get("time_to_first_token")),
        inter_token_ms=spread(document.get("inter_token_latency")),
        request_ms=spread(document.get("request_latency")),
        failures=together(failures),
        incomplete=incomplete(document),
    )


def incomplete(document: Mapping[str, t.Any]) -> str:
    """Return why aiperf itself does not count a run as complete, "" when it does."""
    if document.get("was_cancelled") is True:
        return "it was ended before it was done"
    if document.get("is_complete") is False:
        return texts(document.get("incomplete_reason")) or "aiperf counts the run as not complete"
    return ""


def seconds(metric: t.Any) -> float | None:
    """Return a duration in seconds, whatever unit aiperf gives it in."""
    value = figure(at(metric, "avg"))
    factor = {"sec": 1.0, "s": 1.0, "seconds": 1.0, "ms": 1e-3, "ns": 1e-9}.get(texts(at(metric, "unit")))
    return None if value is None or factor is None else value * factor


def spread(metric: t.Any) -> Spread:
    """Return a distribution; nothing where its unit is not milliseconds."""
    if at(metric, "unit") != "ms":
        return Spread()
    return Spread(*(figure(at(metric, key)) for key in ("avg", "p50", "p95", "p99")))


def failure_of(entry: t.Any) -> Failure | None:
    """Return one entry of the summary of errors, None for what is none."""
    details = at(entry, "error_details")
    if not isinstance(details, Mapping):
        return None
    return Failure(kind_of(details), max(1, count(at(entry, "count"))), message_of(details))


def kind_of(error: Mapping[str, t.Any]) -> str:
    """Return what a failed request met."""
    status = error.get("code")
    if isinstance(status, int) and 400 <= status < 600 and status != 499:
        return "http"
    chain = error.get("cause_chain")
    words = " ".join([texts(error.get("type")), *(chain if isinstance(chain, list) and all(isinstance(one, str) for one in chain) else []),
                      texts(error.get("message"))])
    return next((kind for kind, pattern in CLASSES if re.search(pattern, words)), "other")


def message_of(error: Mapping[str, t.Any]) -> str:
    """Return an error in words."""
    status, told = error.get("code"), texts(error.get("message")).strip() or texts(error.get("type"))
    return f"HTTP {status}: {told}" if isinstance(status, int) and 400 <= status < 600 and status != 499 else told or "an error without words"


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """How long a request was given, and from how long a silence on it has stalled, in seconds."""

    request_seconds: float
    stall_seconds: float


@dataclasses.dataclass(slots=True)
class Requests:
    """What the requests themselves tell: how many ended well, and how the others failed."""

    ok: int = 0
    failures: list[Failure] = dataclasses.field(default_factory=list)


def read_requests(lines: Iterable[str], limits: Limits) -> Requests:
    """Read the raw requests of the measurement, one JSON a line; what is none is passed over."""
    seen = Requests()
    for request in documents(lines):
        if at(request, "metadata", "benchmark_phase") != PROFILING:
            continue
        failure = request_failure(request, limits)
        if failure is None:
            seen.ok += 1
        else:
            seen.failures.append(failure)
    return seen


def documents(lines: Iterable[str]) -> Iterator[Mapping[str, t.Any]]:
    """Return the mappings of a file of JSON lines."""
    for line in lines:
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, Mapping):
            yield document


def request_failure(request: Mapping[str, t.Any], limits: Limits) -> Failure | None:
    """Return why a request is no good one, None when it is."""
    error = request.get("error")
    responses = request.get("responses")
    answers = [answer for answer in responses if isinstance(answer, Mapping)] if isinstance(responses, list) else []
    if isinstance(error, Mapping):
        kind = kind_of(error)
        return timed_out(request, answers, limits) if kind == "stalled" else Failure(kind, 1, message_of(error))
    pieces, ended, carried = 0, False, ""
    for answer in answers:
        for value in data_of(answer):
            pieces += 1
            if value == "[DONE]":
                ended = True
                continue
            event = next(documents([value]), {})
            carried = carried or (json.dumps(event["error"]) if event.get("error") else "")
            ended = ended or bool(at(event, "choices", 0, "finish_reason"))
    if carried:
        return Failure("http", 1, f"the stream carries an error: {carried}")
    if not ended:
        return Failure("truncated", 1, f"the stream ended after {pieces} pieces without finish_reason and without [DONE]")
    return None


def data_of(answer: Mapping[str, t.Any]) -> list[str]:
    """Return the data of one event of a stream, or the text of an answer that is none."""
    packets = answer.get("packets")
    if not isinstance(packets, list):
        return [answer["text"]] if isinstance(answer.get("text"), str) else []
    return [packet["value"] for packet in packets if at(packet, "name") == "data" and isinstance(at(packet, "value"), str)]


def timed_out(request: Mapping[str, t.Any], answers: list[Mapping[str, t.Any]], limits: Limits) -> Failure:
    """Return how a request that ran out of time had come along: stalled, or slow where its text still came.

    aiperf puts the end of such a request at its last piece, so how long it waited for more follows from the limit.
    """
    origin = figure(request.get("start_perf_ns"))
    last = max((moment for answer in answers if (moment := figure(answer.get("perf_ns"))) is not None), default=None)
    if origin is None or last is None:
        return Failure("stalled", 1, f"nothing came for {limits.request_seconds:g} s")
    quiet = limits.request_seconds - (last - origin) / NANOSECONDS
    if quiet >= limits.stall_seconds:
        return Failure("stalled", 1, f"the stream stopped after {len(answers)} pieces: nothing came for {quiet:.0f} s")
    return Failure("slow", 1, f"the answer was not done after {limits.request_seconds:g} s, {len(answers)} pieces had come")
