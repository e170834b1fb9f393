# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an image is made of, and the hash of all that: another recipe is another image."""

from __future__ import annotations

import hashlib
import io
import pathlib
import tarfile

from .paths import PROGRAM_DIR, RECIPE_DIR

SUITE = "trixie"
SIZE = "3G"
#: Names that the stand-in of nccl-tests is called by; the name chooses the test.
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv", "alltoall")
# Modules of this program whose text decides what an image looks like.
MODULES = ("recipe.py", "image.py", "initramfs.py")


def packages(folder: pathlib.Path = RECIPE_DIR) -> list[str]:
    """Return the names of the image's packages."""
    lines = (folder / "packages.txt").read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def overlay_files(folder: pathlib.Path = RECIPE_DIR) -> list[pathlib.Path]:
    """Return the files that are laid over the packages, in a fixed order."""
    return sorted(path for path in (folder / "overlay").rglob("*") if path.is_file())


def recipe_files(folder: pathlib.Path = RECIPE_DIR) -> list[pathlib.Path]:
    """Return every file that decides what the image looks like."""
    own = [folder / name for name in ("packages.txt", "customize.sh", "init.c", "agent.c", "stand_in.c")]
    return [*own, *overlay_files(folder), *(PROGRAM_DIR / "sparklab" / name for name in MODULES)]


def digest(public_key: str, folder: pathlib.Path = RECIPE_DIR) -> str:
    """Return the hash of a recipe; the public key that opens the machines is part of it."""
    total = hashlib.sha256(public_key.strip().encode())
    for path in recipe_files(folder):
        content = path.read_bytes()
        name = path.relative_to(folder) if path.is_relative_to(folder) else pathlib.Path(path.name)
        total.update(f"\0{name}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()[:16]


def overlay_tar(public_key: str, agent: bytes, stand_in: bytes, folder: pathlib.Path = RECIPE_DIR) -> bytes:
    """Return the archive that is unpacked over the packages: owned by root, readable whatever the checkout's umask was."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as archive:

        def add(name: str, content: bytes, mode: int) -> None:
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), mode
            archive.addfile(member, io.BytesIO(content))

        for path in overlay_files(folder):
            content = path.read_bytes()
            add(str(path.relative_to(folder / "overlay")), content, 0o755 if content.startswith(b"#!") else 0o644)
        add("usr/lib/sparklab/agent", agent, 0o755)
        for name in COLLECTIVES:
            add(f"usr/lib/sparklab/nccl-tests/{name}_perf", stand_in, 0o755)
        add("lab/authorized_keys", public_key.strip().encode() + b"\n", 0o644)
        add("lab/customize.sh", (folder / "customize.sh").read_bytes(), 0o755)
    return buffer.getvalue()
