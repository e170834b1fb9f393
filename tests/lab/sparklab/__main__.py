# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Start of the program, called by the launcher ``lab`` beside this folder."""

from __future__ import annotations

import pathlib
import sys

if sys.version_info < (3, 10):
    sys.exit(f"lab needs Python 3.10 or newer; python3 here is {sys.version.split()[0]}")
# Started as a folder, Python puts the package itself on its path; it is imported from beside it.
sys.path[0] = str(pathlib.Path(__file__).resolve().parents[1])

from sparklab.cli import main  # noqa: E402  pylint: disable=wrong-import-position

sys.exit(main())
