# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What people are led to is there: links of documents that are built into the collection, and scripts that documents name."""

from __future__ import annotations

import fnmatch
import pathlib
import re
import subprocess
import sys

import pytest

yaml = pytest.importorskip("yaml")

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "roles").glob("*/README.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_that_are_built_in(document: pathlib.Path) -> None:
    ignored = yaml.safe_load((ROOT / "galaxy.yml").read_text(encoding="utf-8"))["build_ignore"]
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", document.read_text(encoding="utf-8")):
        if "://" in link:
            continue
        target = (document.parent / link).resolve()
        assert target.exists(), link
        inside = target.relative_to(ROOT)
        above = [str(inside), *(str(parent) for parent in inside.parents)]
        assert not any(fnmatch.fnmatch(name, pattern) for name in above for pattern in ignored), f"{link} is not in the built collection"


@pytest.mark.parametrize("script", ["make_checks.py", "make_explain.py"])
def test_documents_are_made_from_any_folder(tmp_path: pathlib.Path, script: str) -> None:
    pytest.importorskip("jmespath")
    run = subprocess.run([sys.executable, str(ROOT / "docs" / script)], cwd=tmp_path, env={}, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0 and "is current" in run.stdout, run.stdout + run.stderr
