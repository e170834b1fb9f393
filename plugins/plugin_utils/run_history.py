# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Stored runs of a cluster, read for comparing: the last good one, a named one, the good ones before, and the newest of a scenario."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.comparison import Digest, compare, digest
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import RUN_ID, check_version
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_folder import is_run, load
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.scenario_name import name_of

#: So many good runs are read for the noise of each test; each costs reading one report.
GOOD_RUNS_READ = 8

#: Give up looking for good runs after so many stored ones.
RUNS_SEARCHED = 24


def comparisons(report: Mapping[str, Any], base: pathlib.Path, baseline: str | None, noise_percent: float) -> list[dict[str, Any]]:
    """Compare a new run with the last good one and, when one is named, with the baseline.

    :param base: the folder of the cluster's runs
    :param baseline: a run id below ``base``, or the path of a report or of its folder
    :raises FabricError: when the named baseline cannot be used
    """
    now = digest(report)
    good = list(good_runs(base, now))
    found = [compare(now, good[0], "last_good", good, noise_percent)] if good else []
    if baseline:
        found.append(compare(now, named_run(baseline, base), "baseline", good, noise_percent))
    return found


def compare_with(report: Mapping[str, Any], base: pathlib.Path, against: str, noise_percent: float) -> dict[str, Any]:
    """Compare a stored run with one that is named; good runs stored before it tell the noise."""
    now = digest(report)
    return compare(now, named_run(against, base), "baseline", good_runs(base, now), noise_percent)


def good_runs(base: pathlib.Path, now: Digest) -> Iterator[Digest]:
    """Yield the newest good runs before a run, newest first. A stored run that cannot be read is passed over."""
    before = sorted((path for path in base.iterdir() if is_run(path) and path.name < now.run_id), reverse=True) if base.is_dir() else []
    left = GOOD_RUNS_READ
    for path in before[:RUNS_SEARCHED]:
        try:
            run = read(path)
        except FabricError:
            continue
        if run.mode == "validate" and run.status == "pass":
            yield run
            left -= 1
            if not left:
                return


def named_run(name: str, base: pathlib.Path) -> Digest:
    """Return the run that a run id or path names."""
    try:
        return read(run_path(name, base))
    except FabricError as exc:
        raise FabricError(f"report_baseline: {exc}") from exc


def scenario_run(run: str, base: pathlib.Path, now: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the report of a scenario's run, given its id or path.

    :param now: the run just judged, which counts as it is now and not as it was stored
    :raises FabricError: when it cannot be used
    """
    path = run_path(run, base)
    try:
        return as_of_now(load(path), now)
    except FabricError as exc:
        raise FabricError(f"report_scenarios: {path}: {exc}") from exc


def newest_for(name: str, base: pathlib.Path, now: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the newest run of a scenario, the one just judged included; None where there is none.

    :raises FabricError: when it was written by a later version
    """
    stored = newest_of(name, base)
    if name_of(now) == name and (stored is None or str(stored.get("run_id")) <= now["run_id"]):
        return now
    try:
        return stored and as_of_now(stored, now)
    except FabricError as exc:
        raise FabricError(f"report_scenarios: the newest run of {name}: {exc}") from exc


def as_of_now(stored: Mapping[str, Any], now: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a stored report, or the run just judged where it is the same run."""
    check_version(stored)
    return now if stored.get("run_id") == now["run_id"] else stored


def newest_of(name: str, base: pathlib.Path) -> dict[str, Any] | None:
    """Return the newest stored run of a scenario, None where there is none. A run that cannot be read is passed over."""
    for path in sorted((path for path in base.iterdir() if is_run(path)), reverse=True) if base.is_dir() else ():
        try:
            report = load(path)
        except FabricError:
            continue
        if name_of(report) == name:
            return report
    return None


def run_path(name: str, base: pathlib.Path) -> pathlib.Path:
    """Return where a run lies, given its id or a path."""
    return base / name if RUN_ID.fullmatch(name) else pathlib.Path(name).absolute()


def read(path: pathlib.Path) -> Digest:
    """Read what comparing needs of a stored run."""
    stored = load(path)
    try:
        return digest(stored)
    except (KeyError, TypeError, AttributeError, ValueError) as exc:
        raise FabricError(f"{path} is no report of this collection ({type(exc).__name__}: {exc}); give a report.json or the folder of a run.") from exc


def spared(base: pathlib.Path, compared: list[dict[str, Any]]) -> frozenset[str]:
    """Return the runs that must not be removed with the old ones: what this run was compared with."""
    return frozenset(entry["run_id"] for entry in compared if (base / entry["run_id"]).is_dir())
