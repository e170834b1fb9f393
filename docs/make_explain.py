# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write ``docs/explain.md`` from the tables of causes and kinds. A unit test compares the two.

Run from a checkout that Python finds as a collection::

    PYTHONPATH=.ansible/collections python docs/make_explain.py
"""

from __future__ import annotations

import pathlib
import sys

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_list import explain_document

TARGET = pathlib.Path(__file__).resolve().parent / "explain.md"


def main() -> int:
    """Write the document; say whether it changed."""
    text = explain_document()
    changed = not TARGET.is_file() or TARGET.read_text(encoding="utf-8") != text
    TARGET.write_text(text, encoding="utf-8")
    print(f"{TARGET}: {'written' if changed else 'is current'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
