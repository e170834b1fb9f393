# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The built collection: small and clean, and of use from an environment that holds only ansible-core and what the collection says it needs.

Installs packages with pip, so it needs a package index.
"""

from __future__ import annotations

import fnmatch
import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tarfile

import pytest

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report import make_report, report_files
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.report_folder import rewrite
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: Bytes of the archive; twice what it has, so that a cache or an image that slips in is seen.
LARGEST = 1_500_000
#: All that may stand in the archive: names, and what stands below folders.
PARTS = ["MANIFEST.json", "FILES.json", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "requirements.txt", "bindep.txt", "site.yml",
         "changelogs/changelog.yaml", "changelogs/config.yaml", "docs/*.md", "docs/*.json", "inventories/example-*/hosts.yml",
         "meta/runtime.yml", "meta/execution-environment.yml", "playbooks/*.yml", "plugins/*", "roles/*"]
UNWANTED = ["*.pyc", "*.orig", "*.swp", "*~", "*/.*", ".*"]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Build the collection from what git knows, as a release does."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("built")
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    galaxy = pathlib.Path(sys.executable).parent / "ansible-galaxy"
    subprocess.run([galaxy, "collection", "build", source, "--output-path", out], check=True, capture_output=True)
    return next(out.glob("*.tar.gz"))


def test_small_and_clean(archive: pathlib.Path) -> None:
    assert archive.stat().st_size < LARGEST
    with tarfile.open(archive) as content:
        names = [entry.name for entry in content.getmembers() if entry.isfile()]
    strange = [name for name in names if not any(fnmatch.fnmatch(name, part) for part in PARTS) or any(fnmatch.fnmatch(name, part) for part in UNWANTED)]
    assert strange == []


class Installed:
    """An environment with ansible-core, the collection and the collection's requirements, and a folder far from any checkout."""

    def __init__(self, folder: pathlib.Path, archive: pathlib.Path) -> None:
        self.folder, self.bin = folder / "elsewhere", folder / "venv/bin"
        self.folder.mkdir()
        self.environment = {"HOME": str(folder), "PATH": f"{self.bin}:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1"}
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        self.collection = folder / ".ansible/collections/ansible_collections/dgxspark/fabric"
        # pip finds its index as it does for whoever runs this.
        pip, own = [self.bin / "pip", "install", "-q", "--disable-pip-version-check"], {**os.environ, "PYTHONPATH": ""}
        subprocess.run([*pip, f"ansible-core=={importlib.metadata.version('ansible-core')}"], check=True, env=own)
        self.call("ansible-galaxy", "collection", "install", "--offline", str(archive))
        subprocess.run([*pip, "-r", self.collection / "requirements.txt"], check=True, env=own)

    def call(self, program: str, *arguments: str) -> str:
        """Run a program of the environment in the folder; return what it printed."""
        done = subprocess.run([self.bin / program, *arguments], cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, archive: pathlib.Path) -> Installed:
    return Installed(tmp_path_factory.mktemp("installed"), archive)


@pytest.mark.parametrize("topology", ["pair", "mesh", "ring", "switch"])
def test_plan(installed: Installed, topology: str) -> None:
    inventory = installed.collection / f"inventories/example-{topology}"
    installed.call("ansible-playbook", "-i", str(inventory), "dgxspark.fabric.plan", "-e", f"plan_dir={topology}")
    assert json.loads((installed.folder / topology / "plan.json").read_text(encoding="utf-8"))["topology"] == topology


def test_size(installed: Installed) -> None:
    questions = {"size_questions": {"memory": {"size_gb": 800, "nodes": 4}}, "size_out": str(installed.folder / "size.json")}
    installed.call("ansible-playbook", "dgxspark.fabric.size", "-e", json.dumps(questions))
    assert json.loads((installed.folder / "size.json").read_text(encoding="utf-8"))


def test_report_on_a_stored_run(installed: Installed) -> None:
    rewrite(installed.folder / "stored", report_files(make_report(healthy.healthy_run(healthy.plan_of("mesh", 3)))))
    installed.call("ansible-playbook", "dgxspark.fabric.report", "-e", "report_from=stored report_out=again")
    for stored in (installed.folder / "stored").iterdir():
        assert (installed.folder / "again" / stored.name).read_bytes() == stored.read_bytes()


def test_documentation(installed: Installed) -> None:
    assert "fabric_facts" in installed.call("ansible-doc", "-t", "module", "-l", "dgxspark.fabric")
