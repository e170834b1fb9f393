# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write a document that is made from the collection's own tables, from any checkout, however it is called."""

from __future__ import annotations

import importlib
import pathlib
import sys
import types

FOLDER = pathlib.Path(__file__).resolve().parent
COLLECTION = ("ansible_collections", "dgxspark", "fabric")


def write(name: str, module: str, function: str) -> int:
    """Write ``docs/<name>`` as the function of ``plugin_utils/<module>.py`` gives it, and say whether it changed; return the exit status."""
    for depth in range(1, len(COLLECTION) + 1):
        package = types.ModuleType(".".join(COLLECTION[:depth]))
        package.__path__ = [str(FOLDER.parent)] if depth == len(COLLECTION) else []
        sys.modules[package.__name__] = package
    try:
        made = importlib.import_module(".".join((*COLLECTION, "plugins", "plugin_utils", module)))
    except ModuleNotFoundError as missing:
        print(f"{missing.name} is missing for {sys.executable}; run tests/setup tools and use .venv/bin/python", file=sys.stderr)
        return 1
    target, text = FOLDER / name, getattr(made, function)()
    changed = not target.is_file() or target.read_text(encoding="utf-8") != text
    target.write_text(text, encoding="utf-8")
    print(f"{target}: {'written' if changed else 'is current'}")
    return 0
