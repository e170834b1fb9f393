# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action group ``fabric``: it holds every module, and defaults given for it reach them, those with an action plugin too."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.dgxspark.fabric.tests.unit.offline_playbook import PROGRAM, run_playbook

yaml = pytest.importorskip("yaml")

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_every_module_is_in_the_group() -> None:
    groups = yaml.safe_load((ROOT / "meta/runtime.yml").read_text(encoding="utf-8"))["action_groups"]
    assert groups == {"fabric": sorted(path.stem for path in (ROOT / "plugins/modules").glob("*.py"))}


@pytest.mark.skipif(PROGRAM is None, reason="ansible-playbook is not installed beside this Python")
def test_defaults_of_the_group_reach_a_module(tmp_path: pathlib.Path) -> None:
    (tmp_path / "log.txt").write_text("nothing of interest\n", encoding="utf-8")
    defaults = {"group/dgxspark.fabric.fabric": {"files": ["log.txt"], "out": str(tmp_path / "said.json"), "show": False}}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "module_defaults": defaults, "tasks": [{"dgxspark.fabric.explain": {}}]}
    (tmp_path / "play.yml").write_text(json.dumps([play]), encoding="utf-8")
    run = run_playbook(tmp_path, tmp_path / "play.yml")
    assert run.returncode == 0, run.stdout + run.stderr
    assert json.loads((tmp_path / "said.json").read_text(encoding="utf-8"))
