# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build NCCL and nccl-tests into a prefix of their own, named for everything that they are made of.

A prefix is complete or not there: it is put together beside its place and renamed, and ``current`` is switched to it at the very end, so a build that fails
or is killed leaves the last good one in use. The work folder stays until it succeeds, so that the next run goes on where this one stopped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tarfile
import typing as t
from collections.abc import Iterator, Sequence

from ansible_collections.dgxspark.fabric.plugins.module_utils import command as programs

STAMP, CURRENT, WORK = "stamp.json", "current", "work"
COMMIT = re.compile(r"[0-9a-f]{40}", re.ASCII)
SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
LOG_LINES = 20
#: Of what may lie in a prefix: the libraries, their headers, the programs.
PARTS = (("lib", "libnccl*"), ("include", "*.h"), ("bin", "*_perf"))


class BuildError(RuntimeError):
    """It cannot be built; the text says what is missing and what to do."""


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a program's source comes from: a tag whose ``commit`` is verified, or an ``archive`` on the node whose ``sha256`` is."""

    name: str
    tag: str
    commit: str
    url: str
    archive: str = ""
    sha256: str = ""

    def check(self) -> None:
        """Refuse a source that cannot be verified; raises BuildError."""
        if self.archive and not SHA256.fullmatch(self.sha256):
            raise BuildError(f"{self.name}: the archive {self.archive} needs its SHA-256 (64 hexadecimal digits), got {self.sha256!r}")
        if not self.archive and not COMMIT.fullmatch(self.commit):
            raise BuildError(f"{self.name}: the tag {self.tag} needs its whole commit (40 hexadecimal digits), got {self.commit!r}")

    @property
    def identity(self) -> str:
        """What makes two sources the same, wherever they come from."""
        return f"sha256:{self.sha256}" if self.archive else f"commit:{self.commit}"


@dataclasses.dataclass(frozen=True)
class Tools:
    """What a build runs with."""

    cuda_home: str
    mpi_home: str
    gencode: str
    jobs: int
    space_bytes: int


def fingerprint(cuda_home: str, run: programs.Runner = programs.run) -> dict[str, str | None]:
    """Return what a built library depends on besides its source: architecture, CUDA and the C library."""
    nvcc = run([os.path.join(cuda_home, "bin/nvcc"), "--version"])
    cuda = re.search(r"release (\d{1,3}\.\d{1,3})", nvcc.out)
    return {"architecture": platform.machine(), "cuda": cuda[1] if cuda else None, "libc": "-".join(platform.libc_ver()) or None}


