# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make the lab's package importable: it is a program of its own, no part of the collection's plugins."""

from __future__ import annotations

import pathlib
import sys

LAB = str(pathlib.Path(__file__).resolve().parents[2] / "lab")
if LAB not in sys.path:
    sys.path.insert(0, LAB)
