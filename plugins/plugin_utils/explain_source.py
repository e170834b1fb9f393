# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read a file into what ``explain`` judges: NCCL's log line by line into counts, all else into sections by host and by rank.

A log of gigabytes costs no more memory than a small one: lines of NCCL are counted and forgotten, other text is kept up to a limit.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import yaml

from ansible_collections.dgxspark.fabric.plugins.module_utils import log_line, nccl_debug_log
from ansible_collections.dgxspark.fabric.plugins.plugin_utils import explain_kinds

#: Characters of text kept whole; beyond, as many lines of the end as below.
HEAD_LIMIT = 4 * 2**20
DOCUMENT_LIMIT = 64 * 2**20
TAIL_LINES = 20000
YAML_LIMIT = 2**20
#: Lines that look like the beginning of JSON and are none are tried so often, with so many lines behind them.
BROKEN_ATTEMPTS = 500
BROKEN_LINES = 2000

#: Lines that say from which host the following text is.
HOST_MARKS = tuple(
    re.compile(pattern, re.ASCII)
    for pattern in (
        r"^#?\s*\$ \((?P<host>[A-Za-z][\w.-]{0,62})\) ",
        r"^[\w.-]{1,32}@(?P<host>[A-Za-z][\w.-]{0,62}):[^\s]{0,200}[$#] ",
        r"^(?P<host>[A-Za-z][\w.-]{0,62}) \| (?:CHANGED|SUCCESS|FAILED) \| rc=\d+ >>",
        r"^(?:#{1,3}|={2,5}|-{2,5}) ?(?P<host>[A-Za-z][A-Za-z-]{0,40}\d{1,4})(?: ?={2,5}| ?-{2,5}|:)?\s*$",
    )
)
DOCUMENT_START = re.compile(r"^\s*(?:\{|\[\s*(?:\{|$|\]))")
YAML_LINE = re.compile(r"^(?:\s+(?:#|- |-$|[\"'\w./-]+\s*:(?:\s|$)|[\]}])|- )", re.ASCII)
NOT_JSON_PERFTEST = re.compile(r"^\s*test_info\s*:|^\s*results\s*:\s*\{|\{\s*results\s*:", re.ASCII)


@dataclasses.dataclass(slots=True)
class Section:
    """Text of one host. ``documents`` are pieces of JSON with their kind, ``broken`` texts that should have been JSON, ``trees`` netplan documents."""

    label: str  # the host, or the file where no line says which
    host: str  # "" where no line says which
    file: str
    lines: list[str] = dataclasses.field(default_factory=list)
    documents: list[tuple[str, Any]] = dataclasses.field(default_factory=list)
    broken: list[tuple[str, str]] = dataclasses.field(default_factory=list)
    trees: list[tuple[str, Any]] = dataclasses.field(default_factory=list)  # (file, tree or error text)
    kinds: set[str] = dataclasses.field(default_factory=set)


@dataclasses.dataclass(slots=True)
class Source:
    """One file, or one netplan tree."""

    name: str
    lines: int = 0
    nccl_lines: int = 0
    cut: bool = False
    sections: list[Section] = dataclasses.field(default_factory=list)

    @property
    def kinds(self) -> list[str]:
        """Return the kinds found, in the order of the table."""
        found = set().union(*(section.kinds for section in self.sections)) | ({"nccl_debug"} if self.nccl_lines else set())
        return [kind.name for kind in explain_kinds.KINDS if kind.name in found]


class _Kept:
    """Text of one rank (or of no rank): all of its beginning, and the last lines of what is more."""

    def __init__(self, limit: int) -> None:
        self.head: list[str] = []
        self.tail: collections.deque[str] = collections.deque(maxlen=TAIL_LINES)
        self.room = limit
        self.seen_beyond = 0

    def add(self, text: str) -> None:
        if self.room > 0:
            self.head.append(text)
            self.room -= len(text) + 1
        else:
            self.tail.append(text)
            self.seen_beyond += 1

    @property
    def cut(self) -> bool:
        return self.seen_beyond > TAIL_LINES

    def lines(self) -> list[str]:
        return [*self.head, *self.tail]


