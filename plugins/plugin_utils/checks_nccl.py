# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What nccl-tests showed, laid out for the rules of layer nccl. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_causes import load_causes
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_nccl_log import TEXT_CAUSES
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.nccl_curves import collective_of, curve, ladder, rows_of, small_messages
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.nccl_transport import Proof, prove, wanted_network
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import fill

#: Below this size latency decides, and a bandwidth says nothing about a cable.
LEAST_SIZE = 2**24
GIGABITS = 8.0
NOT_RUN = "nccl-tests was not run"
#: What several ranks say of one fault is told once, in this many words at most.
TOLD = 6
#: Causes of a failed ibv_modify_qp by errno.
CAUSE_OF_ERRNO = {
    110: "nccl.no_cable_to_peer", 61: "nccl.gid_index", 101: "nccl.no_route", 113: "nccl.no_route", 22: "nccl.gid_kinds", 12: "nccl.memory_registration"}
LATE_CAUSE = "The test takes longer than nccl_tests_test_seconds, or a rank waits for one that never answers (a cable, a firewall, a stopped node)."
LATE_FIX = "Compare what the ranks say last in their logs; with slow figures raise nccl_tests_test_seconds or lower nccl_tests_largest_bytes."
#: What mpirun says of processes that ended: after the deadline it is told of what the deadline ended, and is no cause.
ENDINGS = ("communication_lost", "exit_status")
#: Problems that a look at the nodes found, and the fact that a rule asks for.
PROBLEMS = ("memlock", "configuration", "configuration_note", "debug_left_on", "environment", "unknown_variable", "trees", "container_version",
            "container_marker", "container_library", "container_configuration", "container_memlock", "container_infiniband", "container_image")


def nccl_skip(fact: Mapping[str, Any] | None, mode: str, check_text: str) -> str | None:
    """Return why the layer is not judged, "" where nobody asked for it, None where it is judged."""
    if fact is None:
        return ""
    if mode == "check":
        return check_text
    if fact.get("status") == "skipped":
        return f"{NOT_RUN}: {fact.get('message') or 'no reason was given'}"
    return None


