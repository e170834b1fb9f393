# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What was measured of inference, laid out for the rules of layer inference. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_record import FAILURES
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.inference_runs import CONDITIONS, positive
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.measured_rows import is_figure
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import counted, number_text

#: What the look at an endpoint can find, and the check that tells it.
ENDPOINT_PROBLEMS = {
    "refused": ("refused", "unresolved", "unreachable", "tls"),
    "http": ("http", "unauthorized", "not_openai", "not_streamed"),
    "stalled": ("silent", "stalled"),
    "truncated": ("truncated",),
    "unfit": ("model", "context"),
}
#: Measures that a rule may set limits for, of the worst run.
MEASURES = ("ttft_ms", "inter_token_ms", "request_ms")
#: Answers and prompts within this (percent) of what was asked for are as long as asked for.
LENGTH_PERCENT = 10.0
TOLD = 6


def progress_line(progress: Mapping[str, Any]) -> str:
    """Return "8 at once (2 of 3), 40 of 110 requests ended, about 25 s left"."""
    rounds, wanted = int(progress.get("rounds") or 0), int(progress.get("wanted") or 0)
    level = f" ({progress.get('round')} of {rounds})" if wanted and rounds > 1 else ""
    ended = f", {progress.get('ended') or 0} of {wanted} requests ended" if wanted else ""
    return f"{progress.get('what') or 'nothing yet'}{level}{ended}, about {float(progress.get('seconds_left') or 0):.0f} s left"


