# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a playbook that needs no cluster with a real ansible-playbook, as a user of the installed collection does."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = shutil.which("ansible-playbook", path=os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ.get("PATH", "")]))


def run_playbook(folder: pathlib.Path, playbook: str | pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a playbook, by path or full name, in a folder, without ansible.cfg."""
    link = folder / "collections/ansible_collections/dgxspark/fabric"
    if not link.exists():
        link.parent.mkdir(parents=True)
        link.symlink_to(ROOT)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")} | {
        "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
        "ANSIBLE_HOME": str(folder / "home"),
        "HOME": str(folder),
        "ANSIBLE_NOCOLOR": "1",
        "LC_ALL": "C.UTF-8",
    }
    command = [str(PROGRAM), str(playbook), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)


def run_offline(folder: pathlib.Path, playbook: str, variables: dict[str, Any], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run ``playbooks/<playbook>`` with variables and without inventory."""
    return run_playbook(folder, ROOT / "playbooks" / playbook, "-e", json.dumps(variables), *arguments)
