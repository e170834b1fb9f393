# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where reports lie: ``<folder>/<cluster>/<run id>/``, with ``latest`` pointing at the newest.

A run's folder appears as a whole or not at all, and only folders that this module made are ever removed.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, shown
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import RUN_ID

LATEST = "latest"
REPORT = "report.json"
PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
PARTIAL = ".partial-"

#: A half-written folder this old belongs to no run that is still going on.
ABANDONED_SECONDS = 3600


def store(folder: pathlib.Path, cluster: str, run_id: str, files: Mapping[str, str], keep: int, spare: frozenset[str] = frozenset()) -> pathlib.Path:
    """Write the files of a run, point ``latest`` at it and remove all but the newest ``keep`` runs and those of a scenario.

    :param spare: runs that stay beyond that number
    :raises FabricError: for a name that is no folder name
    :raises OSError: when the folder cannot be written
    """
    if not PLAIN_NAME.fullmatch(cluster) or not RUN_ID.fullmatch(run_id):
        raise FabricError(f"report: {shown(cluster)} / {shown(run_id)} is no folder name; give fabric_cluster_name letters, digits, '-', '_' and '.' only.")
    base = folder / cluster
    base.mkdir(parents=True, exist_ok=True)
    partial = pathlib.Path(tempfile.mkdtemp(prefix=PARTIAL, dir=base))
    try:
        partial.chmod(0o755)
        for name, text in files.items():
            (partial / name).write_text(text, encoding="utf-8", errors="replace")
        target = base / run_id
        os.rename(partial, target)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    point_latest(base, run_id)
    remove_old(base, keep, run_id, spare)
    return target


def point_latest(base: pathlib.Path, run_id: str) -> None:
    """Move the link ``latest``; a reader sees the old or the new run, never none."""
    link = base / f".{LATEST}-{run_id}"
    link.unlink(missing_ok=True)
    link.symlink_to(run_id)
    os.replace(link, base / LATEST)


def remove_old(base: pathlib.Path, keep: int, newest: str, spare: frozenset[str] = frozenset()) -> None:
    """Remove all but the newest ``keep`` runs, those to spare and those of a scenario, and what an interrupted run left behind."""
    runs = sorted((path for path in base.iterdir() if is_run(path)), key=lambda path: path.name, reverse=True)
    for path in [path for path in runs if path.name != newest][max(keep - 1, 0) :]:
        if path.name not in spare and not is_named(path):
            shutil.rmtree(path)
    before = os.stat(base / newest).st_mtime - ABANDONED_SECONDS
    for path in base.glob(f"{PARTIAL}*"):
        if path.is_dir() and not path.is_symlink() and path.stat().st_mtime < before:
            shutil.rmtree(path, ignore_errors=True)


def is_run(path: pathlib.Path) -> bool:
    """Tell whether a path is the folder of a stored run."""
    return RUN_ID.fullmatch(path.name) is not None and path.is_dir() and not path.is_symlink() and (path / REPORT).is_file()


def is_named(path: pathlib.Path) -> bool:
    """Tell whether a stored run belongs to a scenario; one that cannot be read does not."""
    try:
        return bool(load(path).get("scenario"))
    except FabricError:
        return False


def rewrite(folder: pathlib.Path, files: Mapping[str, str]) -> None:
    """Write files into an existing folder of a run, each replaced as a whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        temporary = folder / f".{name}.new"
        temporary.write_text(text, encoding="utf-8", errors="replace")
        os.replace(temporary, folder / name)


def load(path: pathlib.Path) -> dict[str, Any]:
    """Read a stored report, given its file or the folder of its run.

    :raises FabricError: when there is none
    """
    file = path / REPORT if path.is_dir() else path
    hint = "give a report.json or the folder of a run, such as reports/lab/latest"
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except OSError as exc:
        raise FabricError(f"report_from: {file} cannot be read: {exc.strerror}; {hint}.") from exc
    except ValueError as exc:
        raise FabricError(f"report_from: {file} is not JSON: {exc}; {hint}.") from exc
    if not isinstance(document, dict):
        raise FabricError(f"report_from: {file} is no report; {hint}.")
    return document