def read_lines(name: str, raw_lines: Iterable[str], reader: nccl_debug_log.Reader) -> Source:
    """Read one file.

    :param name: how the file is called in findings
    :param raw_lines: its lines, in any number
    :param reader: takes NCCL's lines; shared by all files, since each rank may have a file of its own
    """
    source = Source(name)
    kept: dict[str, _Kept] = {}
    limit = HEAD_LIMIT
    for raw in raw_lines:
        source.lines += 1
        line = log_line.clean(raw)
        if source.lines == 1 and line.text.lstrip()[:1] in ("{", "["):
            limit = DOCUMENT_LIMIT
        if ("NCCL" in line.text or line.text.startswith(("Channel ", "NET/", "Using network", "Connected all"))) and reader.line(line.text):
            source.nccl_lines += 1
            continue
        if line.origin not in kept:
            if len(kept) >= 512:
                continue
            kept[line.origin] = _Kept(limit if not kept else HEAD_LIMIT // 16)
        kept[line.origin].add(line.text)
    for rank in kept.values():
        source.cut = source.cut or rank.cut
        source.sections.extend(_sections(name, rank.lines()))
    return source


def read_tree(name: str, files: Iterable[tuple[str, str]]) -> Source:
    """Read a netplan tree: files by name with their text, which netplan merges in the order of their names."""
    source = Source(name)
    section = Section(name, "", name, kinds={"netplan"})
    for file, text in sorted(files):
        source.lines += text.count("\n")
        section.trees.append((file, _load_yaml(text)))
    source.sections.append(section)
    return source


def _sections(name: str, lines: list[str]) -> Iterator[Section]:
    section = Section(name, "", name)
    for line in lines:
        host = next((match["host"] for mark in HOST_MARKS if (match := mark.match(line))), None) if line[:1] not in (" ", "") else None
        if host and host != section.host:
            if section.lines:
                yield _read(section)
            section = Section(host, host, name)
        section.lines.append(line)
    if section.lines:
        yield _read(section)


def _read(section: Section) -> Section:
    """Take JSON and netplan documents out of the text of a section, then see what the rest is."""
    rest = _take_documents(section)
    section.lines = _take_trees(section, rest)
    section.kinds |= explain_kinds.kinds_of_lines(section.lines)
    section.kinds |= {kind for kind, _document in section.documents} | ({"netplan"} if section.trees else set())
    section.kinds |= {kind for kind, _text in section.broken}
    return section


def _take_documents(section: Section) -> list[str]:
    rest: list[str] = []
    at, broken = 0, 0
    lines = section.lines
    while at < len(lines):
        line = lines[at]
        found = _document(lines, at) if DOCUMENT_START.match(line) and broken < BROKEN_ATTEMPTS else None
        if found is not None:
            document, used, behind = found
            kind = explain_kinds.kind_of_document(document)
            if kind is not None:
                section.documents.append((kind, document))
            at += used
            if behind:
                rest.append(behind)
            continue
        taken = 0
        if DOCUMENT_START.match(line) and broken < BROKEN_ATTEMPTS:
            broken += 1
            taken = _broken_document(section, lines, at)
        if not taken:
            rest.append(line)
        at += taken or 1
    return rest


def _document(lines: list[str], at: int) -> tuple[Any, int, str] | None:
    """Return the JSON that begins at a line, how many lines it has, and what stands behind it on the last one; None when there is none.

    It is tried with twice as many lines until they suffice, so that many small documents cost no more than one large one.
    """
    many = 1
    while True:
        taken = lines[at : at + many]
        text = "\n".join(taken).lstrip()
        try:
            document, end = json.JSONDecoder().raw_decode(text)
        except RecursionError:
            return None
        except json.JSONDecodeError as error:
            # Text that merely goes on is missed at its end; what is wrong before stays wrong.
            if at + many >= len(lines) or error.pos < len(text) - len(taken[-1]):
                return None
            many *= 2
            continue
        return document, text.count("\n", 0, end) + 1, text[end:].partition("\n")[0].strip()


def _broken_document(section: Section, lines: list[str], at: int) -> int:
    """Take a text that should have been JSON; return how many lines it has, 0 when it is none of ours."""
    text = "\n".join(lines[at : at + BROKEN_LINES])
    head = text[:2000]
    if '"nccl_version"' in text or ('"args"' in head and '"start_time"' in head):
        section.broken.append(("nccl_tests_json", "\n".join(lines[at:])))
        return len(lines) - at
    if not (
        NOT_JSON_PERFTEST.search(head)
        or '"test_info"' in head
        or any(NOT_JSON_PERFTEST.search(line) for line in lines[at : at + 3])
        or ('"results"' in head and '"bw_avg"' in head)
    ):
        return 0
    depth = used = 0
    for line in lines[at:]:
        depth += line.count("{") - line.count("}")
        used += 1
        if depth <= 0:
            break
    section.broken.append(("perftest_json", "\n".join(lines[at : at + used])))
    return used


def _take_trees(section: Section, lines: list[str]) -> list[str]:
    rest: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.startswith("network:"):
            rest.append(line)
            at += 1
            continue
        end = _end_of_tree(lines, at)
        section.trees.append((section.file, _load_yaml("\n".join(lines[at:end]))))
        at = end
    return rest


def _end_of_tree(lines: list[str], at: int) -> int:
    """Return the line behind a netplan document: it goes on while brackets are open, or while indented lines look like YAML."""
    depth = _depth(lines[at])
    end = reached = at + 1
    while end < len(lines):
        line = lines[end]
        if depth > 0 or YAML_LINE.match(line):
            depth += _depth(line)
            reached = end + 1
        elif line.strip() and not line.startswith("#"):
            break
        end += 1
    return reached


def _depth(line: str) -> int:
    return line.count("{") + line.count("[") - line.count("}") - line.count("]")


def _load_yaml(text: str) -> Any:
    """Return what stands under ``network:``; a text when it is no YAML or no mapping."""
    if len(text) > YAML_LIMIT:
        return f"{len(text)} characters are more than a netplan file has"
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        return f"{where}{getattr(error, 'problem', None) or 'no YAML'}"
    network = document.get("network") if isinstance(document, dict) else None
    return network if isinstance(network, dict) else "nothing under network:"
