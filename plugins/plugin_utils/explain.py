# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files in, findings out: what a log or an output shows, offline. Pure but for reading the lines it is given."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils import nccl_debug_log
from ansible_collections.dgxspark.fabric.plugins.plugin_utils import (
    explain_addresses,
    explain_launch,
    explain_links,
    explain_nccl_log,
    explain_nccl_tests,
    explain_netplan,
    explain_perftest,
    explain_settings,
)
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_causes import Explanation
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_context import Context
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_source import Source, read_lines, read_tree
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.findings import BROKEN, Finding, counts_of
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.redaction import mask_secrets

VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class TextFile:
    """A file to explain: its name in findings, and its lines, which are read once."""

    name: str
    lines: Iterable[str]


@dataclasses.dataclass(frozen=True, slots=True)
class NetplanTree:
    """A netplan tree to explain: its name in findings, and the text of each file by name."""

    name: str
    files: tuple[tuple[str, str], ...]


def explain(inputs: Iterable[TextFile | NetplanTree], context: Context = Context()) -> dict[str, Any]:
    """Say what some files show.

    :param inputs: the files; what they say of one another is looked at together (one file a rank, one a node)
    :return: ``explain_version``, ``files`` (name, kinds, lines), ``findings`` and ``verdict``, plain data with secrets masked
    """
    reader = nccl_debug_log.Reader()
    sources = [read_tree(entry.name, entry.files) if isinstance(entry, NetplanTree) else read_lines(entry.name, entry.lines, reader) for entry in inputs]
    findings = judge(sources, reader.log, context)
    document = plain(
        {
            "explain_version": VERSION,
            "files": [{"file": source.name, "kinds": source.kinds, "lines": source.lines} for source in sources],
            "findings": [finding.document() for finding in findings],
            "verdict": verdict(findings),
        }
    )
    return mask_secrets(document)


def judge(sources: Sequence[Source], log: nccl_debug_log.Log, context: Context) -> list[Finding]:
    """Return the findings of what was read."""
    told = Explanation()
    sections = [section for source in sources for section in source.sections]
    settings = {name: setting.value for name, setting in explain_settings.settings_of(sections).items()}
    runs = [(section, explain_nccl_tests.read(section, told)) for section in sections]
    every_run = [run for _section, found in runs for run in found]
    figures = [run.average_gbytes_per_s for run in every_run if run.average_gbytes_per_s]
    hosts = list(dict.fromkeys(host for run in every_run if run.ranks > 1 for host in run.hosts))
    explain_nccl_log.explain(log, context, told, hosts, figures, settings)
    void = told.has("nccl.gid_table_changed")
    transport = (
        "socket" if told.has("nccl.transport", "fail") else "rdma" if told.has("nccl.transport", "pass") and not told.has("nccl.transport", "unknown") else ""
    )
    log_ranks = max((process.ranks or 0 for process in log.processes.values()), default=0) or len({end for key in log.channels for end in key[2:4]})
    files = dict.fromkeys(section.file for section in sections)
    alone = {file for file in files if explain_nccl_tests.one_job(file, [run for section, found in runs if section.file == file for run in found], told)}
    for section, found in runs:
        explain_nccl_tests.explain(section, found, context, told, void, transport, log_ranks, section.file in alone)
        if not log.lines and any(run.ranks > 1 and run.rows for run in found):
            told.add("nccl.no_log", section.label, evidence={"file": section.file})
    for section in sections:
        if "perftest" in section.kinds:
            explain_perftest.explain(section, context, told)
        explain_perftest.explain_json(section, told)
        explain_perftest.explain_iperf3(section, context, told)
        explain_links.explain(section, context, told)
        explain_addresses.explain(section, context, told)
        explain_netplan.explain(section, context, told, settings)
    explain_addresses.explain_mtus(sections, told)
    explain_settings.explain(sections, told)
    for section in sections:
        if "mpirun" in section.kinds:
            explain_launch.explain(section, told, any(finding.broken for finding in told.findings))
    for source in sources:
        if not source.kinds:
            told.add("explain.unrecognised", source.name, file=source.name, evidence={"lines": source.lines})
        if source.cut:
            told.add("explain.cut", source.name, file=source.name)
    return told.findings


def verdict(findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the verdict: ``fail`` when anything is fail or unknown. A skip alone says nothing, so it is unknown, which counts as fail."""
    counts = counts_of(findings)
    bad = [finding for finding in findings if finding.status in BROKEN]
    if bad:
        parts = [f"{finding.id} on {finding.subject}" for finding in bad[:4]] + ([f"{len(bad) - 4} more"] if len(bad) > 4 else [])
        return {"status": "fail", "counts": counts, "message": "; ".join(parts)}
    if not any(finding.status in ("pass", "warn") for finding in findings):
        return {"status": "fail", "counts": counts, "message": "nothing in the files could be judged"}
    warnings = [finding.id for finding in findings if finding.status == "warn"]
    return {
        "status": "pass",
        "counts": counts,
        "message": f"nothing is wrong; warnings: {', '.join(dict.fromkeys(warnings))}" if warnings else "nothing is wrong",
    }
