# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask the verbs library for the MTU that RDMA uses on each port: sysfs does not show it.

libibverbs comes with every program that uses RDMA (perftest, NCCL), so no further package is needed.
``struct ibv_port_attr`` begins with state, max_mtu and active_mtu, each an int (infiniband/verbs.h).
"""

from __future__ import annotations

import ctypes
import re
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils.command import Runner

# enum ibv_mtu
MTU_BYTES = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}


class VerbsError(RuntimeError):
    """The verbs library is missing or did not answer."""


def active_mtu_by_library(port: int = 1) -> dict[str, int]:
    """Return ``{device: active RDMA MTU in bytes}`` for every RDMA device.

    Raises:
        VerbsError: libibverbs cannot be loaded or lists no devices for a reason of its own.
    """
    try:
        library = ctypes.CDLL("libibverbs.so.1", use_errno=True)
    except OSError as exc:
        raise VerbsError(f"libibverbs.so.1 cannot be loaded ({exc}): install the package libibverbs1") from exc
    pointer = ctypes.c_void_p
    library.ibv_get_device_list.restype = ctypes.POINTER(pointer)
    library.ibv_get_device_list.argtypes = [ctypes.POINTER(ctypes.c_int)]
    library.ibv_free_device_list.argtypes = [ctypes.POINTER(pointer)]
    library.ibv_get_device_name.restype = ctypes.c_char_p
    library.ibv_get_device_name.argtypes = [pointer]
    library.ibv_open_device.restype = pointer
    library.ibv_open_device.argtypes = [pointer]
    library.ibv_close_device.argtypes = [pointer]
    library.ibv_query_port.argtypes = [pointer, ctypes.c_uint8, pointer]
    number = ctypes.c_int(0)
    devices = library.ibv_get_device_list(ctypes.byref(number))
    if not devices:
        raise VerbsError(f"libibverbs lists no devices (errno {ctypes.get_errno()})")
    found: dict[str, int] = {}
    try:
        for index in range(number.value):
            context = library.ibv_open_device(devices[index])
            if not context:
                continue
            # The exported symbol fills an older, shorter structure; room enough for any version.
            attributes = (ctypes.c_uint32 * 64)()
            if library.ibv_query_port(context, port, ctypes.byref(attributes)) == 0 and attributes[2] in MTU_BYTES:
                found[library.ibv_get_device_name(devices[index]).decode()] = MTU_BYTES[attributes[2]]
            library.ibv_close_device(context)
    finally:
        library.ibv_free_device_list(devices)
    return found


def parse_devinfo(text: str) -> dict[str, int]:
    """Return ``{device: active RDMA MTU in bytes}`` from the text of ``ibv_devinfo``."""
    found: dict[str, int] = {}
    device = None
    for line in text.splitlines():
        if match := re.match(r"hca_id:\s*(\S+)", line.strip()):
            device = match.group(1)
        elif device and (match := re.match(r"active_mtu:\s*(\d+)", line.strip())):
            found.setdefault(device, int(match.group(1)))
    return found


def active_mtu(run: Runner) -> tuple[dict[str, int], str | None]:
    """Return ``{device: bytes}`` by the library, else by ``ibv_devinfo``; and why nothing is known, if so."""
    try:
        return active_mtu_by_library(), None
    except (VerbsError, AttributeError) as exc:
        reason = str(exc)
    done = run(["ibv_devinfo"], timeout=20)
    if done.found and done.rc == 0:
        return parse_devinfo(done.out), None
    return {}, reason


def fill_active_mtu(devices: dict[str, dict[str, t.Any]], sizes: t.Mapping[str, int]) -> None:
    """Write the sizes into the devices of ``rdma.read_devices``."""
    for name, device in devices.items():
        device["active_mtu"] = sizes.get(name)