def stamp_of(sources: Sequence[Source], gencode: str, surroundings: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return everything that a prefix is made of, and its name."""
    inputs = {"sources": {source.name: source.identity for source in sources}, "gencode": gencode, "surroundings": surroundings}
    digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:12]
    tag = re.sub(r"[^A-Za-z0-9.-]", "_", sources[0].tag or "archive")
    return {**inputs, "name": f"{tag}-{digest}"}


def installed(base: pathlib.Path, stamp: dict[str, t.Any]) -> bool:
    """Tell whether the prefix of a stamp is there and complete."""
    try:
        found = json.loads((base / stamp["name"] / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and all(found.get(key) == value for key, value in stamp.items())


def current(base: pathlib.Path) -> str | None:
    """Return the name of the prefix in use."""
    try:
        return os.path.basename(os.readlink(base / CURRENT))
    except OSError:
        return None


def switch(base: pathlib.Path, name: str) -> None:
    """Take a prefix into use, in one step."""
    temporary = base / f".{CURRENT}.new"
    with contextlib.suppress(FileNotFoundError):
        temporary.unlink()
    temporary.symlink_to(name)
    os.replace(temporary, base / CURRENT)


@contextlib.contextmanager
def locked(base: pathlib.Path) -> Iterator[None]:
    """Let one build at a time into a base folder; raises BuildError."""
    base.mkdir(mode=0o755, parents=True, exist_ok=True)
    with open(base / ".lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BuildError(f"another build runs in {base}; wait for it, or end it") from None
        yield


def check_tools(base: pathlib.Path, sources: Sequence[Source], tools: Tools) -> None:
    """Look for compilers, MPI and space before anything is fetched; raises BuildError with all that is missing."""
    missing = [f"{name} (package {package})" for name, package in (("make", "make"), ("g++", "g++")) if programs.find_program(name) is None]
    if any(not source.archive for source in sources) and programs.find_program("git") is None:
        missing.append("git (package git)")
    if not os.access(os.path.join(tools.cuda_home, "bin/nvcc"), os.X_OK):
        missing.append(f"nvcc below {tools.cuda_home} (the CUDA toolkit; nccl_cuda_home names another place)")
    if not os.path.exists(os.path.join(tools.mpi_home, "include/mpi.h")):
        missing.append(f"mpi.h below {tools.mpi_home} (package libopenmpi-dev; nccl_mpi_home names another place)")
    if missing:
        raise BuildError(f"cannot build on {platform.node()}: {'; '.join(missing)} missing")
    place = next(path for path in (base, *base.parents) if path.exists())
    free = shutil.disk_usage(place).free
    if free < tools.space_bytes:
        raise BuildError(f"cannot build on {platform.node()}: {place} has {free / 1e9:.1f} GB free, a build takes {tools.space_bytes / 1e9:.1f} GB")


def fetch(source: Source, folder: pathlib.Path, log: pathlib.Path) -> None:
    """Put a verified source into a folder, unless it is there; raises BuildError."""
    done = folder / ".fabric-source"
    if done.exists() and done.read_text(encoding="utf-8") == source.identity:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if source.archive:
        found = file_sha256(pathlib.Path(source.archive), f"{source.name}: ")
        if found != source.sha256:
            raise BuildError(f"{source.name}: {source.archive} has the SHA-256 {found}, expected {source.sha256}: it is not the archive that was named")
        run_logged(["tar", "-xf", source.archive, "-C", str(folder), "--strip-components=1", "--no-same-owner"], log, f"unpacking {source.archive}")
    else:
        git = ["git", "-C", str(folder)]
        run_logged([*git, "init", "-q"], log, "git init")
        run_logged([*git, "fetch", "-q", "--depth", "1", source.url, f"refs/tags/{source.tag}"], log, f"fetching {source.tag} from {source.url}")
        found = subprocess.run([*git, "rev-parse", "FETCH_HEAD^{commit}"], capture_output=True, text=True, check=False).stdout.strip()
        if found != source.commit:
            raise BuildError(
                f"{source.name}: the tag {source.tag} at {source.url} is commit {found or 'unknown'}, expected {source.commit}: the tag was moved, or the "
                "mirror is another one; nothing was built")
        run_logged([*git, "checkout", "-q", "--detach", source.commit], log, "git checkout")
    done.write_text(source.identity, encoding="utf-8")


def file_sha256(path: pathlib.Path, told: str) -> str:
    """Return the SHA-256 of a file; raises BuildError when it cannot be read."""
    total = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            while block := stream.read(1 << 20):
                total.update(block)
    except OSError as error:
        raise BuildError(f"{told}{path} on {platform.node()}: {error.strerror}") from None
    return total.hexdigest()


def run_logged(arguments: Sequence[str], log: pathlib.Path, what: str) -> None:
    """Run a step with its words in the log; raises BuildError with the last lines of it."""
    with open(log, "ab") as words:
        words.write(f"$ {' '.join(arguments)}\n".encode())
        words.flush()
        status = subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=words, stderr=words, check=False, env={**os.environ, "LC_ALL": "C"}).returncode
    if status:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])
        raise BuildError(f"{what} on {platform.node()} failed with status {status}; the end of {log}:\n{tail}")


def build(base: pathlib.Path, stamp: dict[str, t.Any], sources: Sequence[Source], tools: Tools) -> None:
    """Build NCCL (the first source) and nccl-tests (the second) into the prefix of a stamp; raises BuildError."""
    nccl, tests = sources
    work = base / WORK / stamp["name"]
    work.mkdir(mode=0o755, parents=True, exist_ok=True)
    log = work / "build.log"
    for source in sources:
        fetch(source, work / source.name, log)
    common = [f"-j{tools.jobs}", f"CUDA_HOME={tools.cuda_home}", f"NVCC_GENCODE={tools.gencode}"]
    run_logged(["make", "-C", str(work / nccl.name), "src.build", f"BUILDDIR={work / 'nccl-build'}", *common], log, f"building NCCL {nccl.tag}")
    places = [f"MPI_HOME={tools.mpi_home}", f"NCCL_HOME={work / 'nccl-build'}", f"BUILDDIR={work / 'tests-build'}"]
    run_logged(["make", "-C", str(work / tests.name), "MPI=1", *places, *common], log, f"building nccl-tests {tests.tag}")
    staging = base / f".{stamp['name']}.new"
    shutil.rmtree(staging, ignore_errors=True)
    for (part, pattern), origin in zip(PARTS, (work / "nccl-build/lib", work / "nccl-build/include", work / "tests-build")):
        (staging / part).mkdir(parents=True)
        found = sorted(origin.glob(pattern))
        if not found:
            raise BuildError(f"the build on {platform.node()} left no {pattern} in {origin}; see {log}")
        for path in found:
            shutil.copy2(path, staging / part / path.name, follow_symlinks=False)
    finish(base, staging, stamp)
    shutil.rmtree(work, ignore_errors=True)


def finish(base: pathlib.Path, staging: pathlib.Path, stamp: dict[str, t.Any]) -> None:
    """Put a complete prefix in its place and take it into use."""
    (staging / STAMP).write_text(json.dumps(stamp, sort_keys=True), encoding="utf-8")
    os.chmod(staging, 0o755)
    place = base / stamp["name"]
    shutil.rmtree(place, ignore_errors=True)  # incomplete, or its stamp would have been found
    os.rename(staging, place)
    switch(base, stamp["name"])


def pack(base: pathlib.Path, stamp: dict[str, t.Any]) -> tuple[pathlib.Path, str]:
    """Return an archive of a prefix for other nodes, made when it is missing, and its SHA-256."""
    archive = base / f"{stamp['name']}.tar"
    if not archive.exists():
        temporary = archive.with_suffix(".tar.new")
        with tarfile.open(temporary, "w") as tar:
            tar.add(base / stamp["name"], arcname=stamp["name"])
        os.chmod(temporary, 0o644)
        os.replace(temporary, archive)
    return archive, file_sha256(archive, "")


def receive(base: pathlib.Path, stamp: dict[str, t.Any], commands: Sequence[Sequence[str]], sha256: str) -> None:
    """Take a prefix over from another node: each of ``commands`` writes its archive to standard output, the first that can is taken; raises BuildError."""
    archive, staging = base / f".{stamp['name']}.tar", base / f".{stamp['name']}.new"
    try:
        words = []
        for command in commands:
            with open(archive, "wb") as stream:
                done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.PIPE, check=False)
            if done.returncode == 0:
                break
            words.append(done.stderr.decode("utf-8", "replace").strip()[-300:] or f"status {done.returncode}")
        else:
            raise BuildError(f"{platform.node()} cannot fetch NCCL from the node that built it: {'; '.join(words)}; see that ssh between the nodes works")
        found = file_sha256(archive, "")
        if found != sha256:
            raise BuildError(f"the archive that {platform.node()} fetched has the SHA-256 {found}, expected {sha256}; nothing was installed")
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir(mode=0o755)
        run_logged(["tar", "-xf", str(archive), "-C", str(staging), "--strip-components=1", "--no-same-owner"], base / "receive.log", "unpacking NCCL")
        finish(base, staging, stamp)
    finally:
        with contextlib.suppress(FileNotFoundError):
            archive.unlink()
