# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The kinds of files and the findings of ``explain`` as a document for people, made from the tables themselves."""

from __future__ import annotations

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.check_list import anchor, cell
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_causes import Cause, load_causes
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_kinds import KINDS
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import LAYERS

INTRODUCTION = """# Explaining files

Made from the tables of causes by `docs/make_explain.py`; do not edit.

    ansible-playbook dgxspark.fabric.explain -e '{"explain_files": ["nccl.log", "ib_write_bw.txt"]}'

says what files show, with no cluster at hand. The kind of a file is found by its content; several kinds may stand in one file, and
files are looked at together. Prefixes of `mpirun --tag-output`, times of day, Windows line ends, UTF-16, gzip, cut files and interleaved ranks are
dealt with. A finding is `pass`, `warn`, `fail`, `skip` or `unknown`; the exit status is not 0 when there is a `fail` or an
`unknown`, or nothing that could be judged. What a file alone cannot tell is `unknown`, never a green light.

Findings that a validation gives too have the same id there and in `checks.md`.
"""


def explain_document() -> str:
    """Return the document."""
    causes = list(load_causes().values())
    lines = [INTRODUCTION, "## Kinds of files", "", "| kind | what |", "|---|---|"]
    lines += [f"| `{kind.name}` | {cell(kind.title)} |" for kind in KINDS]
    lines += ["", "## Findings", "", "| finding | layer | status | what is checked |", "|---|---|---|---|"]
    lines += [f"| [`{cause.id}`](#{anchor(cause.id)}) | {cause.layer} | {cause.status} | {cell(cause.title)} |" for cause in causes]
    for layer in LAYERS:
        mine = [cause for cause in causes if cause.layer == layer]
        if mine:
            lines += ["", f"## Layer {layer}"]
            for cause in mine:
                lines += ["", *cause_section(cause)]
    return "\n".join(lines) + "\n"


def cause_section(cause: Cause) -> list[str]:
    """Return the section of one finding."""
    lines = [f"### {cause.id}", "", f"{cause.title}.", "", f"- says: {cause.message}"]
    for name, text in (("when it passes", cause.healthy), ("without a value", cause.missing), ("cause", cause.cause), ("fix", cause.fix)):
        if text:
            lines.append(f"- {name}: {text}")
    return lines
