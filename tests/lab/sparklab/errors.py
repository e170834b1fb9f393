# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lab's one error: a text for the person at the terminal."""

from __future__ import annotations


class LabError(Exception):
    """Something that the user can act on; the text says what was expected and what to do."""
