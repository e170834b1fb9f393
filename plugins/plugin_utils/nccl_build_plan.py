# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Who builds NCCL and who takes it over, from which sources. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, shown

#: Tags and their commits that the collection was written against.
NCCL = {"tag": "v2.30.7-1", "commit": "73cf112295c33aee2b895f329f592f2a9b4b0f97", "url": "https://github.com/NVIDIA/nccl.git"}
NCCL_TESTS = {"tag": "v2.19.6", "commit": "a0b82b2260cf5152b9f8c061bbf7eaf0ba096432", "url": "https://github.com/NVIDIA/nccl-tests.git"}
FIELDS = ("tag", "commit", "url", "archive", "sha256")


def sources_of(version: str | None, source: Any) -> dict[str, dict[str, str]]:
    """Return the sources of NCCL and nccl-tests from ``fabric_nccl_version`` and ``fabric_nccl_source``.

    The source is a URL of a mirror, or a mapping with any of tag, commit, url, archive and sha256, and ``tests`` with the same for nccl-tests.
    :raises FabricError: for a tag without its commit, an archive without its SHA-256, or a field that is not known
    """
    entry = {"url": source} if isinstance(source, str) else dict(source or {})
    tests = entry.pop("tests", None) or {}
    if version is not None:
        entry.setdefault("tag", f"v{version.removeprefix('v')}" if "-" in version else f"v{version.removeprefix('v')}-1")
    return {
        "nccl": source_of("fabric_nccl_source", entry, NCCL),
        "tests": source_of("fabric_nccl_source.tests", {"url": tests} if isinstance(tests, str) else tests, NCCL_TESTS),
    }


def source_of(told: str, entry: Mapping[str, Any], default: Mapping[str, str]) -> dict[str, str]:
    """Return one source, completed by the pinned one."""
    unknown = sorted(set(entry) - set(FIELDS))
    if unknown:
        raise FabricError(f"{told} has the field {shown(unknown[0])}; expected any of {', '.join(FIELDS)}")
    found = {key: str(value) for key, value in entry.items() if value not in (None, "")}
    if "archive" in found:
        if "sha256" not in found:
            raise FabricError(f"{told}: the archive {found['archive']} needs its sha256, since nothing is built that was not verified")
        return {"tag": found.get("tag", ""), **found}
    if found.get("tag", default["tag"]) != default["tag"] and "commit" not in found:
        raise FabricError(
            f"{told}: the tag {found['tag']} needs its commit (git ls-remote shows it), since tags can be moved; only {default['tag']} is known here")
    return {**default, **found}


def work_of(plan: Mapping[str, Any], probes: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return for each node that was looked at what it does: ``built``, or ``received`` from ``origin`` at ``addresses``.

    Nodes with one stamp (sources, architecture, CUDA and C library) share what one of them builds: one that has it already, else the first in rank order.
    The first of ``addresses`` lies on a segment that both share, where there is one, the last on the management network.
    """
    order = [node for node in plan["rank_order"] if node in probes]
    result: dict[str, dict[str, Any]] = {}
    builders: dict[str, str] = {}
    for node in sorted(order, key=lambda name: not probes[name]["installed"]):
        builders.setdefault(probes[node]["stamp"]["name"], node)
    for node in order:
        origin = builders[probes[node]["stamp"]["name"]]
        if origin == node:
            result[node] = {"state": "built", "origin": None, "addresses": []}
        else:
            result[node] = {"state": "received", "origin": origin, "addresses": addresses_between(plan, node, origin)}
    return result


def addresses_between(plan: Mapping[str, Any], node: str, origin: str) -> list[str]:
    """Return the addresses of ``origin`` that ``node`` should fetch from, the fastest first."""
    shared = [peer["address"] for interface in plan["nodes"][node]["interfaces"].values() for peer in interface["peers"] if peer["node"] == origin]
    return [*map(str, shared[:1]), str(plan["nodes"][origin]["management"]["address"])]
