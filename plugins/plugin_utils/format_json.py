# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The report as JSON: the whole in ``report.json``, and what concerns one host in ``<host>.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_names import host_file


def files(report: Mapping[str, Any]) -> dict[str, str]:
    """Return the files of this format, name to content."""
    documents = {host_file(host, "json"): host_document(report, host) for host in report["plan"]["nodes"]}
    documents["report.json"] = dict(report)
    return {name: json_text(document) for name, document in documents.items()}


def host_document(report: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return the part of a report that concerns one host."""
    planned = report["plan"]["nodes"][host]
    cables = {interface["cable"] for interface in planned["interfaces"].values()}
    return {
        "schema_version": report["schema_version"],
        "run_id": report["run_id"],
        "cluster": report["cluster"],
        "mode": report["mode"],
        "host": host,
        "tested": host not in report["not_tested"],
        "unreachable": report["unreachable"].get(host),
        "plan": planned,
        "node": report["nodes"].get(host),
        "neighbours": report["neighbours"].get(host),
        "paths": report["paths"].get(host),
        "perftest": report["perftest"].get(host),
        "iperf3": report["iperf3"].get(host),
        "drift": [entry for entry in report["drift"] if entry.get("host") == host],
        "findings": [finding for finding in report["findings"] if host in finding["nodes"]],
        "cables": [cable for cable in report["cables"] if cable["name"] in cables],
    }


def json_text(document: Any) -> str:
    """Return a document as JSON that people can read and compare."""
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
