# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What repeating a test that fell short showed: always bad, now and then, or good once it was alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.rule_text import number_text

#: Results that say nothing: the test did not happen.
NO_WITNESS = ("excluded", "missing", "control_blocked", "peer_absent", "void")

Result = Mapping[str, Any]


def retest_facts(suspects: Iterable[Result], retests: Mapping[str, list[Result]], bad: Callable[[Result], bool]) -> dict[str, Any] | None:
    """Return the ``retests`` facts of a rail; None where nothing was repeated.

    :param suspects: its results that fell short
    :param retests: by the test repeated, the results of its repetitions and, of kind ``alone``, of the rail without its twin
    :return: ``flaky``: some runs good and some bad; ``passing``: only the first run fell short, with a figure, and it was not alone
        then; ``bad`` of ``runs`` for the worst test, first run included; ``alone``: bad and all runs of the rail alone; texts
    """
    worst: dict[str, Any] | None = None
    flaky, passing, seen = False, True, False
    alone: dict[str, Result] = {}
    for suspect in suspects:
        those = [result for result in retests.get(suspect["test"], []) if result["state"] not in NO_WITNESS]
        alone.update({result["test"]: result for result in those if result["kind"] == "alone"})
        repeats = [result for result in those if result["kind"] == "repeat"]
        if not repeats:
            passing = False
            continue
        seen = True
        count = sum(bad(result) for result in repeats)
        silent = suspect["state"] != "ok"
        wavers = 0 < count < len(repeats) or (count == 0 and silent)
        flaky = flaky or wavers
        passing = passing and count == 0 and not silent
        # A test that wavers is told before one that fails every time.
        if worst is None or (wavers, count + 1) > (worst["wavers"], worst["bad"]):
            figures = ", ".join(figure_text(result) for result in [suspect, *repeats])
            worst = {
                "wavers": wavers,
                "bad": count + 1,
                "runs": len(repeats) + 1,
                "text": f"{suspect['name']} fell short in {count + 1} of {len(repeats) + 1} runs: {figures}",
            }
    if not seen and not alone:
        return None
    return {
        "flaky": flaky,
        "passing": passing and seen,
        "bad": worst["bad"] if worst else None,
        "runs": worst["runs"] if worst else None,
        "text": worst["text"] if worst else "",
        "alone_bad": sum(bad(result) for result in alone.values()),
        "alone_runs": len(alone),
        "alone_text": "; ".join(f"{result['name']} {figure_text(result)}" for result in alone.values()),
    }


def figure_text(result: Result) -> str:
    """Return a result's figure, or that it has none."""
    if result["gbps"] is None:
        return str(result["state"])
    return f"{number_text(result['gbps'])} of {number_text(float(result['expected_gbps']))} Gb/s"


def only_together(rails: Mapping[str, Mapping[str, Any] | None]) -> str:
    """Say that each rail of a cable is good alone and both together never are, "" where that is not what was seen."""
    facts = list(rails.values())
    if len(facts) < 2 or any(one is None or not one["alone_runs"] or one["alone_bad"] or one["flaky"] or one["passing"] for one in facts):
        return ""
    return "; ".join(f"rail {rail}: {one['text']}, alone {one['alone_text']}" for rail, one in rails.items() if one is not None)