def kept(fact: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fact as it is kept: what the job brought, or that it brought nothing."""
    if "runs" in fact:
        return {key: value for key, value in fact.items() if key != "tests"}
    return {**{key: fact.get(key) for key in ("run", "node", "status", "message")}, "reason": fact.get("status"), "fix": "", "url": "", "tool": "",
            "endpoint": {}, "runs": []}


def inference_skip(results: Mapping[str, Any], mode: str, check_text: str) -> str | None:
    """Return why the layer is not judged, "" where nobody asked for it, None where it is judged."""
    if not measured_facts(results):
        return ""
    return check_text if mode == "check" else None


def measured_facts(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the facts of those hosts that have a measurement; runs that a person states have no status and are not judged."""
    return [dict(fact) for fact in results.values() if isinstance(fact, Mapping) and "status" in fact]


def inference_facts(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the rules of layer inference ask for (see ``rule_facts``)."""
    facts = measured_facts(results)
    runs = [laid_out(run) for fact in facts for run in runs_of(fact)]
    good = [run for run in runs if not run.get("errors") and positive(run.get("throughput_tokens_per_s"))]
    problems = {name: [of_endpoint(fact) for fact in facts if fact.get("status") == "refused" and fact.get("reason") in ids]
                for name, ids in ENDPOINT_PROBLEMS.items()}
    failed = [fact for fact in facts if fact.get("status") == "failed"]
    return {
        "measured": bool(runs),
        "missing": [fact.get("message") or "no result came" for fact in facts if fact.get("status") in ("lost", "not_started")],
        **{name: [*problems[name], *failures(runs, name)][:TOLD] for name in ("refused", "http", "stalled", "truncated")},
        "slow": failures(runs, "slow")[:TOLD],
        "other": failures(runs, "other")[:TOLD],
        "unfit": problems["unfit"],
        "unfit_fix": next((fact["fix"] for fact in facts if fact.get("reason") in ENDPOINT_PROBLEMS["unfit"] and fact.get("fix")),
                          "Set inference_bench_model to a model that is served."),
        "generator": [fact.get("message") or "it failed" for fact in failed],
        "generator_fix": next((fact["fix"] for fact in failed if fact.get("fix")), "See the last lines of its output in the evidence."),
        "generator_tail": [fact["tail"] for fact in failed if fact.get("tail")],
        "incomplete": [f"{run_text(run)}: {run['incomplete']}" for run in runs if run.get("incomplete")][:TOLD],
        "lengths": [text for run in good for text in lengths(run)][:TOLD],
        "not_stated": not_stated(runs),
        "no_figure": [run_text(run) for run in runs if not run.get("errors") and not positive(run.get("throughput_tokens_per_s"))][:TOLD],
        **{measure: slowest(good, measure) for measure in MEASURES},
        "runs": [{"run": run_text(run), **{key: run.get(key) for key in ("throughput_tokens_per_s", *MEASURES)}} for run in runs],
    }


def together(earlier: Any, later: Mapping[str, Any]) -> dict[str, Any]:
    """Return a host's fact with the runs that it had before; a run under the same conditions, on as many nodes at the same link speed, is replaced."""
    new = runs_of(later)
    known = [identity(run) for run in new]
    return {**later, "runs": [*(run for run in runs_of(earlier) if identity(run) not in known), *new]}


def runs_of(fact: Any) -> list[Mapping[str, Any]]:
    """Return the runs of a fact, none where it holds no list of them."""
    runs = fact.get("runs") if isinstance(fact, Mapping) else None
    return [run for run in runs if isinstance(run, Mapping)] if isinstance(runs, list) else []


def laid_out(run: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run whose parts are of the kind that they should be; a stored one may hold anything."""
    maps = {key: run[key] if isinstance(run.get(key), Mapping) else {} for key in ("conditions", "requests", *MEASURES)}
    failures = run.get("failures")
    told = [failure for failure in failures if isinstance(failure, Mapping)] if isinstance(failures, list) else []
    return {**run, **maps, "failures": told}


def with_measured(stored: Mapping[str, Any] | None, measured: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the inference of a stored run, by host, with what hosts measured since."""
    known = dict(stored or {})
    return {**known, **{host: together(known.get(host), fact) for host, fact in measured.items()}}


def identity(run: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what makes two runs measure the same."""
    return tuple(str(run.get(key)) for key in ("nodes", "link_gbps", "conditions", "parallel"))


def of_endpoint(fact: Mapping[str, Any]) -> str:
    """Return what the look at an endpoint found."""
    return str(fact.get("message") or f"{fact.get('url')}: {fact.get('reason')}")


def failures(runs: Iterable[Mapping[str, Any]], kind: str) -> list[str]:
    """Return the requests that failed in one way, a text a run; what has no kind of ours is ``other``."""
    found = []
    for run in runs:
        for failure in run["failures"]:
            if (failure.get("kind") if failure.get("kind") in FAILURES else "other") == kind:
                total = sum(int(value) for value in (run["requests"].get("ok"), run["requests"].get("failed")) if is_figure(value))
                of = f" of {total}" if total else ""
                found.append(f"{run_text(run)}: {failure.get('count')}{of} requests ({failure.get('message')})")
    return found


def run_text(run: Mapping[str, Any]) -> str:
    """Return a run in words."""
    conditions = run.get("conditions") if isinstance(run.get("conditions"), Mapping) else {}
    level = conditions.get("concurrency")
    nodes = run.get("nodes")
    return f"{conditions.get('model') or 'a model'} on {counted(nodes, 'node') if isinstance(nodes, int) else 'its nodes'}" + (
        f", {level} at once" if level else "")


def lengths(run: Mapping[str, Any]) -> list[str]:
    """Return where answers or prompts had another length than the conditions state."""
    conditions = run["conditions"]
    found = []
    for what, key in (("answers", "output_tokens"), ("prompts", "input_tokens")):
        wanted, seen = conditions.get(key), run.get(f"measured_{key}")
        if positive(wanted) and is_figure(seen) and abs(seen - wanted) > wanted * LENGTH_PERCENT / 100:
            found.append(f"{run_text(run)}: {what} of {number_text(seen)} tokens instead of {number_text(wanted)}")
    return found


def not_stated(runs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the conditions that some run does not state."""
    stated = [run["conditions"] for run in runs]
    return [key for key in CONDITIONS if any(one.get(key) in (None, "") for one in stated)]


def slowest(runs: Iterable[Mapping[str, Any]], measure: str) -> dict[str, Any] | None:
    """Return the run with the highest 95th percentile of a measure, None where no run has one."""
    figures = [(run[measure]["p95"], run) for run in runs if is_figure(run[measure].get("p95"))]
    if not figures:
        return None
    value, run = max(figures, key=first_of)
    return {"p95": value, "p50": run[measure].get("p50"), "p99": run[measure].get("p99"), "text": f"{run_text(run)}: {number_text(value)} ms"}


def first_of(pair: tuple[float, Any]) -> float:
    """Return the first of a pair, to sort by."""
    return pair[0]
