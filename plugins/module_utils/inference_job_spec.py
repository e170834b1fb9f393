# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The job that the module ``inference_bench`` gets, checked: what a person wrote ends in a sentence that names the variable, not in a traceback."""

from __future__ import annotations

import dataclasses
import re
import typing as t
from collections.abc import Mapping

from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_endpoint import Endpoint, base_url

RUN_NAME = re.compile(r"[A-Za-z0-9-]{6,64}", re.ASCII)
VERSION = re.compile(r"[0-9]+(\.[0-9A-Za-z]+){1,4}", re.ASCII)
KINDS = ("chat", "completions")
#: Seconds that a load generator takes to start its processes, to make its prompts and to write its results, on a busy machine.
OVERHEAD_SECONDS = 180.0
#: Seconds that requests on their way at the end of a run still get.
GRACE_SECONDS = 30.0


class JobInputError(ValueError):
    """The job cannot be done as it is given."""


@dataclasses.dataclass(frozen=True, slots=True)
class InferenceJob:
    """Everything that the machine which drives the endpoint needs to know. Times in seconds."""

    run: str
    node: str
    endpoint: Endpoint
    model: str
    tokenizer: str
    #: Stated by a person; "" takes what the server says of itself.
    quantisation: str
    context_tokens: int
    stack: str
    parallel: str
    nodes: int
    link_gbps: float
    input_tokens: int
    output_tokens: int
    concurrency: tuple[int, ...]
    requests: int
    warmup_requests: int
    run_seconds: float
    #: An aiperf that is there already; "" makes a virtual environment below ``environment``.
    program: str
    version: str
    python: str
    environment: str
    pip_options: tuple[str, ...]
    install_seconds: float

    @property
    def one_run_seconds(self) -> float:
        """Seconds after which one run is ended: warm-up and measurement, each with its grace, and the generator's own time."""
        return 2 * (self.run_seconds + GRACE_SECONDS) + OVERHEAD_SECONDS

    @property
    def deadline(self) -> float:
        """Seconds after which the job ends whatever happens."""
        look = 4 * (self.endpoint.connect_seconds + self.endpoint.stall_seconds) + self.endpoint.request_seconds
        return (0 if self.program else self.install_seconds) + look + len(self.concurrency) * self.one_run_seconds + 60


def parse_job(document: t.Any) -> InferenceJob:
    """Return the job.

    :raises JobInputError: naming the variable, what it holds and what is expected
    """
    if not isinstance(document, Mapping):
        raise JobInputError("the job is no mapping; use the filter dgxspark.fabric.inference_job")
    run = text(document, "run")
    if not RUN_NAME.fullmatch(run):
        raise JobInputError(f"run: expected 6 to 64 letters, digits or dashes, got {run[:80]!r}")
    levels = document.get("concurrency")
    if not isinstance(levels, (list, tuple)) or not levels:
        raise JobInputError(f"inference_bench_concurrency: expected a list of whole numbers, got {str(levels)[:80]!r}")
    version = text(document, "version")
    if not VERSION.fullmatch(version):
        raise JobInputError(f"inference_bench_version: expected a version such as 0.13.0, got {version[:80]!r}")
    return InferenceJob(
        run=run,
        node=text(document, "node"),
        endpoint=parse_endpoint(document),
        model=text(document, "model"),
        tokenizer=text(document, "tokenizer"),
        quantisation=text(document, "quantisation"),
        context_tokens=whole(document, "context_tokens", 0),
        stack=text(document, "stack"),
        parallel=text(document, "parallel"),
        nodes=whole(document, "nodes", 1, 100000),
        link_gbps=number(document, "link_gbps", 0.001, 100000),
        input_tokens=whole(document, "input_tokens", 1),
        output_tokens=whole(document, "output_tokens", 1),
        concurrency=tuple(dict.fromkeys(whole({"concurrency": level}, "concurrency", 1, 100000) for level in levels)),
        requests=whole(document, "requests", 1),
        warmup_requests=whole(document, "warmup_requests", 0),
        run_seconds=number(document, "run_seconds", 1, 86400),
        program=text(document, "program"),
        version=version,
        python=text(document, "python"),
        environment=text(document, "environment"),
        pip_options=tuple(str(option) for option in document.get("pip_options") or []),
        install_seconds=number(document, "install_seconds", 10, 86400),
    )


def parse_endpoint(document: Mapping[str, t.Any]) -> Endpoint:
    """Return where and how to ask."""
    kind = text(document, "kind")
    if kind not in KINDS:
        raise JobInputError(f"inference_bench_api: expected {' or '.join(KINDS)}, got {kind[:80]!r}")
    key = text(document, "api_key")
    if any(not 32 < ord(character) < 127 for character in key):
        raise JobInputError("inference_bench_api_key: a key has no blanks, line ends and letters beyond ASCII")
    extra = document.get("extra") or {}
    if not isinstance(extra, Mapping):
        raise JobInputError(f"inference_bench_extra: expected a mapping, got {str(extra)[:80]!r}")
    try:
        url = base_url(text(document, "url"))
    except ValueError as error:
        raise JobInputError(f"inference_bench_url: {error}") from None
    return Endpoint(
        url=url, kind=kind, api_key=key, verify=bool(document.get("verify", True)), connect_seconds=number(document, "connect_seconds", 0.1, 600),
        stall_seconds=number(document, "stall_seconds", 0.1, 86400), request_seconds=number(document, "request_seconds", 0.1, 86400),
        extra=dict(extra))


def text(document: Mapping[str, t.Any], field: str) -> str:
    """Return a text, "" where there is none."""
    value = document.get(field)
    if value is None:
        return ""
    if isinstance(value, (Mapping, list, tuple)):
        raise JobInputError(f"inference_bench_{field}: expected a text, got {str(value)[:80]!r}")
    return str(value).strip()


def number(document: Mapping[str, t.Any], field: str, least: float, most: float) -> float:
    """Return a number within limits."""
    value = document.get(field)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= most:
        raise JobInputError(f"inference_bench_{field}: expected a number from {least:g} to {most:g}, got {str(value)[:80]!r}")
    return float(value)


def whole(document: Mapping[str, t.Any], field: str, least: int, most: int = 10**9) -> int:
    """Return a whole number within limits."""
    value = document.get(field)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise JobInputError(f"inference_bench_{field}: expected a whole number from {least} to {most}, got {str(value)[:80]!r}")
    return value
