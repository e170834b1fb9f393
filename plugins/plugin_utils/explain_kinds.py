# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One table of signatures: by which line or which JSON ``explain`` knows what a text is. Several kinds may stand in one file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.module_utils import (
    address_watch,
    cabling_list,
    environment_text,
    ip_link,
    iperf3_output,
    kernel_log,
    mpirun_output,
    netplan_messages,
    networkmanager_listing,
    nccl_tests_json,
    nic_listings,
    rdma_listings,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """A kind of text: ``line`` tells by one line, ``document`` by a piece of parsed JSON."""

    name: str
    title: str
    line: Callable[[str], Any] | None = None
    document: Callable[[Any], bool] | None = None


def _pattern(text: str) -> Callable[[str], Any]:
    return re.compile(text, re.ASCII).search


def _entries(*keys: str) -> Callable[[Any], bool]:
    """Return a test for a JSON list that has an entry with all of these keys."""
    return lambda document: isinstance(document, list) and any(isinstance(entry, dict) and all(key in entry for key in keys) for entry in document)


PERFTEST = (
    r"^\s*#bytes\s+(?:#sl\s+)?#iterations\s|^\s{10,}(?:RDMA_Write|RDMA_Read|Send|Atomic)\w* .*Test\s*$"
    r"|Couldn't connect to \S+:\d+|Unable to init the socket connection"
    r"|IB device \S+ not found|Found Incompatibility issue with GID types|Failed to modify QP|Unable to Connect the HCA's|Unexpected CM event"
    r"|Did not detect devices"
    r"|Failed status[ -]|Completion with error|Unable to find the Infiniband/RoCE device|Port number \d+ state is|BW result is below bw limit"
    r"|Gid index should be between"
    r"|Couldn't read remote address|Couldn't listen to port|Failed to exchange data between server|Couldn't allocate MR"
    r"|(?:^|[\s/])ib_(?:write|read|send|atomic)_(?:bw|lat)\s|\* Waiting for client to connect|rdma_bind_addr failed"
)
NCCL_TESTS = (
    r"^ ?# nccl-tests version|^ ?#\s+Rank\s+\d+ |^ ?# Avg bus bandwidth|^ ?# Out of bounds values|^ ?# Collective test|^ ?#\s+size\s+count\s+type"
    r"|^[ #]*nThread \d+ nGpus"
    r"|: Test (?:NCCL|CUDA) failure|: Test timeout|Invalid number of GPUs: \d"
)

#: In the order in which kinds are told.
KINDS: tuple[Kind, ...] = (
    Kind("perftest", "perftest, text (ib_write_bw, ib_read_bw, ib_send_bw, latency tools)", line=_pattern(PERFTEST)),
    Kind(
        "perftest_json",
        "perftest, JSON (--out_json)",
        document=lambda document: isinstance(document, dict) and "test_info" in document and "results" in document,
    ),
    Kind("nccl_tests", "nccl-tests, text (all_reduce_perf and others)", line=_pattern(NCCL_TESTS)),
    Kind("nccl_tests_json", "nccl-tests, JSON (-J)", document=nccl_tests_json.looks_like),
    Kind("nccl_debug", "NCCL's log (NCCL_DEBUG=INFO)"),
    Kind("iperf3", "iperf3, JSON (-J)", document=iperf3_output.looks_like),
    Kind("mpirun", "mpirun, ssh and loader messages", line=lambda line: any(signature.pattern.search(line) for signature in mpirun_output.SIGNATURES)),
    Kind(
        "ibdev2netdev",
        "ibdev2netdev or rdma link",
        line=lambda line: rdma_listings.ibdev2netdev((line,)),
        document=_entries("ifname", "state", "physical_state"),
    ),
    Kind("show_gids", "show_gids", line=lambda line: rdma_listings.show_gids((line,))),
    Kind("ibv_devinfo", "ibv_devinfo", line=_pattern(r"^\s*hca_id:\s+\S|^\s*active_mtu:\s+\d")),
    Kind(
        "ethtool",
        "ethtool",
        line=_pattern(r"^\s*Settings for \S+:|^\s*Speed: (?:\d+Mb/s|Unknown)|^\s*Link detected: (?:yes|no)"),
        document=_entries("ifname", "link-detected"),
    ),
    Kind("lspci", "lspci -vv", line=_pattern(r"LnkSta:\s*Speed .*Width x\d")),
    Kind("pci_functions", "names and PCI addresses of interfaces", line=lambda line: nic_listings.pci_functions((line,))),
    Kind("ip_link", "ip -j link and ip -j addr", document=ip_link.looks_like),
    Kind("ip_neighbours", "ip -j neigh", document=lambda document: _entries("dst", "state")(document) and not _entries("dst", "protocol")(document)),
    Kind("ip_routes", "ip -j route", document=_entries("dst", "dev", "flags")),
    Kind("nmcli", "nmcli -t con", line=lambda line: networkmanager_listing.connections((line,))),
    Kind("netplan", "netplan files and trees", line=_pattern(r"^network:")),
    Kind("netplan_messages", "messages of netplan", line=lambda line: netplan_messages.messages((line,))),
    Kind("kernel_log", "kernel log (journalctl -k, dmesg)", line=lambda line: kernel_log.relevant(line) and kernel_log.events((line,))),
    Kind("cabling", "list of cables, map of layer 2", line=lambda line: cabling_list.cables((line,))),
    Kind("address_watch", "management address polled after netplan apply", line=address_watch.ROW.match),
    Kind("environment", "NCCL settings (env files, nccl.conf, exports)", line=lambda line: environment_text.parse((line,))),
)


def kinds_of_lines(lines: Iterable[str]) -> set[str]:
    """Return the kinds that some lines show."""
    open_kinds = [kind for kind in KINDS if kind.line is not None]
    found: set[str] = set()
    for line in lines:
        if not open_kinds:
            break
        if not line or line.isspace():
            continue
        matching = [kind for kind in open_kinds if kind.line is not None and kind.line(line)]
        if matching:
            found.update(kind.name for kind in matching)
            open_kinds = [kind for kind in open_kinds if kind.name not in found]
    return found


def kind_of_document(document: Any) -> str | None:
    """Return the kind of parsed JSON, None for one that is not known."""
    return next((kind.name for kind in KINDS if kind.document is not None and kind.document(document)), None)
