# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How many inputs hypothesis tries: few with every change (``patient``), more in ``make test-all`` (``wide``), very many by hand (``long``).

HYPOTHESIS_PROFILE=long python -m pytest tests/unit/plugins/module_utils/test_perftest_output.py
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

#: Inputs for each test of a parser; None leaves each test its own few.
DEPTHS: dict[str, int | None] = {"patient": None, "wide": 5_000, "long": 100_000}
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "patient")
if PROFILE not in DEPTHS:
    raise ValueError(f"HYPOTHESIS_PROFILE is {PROFILE!r}; use one of {', '.join(DEPTHS)}.")
#: The deeper profiles also take all cases of tests that otherwise take some.
EVERY_CASE = PROFILE != "patient"


def register() -> None:
    """Register the profiles and load the one that HYPOTHESIS_PROFILE names."""
    for name, depth in DEPTHS.items():
        # How long an input takes to make or a test to run says how busy the machine is, not whether the code holds.
        settings.register_profile(name, max_examples=depth or 100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile(PROFILE)


def examples(few: int, share: float = 1.0) -> settings:
    """Return settings for ``few`` inputs, or for the profile's number. Tests that make whole plans take a ``share`` of that."""
    depth = DEPTHS[PROFILE]
    return settings(max_examples=few if depth is None else max(few, round(depth * share)), deadline=None)
