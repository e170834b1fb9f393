# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.nccl_build_plan import sources_of, work_of
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plain_data import plain


def nccl_sources(settings: Any) -> dict[str, dict[str, str]]:
    """Return the verified sources that an inventory asks for."""
    try:
        chosen = plain(settings)
        return sources_of(chosen.get("fabric_nccl_version"), chosen.get("fabric_nccl_source"))
    except FabricError as error:
        raise AnsibleFilterError(str(error)) from error


def nccl_work(plan: Any, hostvars: Any, hosts: Any, variable: str) -> dict[str, dict[str, Any]]:
    """Return what each node does to get NCCL, from what ``nccl_build`` said of it under ``variable``."""
    try:
        probes = {str(name): plain(hostvars[name][variable]) for name in hosts if "stamp" in (hostvars[name].get(variable) or {})}
        return work_of(plain(plan), probes)
    except FabricError as error:
        raise AnsibleFilterError(str(error)) from error
    except (KeyError, TypeError) as error:
        raise AnsibleFilterError(f"the input is not the plan of this collection: {error}") from error


class FilterModule:
    """Filters of building NCCL."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"nccl_sources": nccl_sources, "nccl_work": nccl_work}
