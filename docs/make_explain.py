# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write ``docs/explain.md`` from the tables of causes and kinds. A unit test compares the two.

Run from anywhere with a Python that has PyYAML and jmespath::

    .venv/bin/python docs/make_explain.py
"""

from __future__ import annotations

import sys

from made_document import write

if __name__ == "__main__":
    sys.exit(write("explain.md", "explain_list", "explain_document"))
