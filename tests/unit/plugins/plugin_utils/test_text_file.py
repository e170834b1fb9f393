# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files as text, whatever wrote them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.text_file import encoding, lines

TEXT = "first line\nsecond: é\r\nno end"


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("name", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_encodings_and_gzip(tmp_path: pathlib.Path, name: str, packed: bool) -> None:
    data = TEXT.encode(name)
    path = tmp_path / "log"
    path.write_bytes(gzip.compress(data) if packed else data)
    assert list(lines(path)) == TEXT.splitlines(keepends=True)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (gzip.compress(TEXT.encode() * 100)[:-12], "stopped"),
        (gzip.compress(TEXT.encode())[:12] + b"\xff" * 30, "stopped"),
        (lzma.compress(TEXT.encode()), "unpack it with unxz"),
        (bz2.compress(TEXT.encode()), "unpack it with bunzip2"),
    ],
    ids=["cut gzip", "damaged gzip", "xz", "bzip2"],
)
def test_what_cannot_be_read_is_named(tmp_path: pathlib.Path, data: bytes, told: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    with pytest.raises(FabricError) as caught:
        list(lines(path))
    assert told in str(caught.value) and str(path) in str(caught.value)


@given(st.binary(max_size=64))
def test_any_bytes_have_an_encoding(head: bytes) -> None:
    assert isinstance(head.decode(encoding(head), errors="replace"), str)
