# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Building from small repositories with make and git: verified, stamped, resumed, distributed, the last good one kept."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import time
import typing as t

import pytest

from ansible_collections.dgxspark.fabric.plugins.module_utils import nccl_build
from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_build import BuildError, Source, Tools
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.nccl_build_plan import NCCL, sources_of, work_of
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils.healthy import plan_of

pytestmark = pytest.mark.skipif(not shutil.which("git") or not shutil.which("make"), reason="git or make is missing")
NCCL_MAKE = """src.build:
\tmkdir -p $(BUILDDIR)/lib $(BUILDDIR)/include
\techo built >> $(BUILDDIR)/steps
\ttest ! -e $(BREAK) || { echo the compiler broke; exit 3; }
\ttest ! -e $(WAIT) || sleep 60
\techo 'NCCL version 2.30.7' > $(BUILDDIR)/lib/libnccl.so.2.30.7
\tln -sf libnccl.so.2.30.7 $(BUILDDIR)/lib/libnccl.so.2
\techo '//' > $(BUILDDIR)/include/nccl.h
"""
TESTS_MAKE = """all:
\ttest -e $(NCCL_HOME)/include/nccl.h && test "$(MPI)" = 1
\tmkdir -p $(BUILDDIR)
\tprintf '#!/bin/sh\\n' > $(BUILDDIR)/all_reduce_perf
\tchmod +x $(BUILDDIR)/all_reduce_perf
"""


