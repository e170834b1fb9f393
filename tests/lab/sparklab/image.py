# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Builds the disk image: Debian packages, the overlay, a file system, a kernel and its initramfs.

A build happens in ``.lab/tmp`` and is renamed at its end, so a broken one is never taken for an image. What a killed
build leaves (files, and processes of its session) the next one removes.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from . import host, initramfs, keys, mirror, processes, recipe
from .errors import LabError
from .paths import RECIPE_DIR, images_dir, lab_dir, readable_by_all, snapshots_dir, socket_dir
from .progress import say, step

# ext4 features that only cost time in a throw-away file system
MKE2FS = ["mke2fs", "-q", "-t", "ext4", "-O", "^metadata_csum,^64bit", "-E", "lazy_itable_init=1,nodiscard"]
SPACE_BYTES = 4_000_000_000
FILES = ("base.ext4", "vmlinuz", "initrd.cpio")


def current() -> tuple[str, pathlib.Path]:
    """Return the hash of the present recipe and the folder of its image, built or not."""
    name = recipe.digest(keys.public_key())
    return name, images_dir() / name


def is_built(folder: pathlib.Path) -> bool:
    """Tell whether an image is there."""
    return all((folder / name).exists() for name in FILES)


def ensure(force: bool = False) -> tuple[str, pathlib.Path]:
    """Build the image of the present recipe unless it is there; remove those of other recipes.

    Raises:
        LabError: a step failed.
    """
    host.require(["ssh-keygen"])
    name, folder = current()
    clean_leftovers()
    if force or not is_built(folder):
        host.require(host.BUILD_PROGRAMS)
        with step(f"building the image {name}"):
            build(folder)
    for old in images_dir().iterdir():
        if old != folder:
            say(f"removing the image of an older recipe, {old.name}")
            shutil.rmtree(old)
    return name, folder


def mapped() -> list[str]:
    """Return the beginning of a command that may give files to any user of the image."""
    return [] if host.is_root() else ["unshare", "--user", "--map-root-user", "--map-auto"]


def work_dir() -> pathlib.Path:
    """Return the folder that builds happen in."""
    return lab_dir() / "tmp"


def compile_stand_in(target: pathlib.Path, log: pathlib.Path) -> bytes:
    """Compile the stand-in of nccl-tests; it finds the image's own Open MPI, whose interface has stayed the same since version 4."""
    run(["mpicc", "-O2", "-s", "-Wall", "-o", str(target), str(RECIPE_DIR / "stand_in.c")], log)
    return target.read_bytes()


def debootstrap_dir() -> pathlib.Path:
    """Return the folder for mmdebstrap's own temporary files: a plain user's subordinate users must get there."""
    if host.is_root() or readable_by_all(lab_dir()):
        return work_dir() / "debootstrap"
    return pathlib.Path(tempfile.gettempdir()) / f"{socket_dir().name}-build"


def clean_leftovers() -> None:
    """Remove what a killed build left: its processes first, then its files."""
    record = work_dir() / "session.json"
    try:
        data = json.loads(record.read_text(encoding="utf-8"))
        processes.kill_and_wait([pid for session in data["sessions"] for pid in processes.session_members(session, data["boot"])])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    for folder in (debootstrap_dir(), work_dir()):
        if folder.exists():
            if folder.lstat().st_uid != os.getuid():
                raise LabError(f"{folder} belongs to somebody else; remove it")
            host.output([*mapped(), "rm", "-rf", "--one-file-system", str(folder)], timeout=300)


def record_session(pid: int) -> None:
    """Note the session of a program of this build, for clean_leftovers."""
    path = work_dir() / "session.json"
    known = json.loads(path.read_text(encoding="utf-8"))["sessions"] if path.exists() else []
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"boot": processes.boot_id(), "sessions": [*known, pid]}), encoding="utf-8")
    os.replace(part, path)


def run(arguments: list[str], log: pathlib.Path, output: pathlib.Path | None = None, environment: dict[str, str] | None = None) -> None:
    """Run one program of a build in a session of its own; it ends when we end.

    Raises:
        LabError: it failed, with the last lines of its log.
    """
    with log.open("ab") as words, (output or pathlib.Path(os.devnull)).open("wb") as result:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=result,
            stderr=words,
            start_new_session=True,
            preexec_fn=host.die_with_parent(signal.SIGTERM),
            env={**os.environ, **(environment or {})},
        )
        record_session(process.pid)
        try:
            status = process.wait()
        except BaseException:
            processes.kill_and_wait(processes.session_members(process.pid, processes.boot_id()))
            process.wait()
            raise
    if status:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:])
        raise LabError(f"{' '.join(arguments[:8])} … failed with status {status}; the end of {log}:\n{tail}")


