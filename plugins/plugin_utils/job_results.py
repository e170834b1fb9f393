# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node's jobs brought, sorted into the facts that the roles keep. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils.perftest_spec import TCP_TOOL


def by_tool(fact: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the results of one job as those of perftest and those of iperf3."""
    tests = [test for test in fact.get("tests") or [] if isinstance(test, Mapping)]
    tcp = [test for test in tests if test.get("tool") == TCP_TOOL]
    version = next((test["version"] for test in tcp if test.get("version")), None)
    return {**fact, "tests": [test for test in tests if test.get("tool") != TCP_TOOL]}, {**fact, "version": version, "tests": tcp}


def after(earlier: Mapping[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results of a job with those of the diagnosis that followed it.

    The earlier job's state stands, since its tests do; but a node that was lost in the later one is lost.
    """
    state = later if later.get("status") == "lost" else earlier
    return {**earlier, "status": state.get("status"), "message": state.get("message"), "tests": [*(earlier.get("tests") or []), *(later.get("tests") or [])]}
