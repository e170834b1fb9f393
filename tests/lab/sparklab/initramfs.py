# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The small initramfs: one static program and the few kernel modules between it and the disk."""

from __future__ import annotations

import lzma
import pathlib
import stat

from .errors import LabError

MODULES = ("virtio_blk", "crc32c_generic", "ext4", "virtio_net")


def load_order(dependencies: str, wanted: tuple[str, ...] = MODULES) -> list[str]:
    """Return the paths of modules in an order in which they can be loaded.

    Args:
        dependencies: the text of the kernel's modules.dep.
        wanted: names of modules; those that the kernel lacks (built in) are left out.
    """
    needs: dict[str, list[str]] = {}
    by_name: dict[str, str] = {}
    for line in dependencies.splitlines():
        path, _colon, rest = line.partition(":")
        needs[path] = rest.split()
        by_name[pathlib.PurePath(path).name.split(".ko")[0].replace("-", "_")] = path
    order: list[str] = []

    def visit(path: str) -> None:
        if path not in order:
            for need in needs.get(path, []):
                visit(need)
            order.append(path)

    for name in wanted:
        if name in by_name:
            visit(by_name[name])
    return order


def read_module(path: pathlib.Path) -> bytes:
    """Return a module's bytes, unpacked: the kernel loads it faster than it would unpack it.

    Raises:
        LabError: packed in a way that this program does not know.
    """
    content = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(content)
    if path.suffix != ".ko":
        raise LabError(f"{path}: kernel modules packed as {path.suffix} are not known to the lab (.ko and .ko.xz are)")
    return content


def cpio(entries: list[tuple[str, int, bytes]]) -> bytes:
    """Return a "newc" archive of (name, mode, content): see Documentation/driver-api/early-userspace/buffer-format.rst."""
    out = bytearray()
    for number, (name, mode, content) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        label = name.encode() + b"\0"
        fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(label), 0]
        out += b"070701" + b"".join(b"%08x" % field for field in fields) + label
        out += b"\0" * (-len(out) % 4)
        out += content
        out += b"\0" * (-len(out) % 4)
    return bytes(out)


def make(root: pathlib.Path, init: bytes) -> bytes:
    """Return the initramfs for the kernel in the file system ``root``.

    Raises:
        LabError: there is not exactly one kernel in it.
    """
    kernels = sorted((root / "usr/lib/modules").iterdir())
    if len(kernels) != 1:
        raise LabError(f"the image has {len(kernels)} kernels where one was expected: {[path.name for path in kernels]}")
    order = load_order((kernels[0] / "modules.dep").read_text(encoding="utf-8"))
    entries = [(name, stat.S_IFDIR | 0o755, b"") for name in ("dev", "new", "m")]
    entries.append(("init", stat.S_IFREG | 0o755, init))
    names = []
    for path in order:
        name = pathlib.PurePath(path).name.split(".ko")[0] + ".ko"
        names.append(name)
        entries.append((f"m/{name}", stat.S_IFREG | 0o644, read_module(kernels[0] / path)))
    entries.append(("m/order", stat.S_IFREG | 0o644, "\n".join([*names, ""]).encode()))
    return cpio(entries)
