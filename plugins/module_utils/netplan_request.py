# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Turn the options of the module netplan into a request, with an error that names what is wrong. Pure functions."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_tree import Planned
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_verdict import Request

MTU_LEAST, MTU_MOST = 1280, 9216


class RequestError(ValueError):
    """An option is not usable; the text names it and what was expected."""


def planned_interface(entry: t.Mapping[str, t.Any]) -> Planned:
    """Return one planned interface from its option.

    Raises:
        RequestError: Name, MTU, address or prefix is missing or wrong.
    """
    name = str(entry.get("name") or "")
    if not name:
        raise RequestError(f"interfaces: an entry has no name: {dict(entry)}")
    try:
        mtu = int(entry.get("mtu") or 0)
    except (TypeError, ValueError) as exc:
        raise RequestError(f"interfaces: {name}: mtu {entry.get('mtu')!r} is no number") from exc
    if not MTU_LEAST <= mtu <= MTU_MOST:
        raise RequestError(f"interfaces: {name}: mtu {mtu}, expected {MTU_LEAST} to {MTU_MOST}")
    address = None
    if entry.get("address"):
        try:
            address = str(ipaddress.IPv4Interface(f"{entry['address']}/{int(entry.get('prefix') or -1)}"))
        except (TypeError, ValueError) as exc:
            raise RequestError(f"interfaces: {name}: address {entry['address']!r} with prefix {entry.get('prefix')!r}, "
                               "expected for example 192.168.177.11 and 24") from exc
    device = entry.get("rdma_device")
    return Planned(name, address, mtu, str(device) if device else None)


def request_of(params: t.Mapping[str, t.Any]) -> Request:
    """Return the request of the module's options.

    Raises:
        RequestError: An option is not usable.
    """
    # The plan marks interfaces that somebody else addressed; those are not ours to touch.
    planned = tuple(planned_interface(entry) for entry in params["interfaces"] if entry.get("managed", True))
    names = [interface.name for interface in planned]
    if not names:
        raise RequestError("interfaces is empty: there is nothing to manage (leave the module out for a node that is not addressed by this collection)")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise RequestError(f"interfaces: {', '.join(twice)} stand there twice")
    content = str(params["content"])
    return Request(
        node=params["node"],
        path=params["path"],
        content=(content if content.endswith("\n") else content + "\n").encode(),
        planned=planned,
        arp=params["arp"],
        sysctl_path=params["sysctl_path"],
        foreign=params["foreign"],
        force_busy=params["force_busy"],
        management_interface=params["management_interface"] or None,
        management_address=params["management_address"] or None,
        timeout=float(params["timeout"]),
        confirm_seconds=float(params["confirm_seconds"]),
        validated=params["validated"],
        networks=tuple(params.get("networks") or ()),
    )
