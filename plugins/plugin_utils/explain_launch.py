# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What messages of mpirun, ssh and the loader show: causes where one is named, the bare end of the job only where none is."""

from __future__ import annotations

from ansible_collections.dgxspark.fabric.plugins.module_utils import mpirun_output
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_causes import Explanation
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_source import Section


def explain(section: Section, told: Explanation, others_failed: bool) -> None:
    """Add what failed at the launch.

    :param others_failed: something else in the files names a failure, so that the bare exit status adds nothing
    """
    failures = mpirun_output.classify(section.lines)
    causes = [failure for failure in failures if failure.cause]
    for failure in causes or ([] if others_failed else failures):
        told.add(
            f"launch.{failure.name}", section.label, line=failure.line, about=failure.subject or "it", evidence={"file": section.file, "line": failure.line}
        )
