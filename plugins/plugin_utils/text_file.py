# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of users as text, whatever wrote them: UTF-8, UTF-16 as Windows' tools write it, and gzip around either."""

from __future__ import annotations

import gzip
import io
import pathlib
import zlib
from collections.abc import Iterator
from typing import BinaryIO, cast

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError

LINE_PIECE = 65536
HEAD_BYTES = 64
GZIP = b"\x1f\x8b"
#: First bytes of other archives, with what unpacks them.
ARCHIVES = {b"\xfd7zXZ\x00": "unxz", b"\x28\xb5\x2f\xfd": "unzstd", b"BZh": "bunzip2", b"PK\x03\x04": "unzip"}


def lines(path: pathlib.Path) -> Iterator[str]:
    """Yield the lines of a file; one without end comes in pieces, so that memory does not grow with it.

    :raises FabricError: when the file cannot be read to its end, or is an archive; the text names it
    """
    try:
        with path.open("rb") as raw:
            packed = _head(raw).startswith(GZIP)
            with cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw as data:
                head = _head(data)
                for start, program in ARCHIVES.items():
                    if head.startswith(start):
                        raise FabricError(f"explain_files: {path} is compressed and no text; unpack it with {program} and name what comes out.")
                with io.TextIOWrapper(data, encoding=encoding(head), errors="replace", newline="\n") as stream:
                    while line := stream.readline(LINE_PIECE):
                        yield line
    except (OSError, EOFError, zlib.error) as error:
        raise FabricError(f"explain_files: reading {path} stopped: {getattr(error, 'strerror', None) or error}.") from None


def encoding(head: bytes) -> str:
    """Return the encoding that the first bytes of a file show: UTF-16 by its mark, or by the zero in every other byte; else UTF-8."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    pairs = len(head) // 2
    for name, zero in (("utf-16-le", 1), ("utf-16-be", 0)):
        if pairs and not any(head[zero : 2 * pairs : 2]) and all(head[1 - zero : 2 * pairs : 2]):
            return name
    return "utf-8-sig"


def _head(data: BinaryIO) -> bytes:
    head = data.read(HEAD_BYTES)
    data.seek(0)
    return head
