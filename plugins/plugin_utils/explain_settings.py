# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What NCCL's settings show, with the GID tables beside them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ansible_collections.dgxspark.fabric.plugins.module_utils import environment_text, rdma_listings
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_causes import Explanation
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_context import twin
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.explain_source import Section


def settings_of(sections: Iterable[Section]) -> dict[str, environment_text.Setting]:
    """Return NCCL's settings in all sections; the last one of a name wins."""
    found: dict[str, environment_text.Setting] = {}
    for section in sections:
        if "environment" in section.kinds:
            found.update(environment_text.parse(section.lines))
    return found


def explain(sections: Sequence[Section], told: Explanation) -> None:
    """Judge NCCL's settings, with the GID tables beside them."""
    settings = settings_of(sections)
    files = ", ".join(dict.fromkeys(section.file for section in sections if "environment" in section.kinds))
    index = settings.get("NCCL_IB_GID_INDEX")
    gids = [gid for section in sections if "show_gids" in section.kinds for gid in rdma_listings.show_gids(section.lines)]
    if index is not None and index.empty:
        told.add("nccl.gid_index_empty", files)
    elif index is not None and not pinned(index.value, gids, files, told):
        told.add("nccl.gid_index_pinned", files, index=index.value)
    chosen = settings.get("NCCL_IB_HCA")
    if chosen is not None and not chosen.empty:
        choice = environment_text.device_choice(chosen.value)
        how = (", by exact name" if choice.exact else "") + (", to be left out" if choice.excluded else "")
        told.add("nccl.hca_list", files, count=len(choice.names), devices=list(choice.names), how=how, actual=list(choice.names))
        missing = [] if choice.excluded else [other for name in choice.names if (other := twin(name)) and other not in choice.names]
        if missing:
            told.add(
                "nccl.hca_one_twin",
                files,
                devices=list(choice.names),
                missing_devices=missing,
                actual=list(choice.names),
                expected=sorted({*choice.names, *missing}),
            )
    debug = settings.get("NCCL_DEBUG")
    if debug is not None and debug.value.upper() not in ("", "WARN", "VERSION"):
        told.add("nccl.debug_left_on", files, value=debug.value)
    for section in sections:
        if "show_gids" in section.kinds:
            gid_table(section, rdma_listings.show_gids(section.lines), told)


def pinned(value: str, gids: Sequence[rdma_listings.Gid], subject: str, told: Explanation) -> bool:
    """Judge a pinned index against GID tables; tell whether it is wrong."""
    if not value.isdigit() or not gids:
        return False
    wrong: dict[str, list[str]] = {}
    for device in dict.fromkeys(gid.device for gid in gids):
        entry = next((gid for gid in gids if gid.device == device and gid.index == int(value)), None)
        if entry is None:
            wrong.setdefault("empty", []).append(device)
        elif entry.link_local or entry.ipv4 is None:
            wrong.setdefault("link-local", []).append(device)
        elif entry.version != "v2":
            wrong.setdefault("RoCE v1", []).append(device)
    if not wrong:
        return False
    right = ", ".join(f"{gid.index} on {gid.device}" for gid in gids if gid.version == "v2" and gid.ipv4) or "nowhere"
    told.add(
        "rdma.gid_index",
        subject,
        scope="node",
        index=value,
        what=" and ".join(wrong),
        devices=[device for devices in wrong.values() for device in devices],
        right=right,
        actual=int(value),
        evidence={"table": [f"{gid.device} {gid.index} {gid.version} {gid.ipv4 or gid.gid}" for gid in gids][:64]},
    )
    return True


def gid_table(section: Section, gids: Sequence[rdma_listings.Gid], told: Explanation) -> None:
    """Judge a GID table: each device needs an entry of RoCE v2 with IPv4."""
    good = [gid for gid in gids if gid.version == "v2" and gid.ipv4]
    for device in dict.fromkeys(gid.device for gid in gids):
        if not any(gid.device == device for gid in good):
            told.add("rdma.gid", section.label, scope="interface", nodes=[section.host], device=device, evidence={"file": section.file})
    if good:
        told.add(
            "rdma.gid",
            section.label,
            status="pass",
            scope="node",
            nodes=[section.host],
            device="",
            value=", ".join(f"{gid.device} index {gid.index} {gid.ipv4}" for gid in good[:16]),
            evidence={"file": section.file},
        )
