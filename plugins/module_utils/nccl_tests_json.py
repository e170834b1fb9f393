# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the JSON that nccl-tests writes with ``-J`` (2.17.3 and later), with all its quirks.

The file holds the whole environment of the process under ``env``, tokens included: it is dropped here, before anything else sees
it. Booleans are the strings "true" and "false"; ``nan`` is a string, ``inf`` stands bare; up to 2.17.8 two keys are misspelt; an
abort leaves the file cut, then what is complete is used.
"""

from __future__ import annotations

import dataclasses
import json
import re
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_tests_output import Device, Measure, NcclTestsOutputError, Row, Run, number

TEXT_LIMIT = 64 * 2**20
BARE = re.compile(r"(?P<before>[:\[,]\s*)(?P<word>-?(?:inf|nan|Infinity|NaN))(?=\s*[,\]}])")
#: How many places of a cut file to try, from its end.
CUTS = 64


class NcclTestsJsonError(NcclTestsOutputError):
    """The text is not a JSON document of nccl-tests."""


@dataclasses.dataclass(frozen=True, slots=True)
class Document:
    """What the file says. ``environment_entries`` counts what was dropped; ``complete`` is false for a cut file."""

    run: Run
    format_version: int | None
    complete: bool
    environment_entries: int
    not_numbers: tuple[str, ...]  # places where the file has nan or inf


def looks_like(document: t.Any) -> bool:
    """Tell whether parsed JSON is a document of nccl-tests."""
    return isinstance(document, dict) and (
        "nccl_version" in document
        or "average_bus_bandwidth" in document
        or "average_bus_bandwidith" in document
        or ("out_of_bounds" in document and "results" in document)
    )


def parse(text: str) -> Document:
    """Return what a ``-J`` file says.

    Raises NcclTestsJsonError; its text never quotes the file, which may hold secrets.
    """
    if not isinstance(text, str):
        raise NcclTestsJsonError(f"expected text, got {type(text).__name__}")
    if len(text) > TEXT_LIMIT:
        raise NcclTestsJsonError(f"{len(text)} characters are more than nccl-tests writes ({TEXT_LIMIT})")
    document, complete = _load(BARE.sub(lambda match: match["before"] + '"' + match["word"] + '"', text))
    if not looks_like(document) and not (not complete and isinstance(document, dict) and "args" in document):
        raise NcclTestsJsonError("the JSON is not one of nccl-tests: no nccl_version, results or average_bus_bandwidth in it")
    environment = document.pop("env", None)
    return _document(document, complete, len(environment) if isinstance(environment, list) else 0)


def _load(text: str) -> tuple[t.Any, bool]:
    try:
        return json.loads(text), True
    except RecursionError as exc:
        raise NcclTestsJsonError("the JSON is nested too deeply") from exc
    except ValueError:
        pass
    for end, closers in reversed(_places(text)):
        try:
            return json.loads(text[:end] + closers), False
        except (ValueError, RecursionError):
            continue
    raise NcclTestsJsonError("the text is not JSON, and no part of it is complete")


def _places(text: str) -> list[tuple[int, str]]:
    """Return the last places behind a complete value, each with the brackets that would close the document there."""
    stack: list[str] = []
    places: list[tuple[int, str]] = []
    in_string = escaped = False
    for at, char in enumerate(text):
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
        elif char == '"':
            in_string = True
        elif char in "{[":
            stack.append("}" if char == "{" else "]")
            if len(stack) > 200:
                break
        elif char in "}]":
            if not stack or stack.pop() != char:
                break
            places.append((at + 1, "".join(reversed(stack))))
        elif char == "," and stack:
            places.append((at, "".join(reversed(stack))))
        if len(places) > 2 * CUTS:
            del places[:CUTS]
    return places[-CUTS:]


def _mapping(value: t.Any) -> dict[str, t.Any]:
    return value if isinstance(value, dict) else {}


def _list(value: t.Any) -> list[t.Any]:
    return value if isinstance(value, list) else []


def _text(value: t.Any) -> str:
    return value if isinstance(value, str) else ""


def _whole(value: t.Any) -> int | None:
    found = number(str(value).strip()[:40]) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None
    return int(found) if found is not None else None


def _number(value: t.Any) -> float | None:
    return number(str(value)[:40]) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None


def _true(value: t.Any) -> bool | None:
    """Return the truth value that the file means; None for "unchecked" and what is none."""
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value) if isinstance(value, str) else None


def _document(document: dict[str, t.Any], complete: bool, environment_entries: int) -> Document:
    config = _mapping(document.get("config"))
    arguments = [entry for entry in _list(document.get("args")) if isinstance(entry, str)]
    run = Run(source="json")
    run.nccl_library = _whole(document.get("nccl_version"))
    run.collective = arguments[0].rpartition("/")[2] if arguments else None
    run.least_bytes, run.most_bytes = _whole(config.get("minimum_bytes")), _whole(config.get("maximum_bytes"))
    validation = _whole(config.get("validation"))
    run.validation = None if validation is None else validation != 0
    for entry in _list(config.get("devices")):
        if isinstance(entry, dict) and (rank := _whole(entry.get("rank"))) is not None:
            run.devices.append(
                Device(
                    rank,
                    _whole(entry.get("group")) or 0,
                    _whole(entry.get("pid")) or 0,
                    _text(entry.get("hostname")),
                    _whole(entry.get("device")) or 0,
                    _text(entry.get("device_hex")),
                    _text(entry.get("device_info")),
                )
            )
    not_numbers: list[str] = []
    for entry in _list(document.get("results")):
        if isinstance(entry, dict) and (size := _whole(entry.get("size"))) is not None:
            run.rows.append(
                Row(
                    size,
                    _whole(entry.get("count")) or 0,
                    _text(entry.get("type")),
                    _text(entry.get("redop")),
                    -1 if (root := _whole(entry.get("root"))) is None else root,
                    _measure(entry, "out_of_place", size, not_numbers),
                    _measure(entry, "in_place", size, not_numbers),
                )
            )
    bounds = _mapping(document.get("out_of_bounds"))
    run.out_of_bounds = _whole(bounds.get("count"))
    run.out_of_bounds_failed = _true(bounds.get("okay")) is False or bool(run.out_of_bounds)
    average = _mapping(document.get("average_bus_bandwidth", document.get("average_bus_bandwidith")))
    run.average_printed = bool(average)
    run.average_gbytes_per_s = _number(average.get("bandwidth", average.get("bandwidith")))
    run.average_failed = _true(average.get("okay")) is False
    run.errors = [entry for entry in _list(document.get("errors")) if isinstance(entry, str) and entry.strip()]
    run.concluded = complete and ("end_time" in document or bool(average))
    return Document(run, _whole(document.get("version")), complete, environment_entries, tuple(not_numbers))


def _measure(result: dict[str, t.Any], placement: str, size: int, not_numbers: list[str]) -> Measure:
    values = _mapping(result.get(placement))
    for key in ("time", "alg_bw", "bus_bw"):
        if key in values and _number(values[key]) is None:
            not_numbers.append(f"{placement} {key} at {size} bytes")
    iterations = {name: _number(value) for name, value in _mapping(result.get(f"{placement}_per_iter")).items() if name.endswith(("_us", "_pct"))}
    return Measure(
        _number(values.get("time")),
        _number(values.get("alg_bw")),
        _number(values.get("bus_bw")),
        _whole(values.get("nwrong")),
        {name: value for name, value in iterations.items() if value is not None},
    )
