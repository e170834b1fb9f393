# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Flow control of a port as it is: priorities with PFC, trust, priorities with ECN. Read only; nothing here is ever set.

Where the answer comes from, first that knows: ``dcb`` (iproute2), ``mlnx_qos`` (NVIDIA's own), and for ECN the driver's files in sysfs,
which only NVIDIA's driver packages have.
"""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils.command import Runner
from ansible_collections.dgxspark.fabric.plugins.module_utils.sysfs import Tree

PRIORITIES = range(8)
ECN_ROLES = ("roce_np", "roce_rp")


class FlowControlError(ValueError):
    """The text is not what the tool prints."""


def _object(text: str, what: str) -> dict[str, t.Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise FlowControlError(f"{what}: expected JSON, got {text.strip()[:80]!r}") from exc
    if isinstance(document, list):
        document = next((entry for entry in document if isinstance(entry, dict) and entry), {})
    if not isinstance(document, dict):
        raise FlowControlError(f"{what}: expected a JSON object, got {type(document).__name__}")
    return document


def parse_pfc(text: str) -> list[int] | None:
    """Return the priorities with PFC from ``dcb -j pfc show dev X``; ``None`` when it does not tell.

    Raises:
        FlowControlError: it is no JSON of dcb.
    """
    switches = _object(text, "dcb pfc").get("prio-pfc")
    if not isinstance(switches, list):
        return None
    return [number for number, value in enumerate(switches) if value is True or value == 1 or (isinstance(value, str) and value.rpartition(":")[2] == "on")]


def parse_trust(text: str) -> str | None:
    """Return what a port trusts ("dscp", "pcp", in order) from ``dcb -j apptrust show dev X``; ``None`` when it does not tell.

    Raises:
        FlowControlError: it is no JSON of dcb.
    """
    order = _object(text, "dcb apptrust").get("order")
    return ",".join(str(entry) for entry in order) or None if isinstance(order, list) else None


def parse_mlnx_qos(text: str) -> tuple[list[int] | None, str | None]:
    """Return (priorities with PFC, trust) from what ``mlnx_qos -i X`` prints; ``None`` for what it does not tell."""
    trust = re.search(r"^Priority trust (?:state|mode): *(\w{1,10})", text, re.MULTILINE | re.ASCII)
    columns = re.search(r"^\s*priority((?:\s+[0-7]){8})\s*\n\s*enabled((?:\s+[01]){8})", text, re.MULTILINE | re.ASCII)
    enabled = None
    if columns:
        enabled = [int(number) for number, value in zip(columns[1].split(), columns[2].split(), strict=True) if value == "1"]
    return enabled, trust[1] if trust else None


def ecn_priorities(tree: Tree, interface: str) -> list[int] | None:
    """Return the priorities on which both roles of a port mark and answer congestion; ``None`` where the driver has no such files."""
    base = ("sys/class/net", interface, "ecn")
    if not tree.exists(*base):
        return None
    return [number for number in PRIORITIES if all(tree.text(*base, role, "enable", str(number)) == "1" for role in ECN_ROLES)]


def read_flow_control(run: Runner, tree: Tree, interface: str) -> tuple[dict[str, t.Any], str]:
    """Return ``pfc_priorities``, ``trust`` and ``ecn_priorities`` of a port, ``None`` each where nothing tells, and why if so."""
    found: dict[str, t.Any] = {"pfc_priorities": None, "trust": None, "ecn_priorities": ecn_priorities(tree, interface)}
    trouble = ""
    for words, key, parse in ((["pfc"], "pfc_priorities", parse_pfc), (["apptrust"], "trust", parse_trust)):
        done = run(["dcb", "-j", *words, "show", "dev", interface], timeout=10)
        if not done.found:
            trouble = "dcb is not installed; the package iproute2 brings it"
            break
        try:
            found[key] = parse(done.out) if done.rc == 0 and done.out.strip() else None
        except FlowControlError as exc:
            trouble = str(exc)
        if done.rc != 0 and key == "pfc_priorities":
            trouble = f"the driver of {interface} does not tell: {done.err.strip()[:120]}"
    if found["pfc_priorities"] is None or found["trust"] is None:
        done = run(["mlnx_qos", "-i", interface], timeout=10)
        if done.found and done.rc == 0:
            priorities, trust = parse_mlnx_qos(done.out)
            found["pfc_priorities"] = priorities if found["pfc_priorities"] is None else found["pfc_priorities"]
            found["trust"] = found["trust"] or trust
    return found, "" if found["pfc_priorities"] is not None else trouble