def compile_static(source: pathlib.Path, target: pathlib.Path, log: pathlib.Path) -> bytes:
    """Compile one of the image's small programs."""
    run(["gcc", "-static", "-Os", "-s", "-Wall", "-o", str(target), str(source)], log)
    return target.read_bytes()


def debootstrap_command(overlay: pathlib.Path, source: str | None, settings: list[str]) -> list[str]:
    """Build mmdebstrap's command line; the root file system comes out as a tar on stdout."""
    # As root, a mount and a process namespace of its own: nothing it mounts or starts can outlive it.
    shell = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"] if host.is_root() else []
    options = [f"--aptopt={line}" for line in ['APT::Install-Recommends "false";', *settings]]
    options += [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "locale", "doc", "info")]
    return [
        *shell, "mmdebstrap", f"--mode={'root' if host.is_root() else 'unshare'}", "--variant=minbase", "--format=tar",
        f"--include={','.join(recipe.packages())}", *options,
        f"--customize-hook=tar-in {overlay} /", '--customize-hook=chroot "$1" /lab/customize.sh',
        recipe.SUITE, "-", *([source] if source else []),
    ]


def last_line(log: pathlib.Path) -> str:
    """Return the last line of a log."""
    return (log.read_text(encoding="utf-8", errors="replace").splitlines() or [""])[-1].removeprefix("I: ")


def check_space() -> None:
    """Check that a build fits on the disk.

    Raises:
        LabError: it does not.
    """
    for folder in (work_dir().parent, debootstrap_dir().parent):
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < SPACE_BYTES:
            raise LabError(f"{folder} has {free / 1e9:.1f} GB free; building the image takes {SPACE_BYTES / 1e9:.0f} GB there")


def build(folder: pathlib.Path) -> None:
    """Build the image of the present recipe into ``folder``.

    Raises:
        LabError: a step failed; everything half-made is removed by the next build.
    """
    check_space()
    work = work_dir()
    made = work / "image"
    made.mkdir(parents=True)
    debootstrap_dir().mkdir(mode=0o755, parents=True, exist_ok=True)
    log = work / "build.log"
    root = work / "root"
    try:
        overlay = work / "overlay.tar"
        agent = compile_static(RECIPE_DIR / "agent.c", work / "agent", log)
        overlay.write_bytes(recipe.overlay_tar(keys.public_key(), agent, compile_stand_in(work / "stand_in", log)))
        source = mirror.find_mirror()
        with step(f"installing Debian {recipe.SUITE} from {source or 'the default mirror of mmdebstrap'}", lambda: last_line(log)):
            run(
                debootstrap_command(overlay, source, mirror.apt_settings()),
                log,
                output=work / "root.tar",
                environment={"TMPDIR": str(debootstrap_dir()), "INITRD": "No", "LC_ALL": "C.UTF-8"},
            )
        with step("making the file system"):
            root.mkdir()
            unpack = ["tar", "-C", str(root), "--numeric-owner", "--same-owner", "-p", "--exclude=./dev/*", "-xf", str(work / "root.tar")]
            run([*mapped(), *unpack], log)
            (work / "root.tar").unlink()
            (made / "initrd.cpio").write_bytes(initramfs.make(root, compile_static(RECIPE_DIR / "init.c", work / "init", log)))
            shutil.copyfile(next((root / "boot").glob("vmlinuz-*")), made / "vmlinuz")
            run([*mapped(), *MKE2FS, "-d", str(root), str(made / "base.ext4"), recipe.SIZE], log)
            (made / "base.ext4").chmod(0o444)
    except LabError:
        if log.exists():
            shutil.copyfile(log, lab_dir() / "build.log")
        raise
    if folder.exists():
        shutil.rmtree(folder)
    os.rename(made, folder)
    # Machines that were booted from another image are of no more use.
    shutil.rmtree(snapshots_dir(), ignore_errors=True)
    clean_leftovers()
