# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The image's recipe: its hash, where packages come from, the initramfs."""

from __future__ import annotations

import io
import lzma
import pathlib
import shutil
import tarfile

import pytest

from sparklab import host, initramfs, mirror, recipe
from sparklab.errors import LabError
from sparklab.paths import RECIPE_DIR


@pytest.fixture(name="folder")
def fixture_folder(tmp_path: pathlib.Path) -> pathlib.Path:
    return pathlib.Path(shutil.copytree(RECIPE_DIR, tmp_path / "image"))


def test_the_hash_follows_every_file_and_the_key(folder: pathlib.Path) -> None:
    first = recipe.digest("key", folder)
    assert recipe.digest("key\n", folder) == first
    seen = {first, recipe.digest("other", folder)}
    for path in recipe.recipe_files(folder):
        if path.is_relative_to(folder):
            before = path.read_bytes()
            path.write_bytes(before + b"\n# changed\n")
            seen.add(recipe.digest("key", folder))
            path.write_bytes(before)
    assert len(seen) == 2 + sum(path.is_relative_to(folder) for path in recipe.recipe_files(folder))
    assert recipe.digest("key", folder) == first


def test_the_overlay_belongs_to_root_whatever_the_checkout_looks_like(folder: pathlib.Path) -> None:
    (folder / "overlay/etc/hosts").chmod(0o600)
    with tarfile.open(fileobj=io.BytesIO(recipe.overlay_tar("key", b"agent", b"stand-in", folder))) as archive:
        members = {member.name: member for member in archive}
        assert members["etc/hosts"].mode == 0o644 and members["usr/lib/sparklab/rdma"].mode == 0o755
        assert {member.uid for member in members.values()} == {0}
        keys = archive.extractfile("lab/authorized_keys")
        assert keys and keys.read() == b"key\n"


def test_the_host_mirror_is_found(tmp_path: pathlib.Path) -> None:
    (tmp_path / "sources.list.d").mkdir()
    assert mirror.find_mirror(tmp_path) is None
    (tmp_path / "sources.list.d/debian.sources").write_text(
        "Types: deb\n# note\nURIs: http://mirror.example/security\nSuites: bookworm-security\nComponents: main\n\n"
        "Types: deb deb-src\nURIs: http://mirror.example/debian\nSuites: bookworm\n bookworm-updates\nComponents: main contrib\n"
    )
    assert mirror.find_mirror(tmp_path) == "http://mirror.example/debian"
    (tmp_path / "sources.list").write_text(
        "# deb http://no.example/debian bookworm main\ndeb http://tool.example/apt stable-tool main\n"
        "deb [signed-by=/k.gpg arch=amd64] https://other.example/debian trixie main non-free\n"
    )
    assert mirror.find_mirror(tmp_path) == "https://other.example/debian"


def test_only_settings_for_reaching_a_mirror_are_passed_on() -> None:
    dump = (
        'APT::Install-Recommends "1";\nAcquire::http "";\nAcquire::http::Proxy "http://proxy.example:3128";\n'
        'Acquire::Check-Valid-Until "false";\nAcquire::IndexTargets::deb "";\nDPkg::Post-Invoke:: "rm -f x";\n'
    )
    assert mirror.settings(dump) == ['Acquire::http::Proxy "http://proxy.example:3128";', 'Acquire::Check-Valid-Until "false";']


def test_modules_load_after_what_they_need() -> None:
    text = "k/ext4.ko.xz: k/crc16.ko.xz k/jbd2.ko.xz\nk/jbd2.ko.xz: k/crc16.ko.xz\nk/crc16.ko.xz:\nk/virtio_blk.ko.xz:\n"
    assert initramfs.load_order(text) == ["k/virtio_blk.ko.xz", "k/crc16.ko.xz", "k/jbd2.ko.xz", "k/ext4.ko.xz"]


def test_initramfs_holds_the_modules_unpacked(tmp_path: pathlib.Path) -> None:
    kernel = tmp_path / "usr/lib/modules/6.1"
    (kernel / "k").mkdir(parents=True)
    (kernel / "modules.dep").write_text("k/virtio_blk.ko.xz:\n")
    (kernel / "k/virtio_blk.ko.xz").write_bytes(lzma.compress(b"ELF module"))
    archive = initramfs.make(tmp_path, b"program")
    assert archive.startswith(b"070701") and b"TRAILER!!!" in archive and len(archive) % 4 == 0
    assert b"ELF module" in archive and b"virtio_blk.ko\n" in archive
    (tmp_path / "usr/lib/modules/6.2").mkdir()
    with pytest.raises(LabError, match="2 kernels"):
        initramfs.make(tmp_path, b"program")


def test_missing_programs_name_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(LabError, match="apt-get install nftables qemu-system-x86"):
        host.require(["qemu-system-x86_64", "nft"])
