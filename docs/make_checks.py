# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write ``docs/checks.md`` from the rules. A unit test compares the two.

Run from anywhere with a Python that has PyYAML and jmespath::

    .venv/bin/python docs/make_checks.py
"""

from __future__ import annotations

import sys

from made_document import write

if __name__ == "__main__":
    sys.exit(write("checks.md", "check_list", "checks_document"))