def git(folder: pathlib.Path, *arguments: str) -> str:
    """Run git."""
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.invalid"]
    return subprocess.run(["git", "-C", str(folder), *identity, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def repository(folder: pathlib.Path, makefile: str, tag: str) -> str:
    """Make a repository with one tagged commit and return the commit."""
    folder.mkdir()
    (folder / "Makefile").write_text(makefile, encoding="utf-8")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "one")
    git(folder, "tag", tag)
    return git(folder, "rev-parse", "HEAD")


class Ground:
    """Repositories, a base folder, and tools that pass the checks."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder, self.base = folder, folder / "base"
        breaking = NCCL_MAKE.replace("$(BREAK)", str(folder / "break")).replace("$(WAIT)", str(folder / "wait"))
        commits = repository(folder / "nccl", breaking, "v1"), repository(folder / "tests", TESTS_MAKE, "t1")
        self.sources = (
            Source("nccl", "v1", commits[0], (folder / "nccl").as_uri()),
            Source("nccl-tests", "t1", commits[1], (folder / "tests").as_uri()),
        )
        for path in ("cuda/bin/nvcc", "mpi/include/mpi.h"):
            place = folder / path
            place.parent.mkdir(parents=True)
            place.write_text("#!/bin/sh\necho release 13.0\n", encoding="utf-8")
            place.chmod(0o755)
        self.tools = Tools(str(folder / "cuda"), str(folder / "mpi"), "sm", 2, 1000)

    def stamp(self, sources: t.Sequence[Source] | None = None) -> dict[str, t.Any]:
        """Return the stamp of the sources."""
        return nccl_build.stamp_of(sources or self.sources, "sm", nccl_build.fingerprint(self.tools.cuda_home))

    def build(self, sources: t.Sequence[Source] | None = None) -> dict[str, t.Any]:
        """Build; return the stamp."""
        stamp = self.stamp(sources)
        with nccl_build.locked(self.base):
            nccl_build.check_tools(self.base, sources or self.sources, self.tools)
            nccl_build.build(self.base, stamp, sources or self.sources, self.tools)
        return stamp


@pytest.fixture
def ground(tmp_path: pathlib.Path) -> Ground:
    """Return somewhere to build."""
    return Ground(tmp_path)


def test_a_build_is_complete_and_in_use(ground: Ground) -> None:
    stamp = ground.build()
    assert nccl_build.installed(ground.base, stamp) and nccl_build.current(ground.base) == stamp["name"] and stamp["surroundings"]["cuda"] == "13.0"
    prefix = ground.base / "current"
    assert (prefix / "lib/libnccl.so.2").is_symlink() and (prefix / "include/nccl.h").exists() and os.access(prefix / "bin/all_reduce_perf", os.X_OK)
    assert not (ground.base / "work" / stamp["name"]).exists()


def test_a_moved_tag_is_refused_and_nothing_is_built(ground: Ground) -> None:
    wrong = Source("nccl", "v1", "0" * 40, ground.sources[0].url)
    with pytest.raises(BuildError, match="the tag was moved"):
        ground.build((wrong, ground.sources[1]))
    assert nccl_build.current(ground.base) is None


def test_a_broken_build_leaves_the_last_good_one_in_use(ground: Ground) -> None:
    good = ground.build()
    git(ground.folder / "nccl", "tag", "v2")
    (ground.folder / "break").touch()
    newer = Source("nccl", "v2", ground.sources[0].commit, ground.sources[0].url)
    other = (newer, Source("nccl-tests", "t1", ground.sources[1].commit, ground.sources[1].url))
    stamp = nccl_build.stamp_of(other, "another", {})
    with pytest.raises(BuildError, match="the compiler broke"):
        nccl_build.build(ground.base, stamp, other, ground.tools)
    assert nccl_build.current(ground.base) == good["name"] and not nccl_build.installed(ground.base, stamp)


def test_a_killed_build_is_gone_on_with(ground: Ground) -> None:
    (ground.folder / "wait").touch()
    child = os.fork()
    if child == 0:
        os.setsid()
        with contextlib.suppress(BuildError):
            ground.build()
        os._exit(1)
    steps = ground.base / "work" / ground.stamp()["name"] / "nccl-build/steps"
    until = time.monotonic() + 30
    while not steps.exists() and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    (ground.folder / "wait").unlink()
    assert steps.exists() and nccl_build.current(ground.base) is None
    shutil.rmtree(ground.folder / "nccl")  # verified before: it is not fetched again
    stamp = ground.build()
    assert nccl_build.installed(ground.base, stamp)


def test_an_archive_is_verified(ground: Ground) -> None:
    archives = []
    for source, name in zip(ground.sources, ("nccl", "tests")):
        archive = ground.folder / f"{name}.tar"
        subprocess.run(["tar", "-C", str(ground.folder), "-cf", str(archive), name], check=True)
        archives.append(Source(source.name, "", "", "", str(archive), nccl_build.file_sha256(archive, "")))
    stamp = ground.build(archives)
    assert nccl_build.installed(ground.base, stamp) and stamp["name"].startswith("archive-")
    with pytest.raises(BuildError, match="not the archive"):
        nccl_build.fetch(Source("nccl", "", "", "", archives[0].archive, "0" * 64), ground.folder / "x", ground.folder / "log")
    with pytest.raises(BuildError, match="SHA-256"):
        Source("nccl", "", "", "", "/x.tar").check()
    with pytest.raises(BuildError, match="whole commit"):
        Source("nccl", "v1", "abc", "u").check()


def test_another_node_takes_it_over(ground: Ground) -> None:
    stamp = ground.build()
    archive, sha256 = nccl_build.pack(ground.base, stamp)
    other = ground.folder / "other"
    other.mkdir()
    nccl_build.receive(other, stamp, [["cat", "/nowhere"], ["cat", str(archive)]], sha256)
    assert nccl_build.installed(other, stamp) and nccl_build.current(other) == stamp["name"] and (other / "current/bin/all_reduce_perf").exists()
    with pytest.raises(BuildError, match="expected"):
        nccl_build.receive(other, stamp, [["cat", str(archive)]], "0" * 64)
    with pytest.raises(BuildError, match="cannot fetch"):
        nccl_build.receive(other, stamp, [["cat", "/nowhere"]], sha256)
    assert nccl_build.installed(other, stamp) and not list(other.glob(".*.tar"))


def test_what_is_missing_is_named_before_anything_is_fetched(ground: Ground) -> None:
    with pytest.raises(BuildError, match="nvcc below /nowhere.*mpi.h below /nowhere"):
        nccl_build.check_tools(ground.base, ground.sources, Tools("/nowhere", "/nowhere", "", 1, 0))
    with pytest.raises(BuildError, match="GB free"):
        nccl_build.check_tools(ground.base, ground.sources, Tools(ground.tools.cuda_home, ground.tools.mpi_home, "", 1, 1 << 60))
    with nccl_build.locked(ground.base), pytest.raises(BuildError, match="another build"), nccl_build.locked(ground.base):
        pass


def test_sources_of_an_inventory() -> None:
    assert sources_of(None, None)["nccl"] == NCCL and sources_of("2.30.7", None)["nccl"] == NCCL
    assert sources_of(None, "https://mirror.example/nccl.git")["nccl"] == {**NCCL, "url": "https://mirror.example/nccl.git"}
    assert sources_of("2.31.2", {"commit": "a" * 40})["nccl"]["tag"] == "v2.31.2-1"
    for version, source, words in (("2.31.2", None, "needs its commit"), (None, {"archive": "/x"}, "sha256"), (None, {"branch": "x"}, "branch")):
        with pytest.raises(FabricError, match=words):
            sources_of(version, source)


def test_one_node_builds_for_its_like() -> None:
    plan = plan_of("ring", 4)
    probes = {node: {"installed": node == "spark3", "stamp": {"name": "other" if node == "spark4" else "same"}} for node in plan["nodes"]}
    work = work_of(plan, probes)
    assert work["spark3"]["state"] == "built" and work["spark4"]["state"] == "built"
    assert work["spark1"]["origin"] == "spark3" and work["spark1"]["addresses"] == ["10.77.0.13"]  # opposite in the ring: no cable
    assert work["spark2"]["origin"] == "spark3" and work["spark2"]["addresses"][0].startswith("192.168.") and len(work["spark2"]["addresses"]) == 2
