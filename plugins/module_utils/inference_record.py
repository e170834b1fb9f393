# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One run of inference as a record of ``fabric_inference``, whichever load generator made it. Pure functions; ``docs/inference.md`` describes it."""

from __future__ import annotations

import dataclasses
import json
import math
import typing as t
from collections.abc import Iterable, Mapping

#: What a request can meet, in the order in which it is told; each has a check of its own.
FAILURES = ("refused", "http", "stalled", "slow", "truncated", "other")
TOLD = 300
#: A result is read up to this size: runs with every request in detail are large.
RESULT_LIMIT = 512 * 1024 * 1024


class ResultError(ValueError):
    """A text is no result of the load generator that it should be of."""


@dataclasses.dataclass(frozen=True, slots=True)
class Spread:
    """A distribution in milliseconds; None where the load generator does not tell."""

    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None

    def document(self) -> dict[str, float | None]:
        """Return it as plain data."""
        return {name: None if value is None else round(value, 3) for name, value in dataclasses.asdict(self).items()}


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """Requests that failed alike; ``kind`` is one of ``FAILURES``."""

    kind: str
    count: int
    message: str


@dataclasses.dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load generator measured at one concurrency. Tokens are means a request; None and "" where it does not tell."""

    tool: str
    model: str = ""
    concurrency: int | None = None
    started: str = ""
    seconds: float | None = None
    ok: int = 0
    failed: int = 0
    input_tokens: float | None = None
    output_tokens: float | None = None
    tokens_per_s: float | None = None
    requests_per_s: float | None = None
    ttft_ms: Spread = Spread()
    inter_token_ms: Spread = Spread()
    request_ms: Spread = Spread()
    failures: tuple[Failure, ...] = ()
    #: Why the load generator itself counts the run as not complete.
    incomplete: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Terms:
    """The fixed conditions of a run, and what else is stated of it; "" and 0 stand for what nobody knows."""

    model: str
    quantisation: str
    context_tokens: int
    input_tokens: int
    output_tokens: int
    concurrency: int
    stack: str
    nodes: int
    link_gbps: float
    parallel: str

    @property
    def conditions(self) -> dict[str, t.Any]:
        """What has to be the same for two runs to be compared; what is not known is left out, so that nothing is compared by it."""
        names = ("model", "quantisation", "context_tokens", "input_tokens", "output_tokens", "concurrency", "stack")
        return {name: value for name in names if (value := getattr(self, name))}


def record(result: LoadResult, terms: Terms, source: str = "") -> dict[str, t.Any]:
    """Return the record of a run.

    :param source: of an imported run, its file
    """
    return {
        "nodes": terms.nodes,
        "link_gbps": terms.link_gbps,
        "throughput_tokens_per_s": None if result.tokens_per_s is None else round(result.tokens_per_s, 3),
        "conditions": terms.conditions,
        "parallel": terms.parallel,
        "errors": result.failed,
        "requests": {"ok": result.ok, "failed": result.failed},
        "requests_per_s": None if result.requests_per_s is None else round(result.requests_per_s, 4),
        "ttft_ms": result.ttft_ms.document(),
        "inter_token_ms": result.inter_token_ms.document(),
        "request_ms": result.request_ms.document(),
        "measured_input_tokens": rounded(result.input_tokens),
        "measured_output_tokens": rounded(result.output_tokens),
        "failures": [dataclasses.asdict(failure) for failure in result.failures],
        "incomplete": result.incomplete,
        "tool": result.tool,
        "started": result.started,
        "seconds": rounded(result.seconds),
        "source": source,
    }


def together(failures: Iterable[Failure]) -> tuple[Failure, ...]:
    """Return one failure of each kind, with the message of the most frequent."""
    by_kind: dict[str, list[Failure]] = {}
    for failure in failures:
        by_kind.setdefault(failure.kind, []).append(failure)
    return tuple(
        Failure(kind, sum(one.count for one in by_kind[kind]), max(by_kind[kind], key=count_of).message[:TOLD]) for kind in FAILURES if kind in by_kind)


def count_of(failure: Failure) -> int:
    """Return how many requests failed so."""
    return failure.count


def read_document(text: str, tool: str) -> Mapping[str, t.Any]:
    """Return the JSON of a result.

    :raises ResultError: when it is none
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ResultError(f"no JSON of {tool}: {error}") from None
    if not isinstance(document, Mapping):
        raise ResultError(f"no result of {tool}: the JSON holds no mapping")
    return document


def figure(value: t.Any) -> float | None:
    """Return a number that can be a measurement, None for anything else: not a number, infinite or below zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def count(value: t.Any) -> int:
    """Return a number of requests, 0 for what is none."""
    return int(figure(value) or 0)


def at(document: t.Any, *keys: str | int) -> t.Any:
    """Return what stands at a path in nested data, None where there is nothing."""
    for key in keys:
        if isinstance(document, Mapping) and isinstance(key, str):
            document = document.get(key)
        elif isinstance(document, list) and isinstance(key, int) and -len(document) <= key < len(document):
            document = document[key]
        else:
            return None
    return document


def texts(value: t.Any) -> str:
    """Return a text, "" for anything else."""
    return value if isinstance(value, str) else ""


def rounded(value: float | None) -> float | None:
    """Return a number as a record holds it."""
    return None if value is None else round(value, 2)