def nccl_fact(results: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the fact of the node that launched, None when none did."""
    return next((dict(fact) for fact in results.values() if fact and "status" in fact), None)


def nccl_facts(plan: Mapping[str, Any], fact: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what the rules of layer nccl ask for (see ``rule_facts``)."""
    fact = fact or {}
    runs = [run for run in fact.get("runs") or [] if run.get("nodes") and all(node in plan["nodes"] for node in run["nodes"])]
    good = [run for run in runs if run.get("status") == "ok"]
    stand_in = bool(fact.get("stand_in"))
    proofs = [] if stand_in else [(run, prove(plan, run)) for run in good]
    status = fact.get("status")
    problems = {name: [problem["message"] for problem in fact.get("problems") or [] if problem["id"] == name] for name in PROBLEMS}
    failed = [run for run in runs if run.get("status") != "ok" and run.get("error") != "wrong_data"]
    void = [run for run, proof in proofs if proof.gids]
    figures = [] if stand_in else [bandwidth(plan, run) for run, proof in proofs if proof.proven and run not in void]
    rungs = ladder(good)
    return {
        "stand_in": stand_in,
        "in_image": bool(fact.get("image")),
        "rdma_wanted": wanted_network(next(iter(plan["nodes"].values()))["nccl_environment"]) == "IB" and not stand_in,
        "done": status == "done",
        "seen": bool(fact.get("nodes")),
        "missing": [] if not fact or status in ("done", "refused", "failed") else [fact.get("message") or "no result came"],
        "refused": fact.get("message") or "refused" if status == "refused" else "",
        "refused_fix": fact.get("fix") or "",
        "launch": launch_facts(fact),
        "problems": {name: texts[:TOLD] for name, texts in problems.items()},
        "failed": failure_facts(failed),
        "not_measured": [] if good or status != "done" or failed else ["no test had a result"],
        "wrong_data": [f"{run_text(run)}: {run['message']}" for run in runs if run.get("error") == "wrong_data"],
        "unchecked": [run_text(run) for run in good if run.get("rows") and run.get("validation") is False],
        "json_differs": [f"{run_text(run)}: {text}" for run in runs for text in ((run.get("json") or {}).get("differences") or [])][:TOLD],
        **transport_facts([proof for _run, proof in proofs], bool(good) and not stand_in),
        "void": [f"{run_text(run)}: {', '.join(proof.gids)}" for run, proof in proofs if proof.gids],
        "bandwidth": worst([figure for figure in figures if figure and not figure["round_a_ring"]]),
        "ring_bandwidth": worst([figure for figure in figures if figure and figure["round_a_ring"]]),
        "above_ceiling": [figure["text"] for figure in figures if figure and figure["percent"] > 100.0 * figure["slack"]],
        "scaling": min((rung["ratio"] for rung in rungs), default=None),
        "ladder": rungs,
        "curves": [found for found in (curve(run) for run in good if run.get("sweep")) if found],
        "small": small_messages(good),
        "left_out": [f"{entry.get('collective')} over {', '.join(entry.get('nodes') or [])}: {entry.get('reason')}" for entry in fact.get("not_run") or []],
        "left_running": list(fact.get("left") or [])[:TOLD],
        "versions": sorted({str(report.get("nccl_version")) for report in (fact.get("nodes") or {}).values() if report.get("nccl_version")}),
        "rails": sorted({f"{interface['cable']}/{interface['rail']}" for node in {node for run in runs for node in run["nodes"]} or set(plan["nodes"])
                         for interface in plan["nodes"][node]["interfaces"].values()}),
    }


def run_text(run: Mapping[str, Any]) -> str:
    """Return a run in words."""
    nodes = run.get("nodes") or []
    return f"{collective_of(run)} on {', '.join(nodes) if len(nodes) <= 4 else f'{len(nodes)} nodes'}"


def launch_facts(fact: Mapping[str, Any]) -> dict[str, str]:
    """Return why nothing could be launched: text, cause and fix; texts are empty when it could."""
    if fact.get("status") != "failed":
        return {"text": "", "cause": "", "fix": ""}
    text = str(fact.get("message") or "the launch failed").rstrip(".")
    cause, fix = cause_of(fact.get("failures") or [])
    # A fix comes with the fact where the look at the nodes before the launch has found what is wrong.
    unknown = "The nodes do not have what a launch over all of them needs." if fact.get("fix") else "The output of the launch names no known cause."
    return {"text": text, "cause": cause or fact.get("cause") or unknown, "fix": fact.get("fix") or fix
            or "Try mpirun -np N --hostfile FILE hostname from the launching node, as the ssh user."}


def cause_of(failures: Iterable[Mapping[str, Any]]) -> tuple[str, str]:
    """Return cause and fix of the first failure of a launch that the list of causes knows."""
    causes = load_causes()
    for failure in failures:
        cause = causes.get(f"launch.{failure.get('name')}")
        if cause is not None:
            names = {"about": str(failure.get("subject") or "it"), "line": str(failure.get("line") or ""), "subject": "the launch"}
            return fill(cause.cause, names), fill(cause.fix, names)
    return "", ""


def failure_facts(runs: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the runs that failed: texts, and the cause of the first that has one, from NCCL's warnings or the launch's words."""
    texts = [f"{run_text(run)}: {run.get('message') or run.get('error')}" for run in runs]
    cause, fix, lines = "", "", []
    for run in runs:
        for record in run.get("rank_records") or []:
            lines += [f"{record['node']}: {warning['text']}" for warning in (record.get("log") or {}).get("warnings") or []]
        if not cause:
            cause, fix = warning_cause(run)
        if not cause:
            late = run.get("error") == "timeout"
            cause, fix = cause_of(failure for failure in run.get("launch_failures") or [] if not (late and failure.get("name") in ENDINGS))
            if late and not cause:
                cause, fix = LATE_CAUSE, LATE_FIX
    return {
        "texts": texts[:TOLD], "lines": lines[:TOLD], "cause": cause or "NCCL's log and the launcher's words name no known cause.",
        "fix": fix or "Look at the evidence, and give the logs of the launching node's state folder to the playbook explain.",
    }


def warning_cause(run: Mapping[str, Any]) -> tuple[str, str]:
    """Return cause and fix of the first warning in a run's logs that says more than that something failed."""
    causes = load_causes()
    for record in run.get("rank_records") or []:
        warnings = (record.get("log") or {}).get("warnings") or []
        tree = any("ncclTransportTreeConnect" in warning["text"] for warning in warnings) or bool(record.get("log") and record["log"].get("rings_connected"))
        for warning in warnings:
            found = CAUSE_OF_ERRNO.get(warning.get("errno")) or next((cause for cause, pattern in TEXT_CAUSES if pattern.search(warning["text"])), None)
            if found == "nccl.no_cable_to_peer" and tree:
                found = "nccl.tree_connect"
            if found in causes:
                return causes[found].cause, causes[found].fix
    return "", ""


def transport_facts(proofs: list[Proof], wanted: bool) -> dict[str, Any]:
    """Return what the runs together prove about transport; ``transport`` is null where nothing asks for a proof."""
    def texts(name: str) -> list[str]:
        return list(dict.fromkeys(text for proof in proofs for text in getattr(proof, name)))[:TOLD]

    shares = [share for proof in proofs for share in proof.shares]
    least = min(shares, key=lambda share: share["least_percent"], default=None)
    networks = sorted({proof.wanted for proof in proofs})
    return {
        "transport": {
            "wanted": ", ".join(networks), "silent": texts("silent"), "other": [*texts("other_network"), *texts("elsewhere")],
            "unproven": texts("unproven"), "wrong_hop": texts("wrong_hop"), "missing_twin": texts("missing_twin"), "unplanned": texts("unplanned"),
            "merged": texts("merged"), "used": {node: devices for proof in proofs for node, devices in proof.used.items()},
            "proven": bool(proofs) and all(proof.proven for proof in proofs), "rdma": networks == ["IB"],
        } if wanted else None,
        "share": None if least is None else {
            "least_percent": least["least_percent"], "counted": len(shares), "shares": shares[:64],
            "text": f"{least['node']} {least['way']} over {least['cable']}: "
            + ", ".join(f"{device} {value:g} %" for device, value in least["share_percent"].items()),
        },
    }


def bandwidth(plan: Mapping[str, Any], run: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the largest size of a run against what a cable carries; None where latency decides or nothing is expected.

    A collective round a ring of three or more passes every cable at once, so each node's two cables share its PCIe links.
    """
    rows = rows_of(run)
    expected = (plan["expected"].get("ceiling_gbps") or {}).get("cable")
    if not rows or rows[-1][0] < LEAST_SIZE or not expected:
        return None
    size, figure, _time = rows[-1]
    ceiling = expected / GIGABITS
    percent = round(100.0 * figure / ceiling, 1)
    ring = len(run["nodes"]) > 2 and plan["shape"] in ("mesh", "ring", "graph")
    joining = [cable for cable in plan["cables"] if set(run["nodes"]) == {end["node"] for end in (cable["a"], cable["b"]) if end}]
    return {
        "percent": percent, "gbytes_per_s": figure, "expected_gbytes_per_s": round(ceiling, 2), "size_bytes": size, "round_a_ring": ring,
        # Two cables between one pair reach what both PCIe links carry, 28 of 24.5 GB/s.
        "slack": 1.16 if len(joining) > 1 else 1.02,
        "text": f"{run_text(run)}, {size} bytes: {figure:g} of {ceiling:.1f} GB/s",
    }


def worst(figures: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the figure of the least share."""
    return min(figures, key=lambda figure: figure["percent"], default=None)
