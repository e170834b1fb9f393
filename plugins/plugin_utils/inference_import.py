# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Results that a load generator has left elsewhere, as ``fabric_inference``: which tool it was is seen by the file itself. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils import aiperf_output, guidellm_output, vllm_bench_output
from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_record import LoadResult, ResultError, Terms, record
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, closest, shown

#: What an entry states of its runs, with the kind of value; what it does not state comes from the role, then from the file.
STATED: dict[str, type] = {
    "model": str, "quantisation": str, "context_tokens": int, "input_tokens": int, "output_tokens": int, "concurrency": int, "stack": str, "nodes": int,
    "link_gbps": float, "parallel": str}


def aiperf_results(text: str) -> list[LoadResult]:
    """Return what aiperf left."""
    return [aiperf_output.parse(text)]


def vllm_results(text: str) -> list[LoadResult]:
    """Return what ``vllm bench serve`` left."""
    return [vllm_bench_output.parse(text)]


#: Readers by tool; a file is of the first that takes it.
READERS: dict[str, Callable[[str], list[LoadResult]]] = {
    "guidellm": guidellm_output.parse, "aiperf": aiperf_results, "vllm bench serve": vllm_results}


def import_results(entries: Iterable[Any], defaults: Mapping[str, Any], read: Callable[[str], str], node: str) -> dict[str, Any]:
    """Return the fact.

    :param entries: ``[{path: FILE, nodes: 2, …}]`` with any of ``STATED``
    :param defaults: of ``STATED``, for what an entry does not state
    :param read: returns the text of a path; raises OSError
    :param node: that is said to have driven the endpoint
    :raises FabricError: naming the entry, what is wrong and what is expected
    """
    runs: list[dict[str, Any]] = []
    tools: dict[str, None] = {}
    for place, entry in enumerate(entries, 1):
        where = f"inference_bench_import: entry {place}"
        path, stated = checked(entry, where)
        try:
            text = read(path)
        except OSError as error:
            raise FabricError(f"{where}: {path} cannot be read: {error.strerror or error}") from None
        for result in read_results(text, f"{where}: {path}"):
            tools[result.tool] = None
            runs.append(record(result, terms_of(result, stated, defaults), source=path))
    return {
        "run": "", "node": node, "status": "done", "reason": "", "message": "", "fix": "", "url": "", "tool": ", ".join(tools), "endpoint": {}, "runs": runs}


def checked(entry: Any, where: str) -> tuple[str, dict[str, Any]]:
    """Return path and statements of an entry."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("path"), str) or not entry["path"]:
        raise FabricError(f"{where} is {shown(entry)}, expected a mapping with path")
    for name, value in entry.items():
        if name == "path":
            continue
        if name not in STATED:
            raise FabricError(f"{where} has the unknown field {shown(name)}; expected path and any of {', '.join(STATED)}{closest(name, STATED)}")
        kind = STATED[name]
        if kind is not str and (isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else int) or value <= 0):
            raise FabricError(f"{where} has {name} {shown(value)}, expected a{' whole' if kind is int else ''} number above 0")
    return entry["path"], {name: str(value) if STATED[name] is str else value for name, value in entry.items() if name != "path"}


def read_results(text: str, where: str) -> list[LoadResult]:
    """Return what a file holds, whichever tool left it."""
    problems = []
    for tool, reader in READERS.items():
        try:
            return reader(text)
        except ResultError as error:
            problems.append(f"{tool}: {error}")
    raise FabricError(f"{where} is no result of {', '.join(READERS)} ({'; '.join(problems)})")


def terms_of(result: LoadResult, stated: Mapping[str, Any], defaults: Mapping[str, Any]) -> Terms:
    """Return the conditions of a run: as its entry states them, as the role does, as the file says."""
    found: dict[str, Any] = {
        "model": result.model, "concurrency": result.concurrency or 0,
        "input_tokens": round(result.input_tokens or 0), "output_tokens": round(result.output_tokens or 0)}
    given = {name: value for name, value in defaults.items() if name in STATED and value not in (None, "", 0)}
    empty = {name: kind() for name, kind in STATED.items()}
    return Terms(**{**empty, **{name: value for name, value in found.items() if value}, **given, **stated})
