# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every ``fabric_*`` variable of the inventory: its kind, default, scope and meaning, in one table.

Scope ``group`` means one value for the whole cluster (hosts that disagree are an error), ``host`` a value of each node's own.
A default of ``REQUIRED`` means that the inventory has to say it; None means "not given", which the description explains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError, closest, shown
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.variable_kinds import (
    Kind,
    Unfit,
    choice,
    environment,
    list_of,
    mappings,
    nothing_or,
    number,
    plain,
    rates,
    text,
    text_or_mapping,
    truth,
    whole,
)

REQUIRED = object()
PREFIX = "fabric_"
TOPOLOGIES = ("pair", "mesh", "ring", "switch", "custom")
NAME = text(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,62}", "a name of letters, digits, dots, dashes and underscores")
INTERFACE = text(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,14}", "the name of a network interface, at most 15 characters")
ADDRESS = text(r"[A-Za-z0-9_][A-Za-z0-9._:-]{0,252}", "an IP address or a host name")
NETWORK = text(r"[0-9A-Fa-f:.]{2,45}/[0-9]{1,3}", 'a network such as "192.168.177.0/24"')
USER = text(r"[A-Za-z0-9_][A-Za-z0-9._@-]{0,63}", "a user name")
VERSION = text(r"v?[0-9]+(\.[0-9]+){1,2}([A-Za-z0-9.+~-]*)", 'a version such as "2.30.7" or "v2.30.7-1"')
ANY_TEXT = text(r"[^\x00-\x1f\x7f\ud800-\udfff]{1,1024}", "a text of one line")


@dataclass(frozen=True)
class Variable:
    """One variable of the inventory."""

    name: str
    kind: Kind
    default: Any
    scope: str
    description: str

    def take(self, value: object, host: str) -> Any:
        """Return the value in its plain form.

        Raises FabricError naming the variable, the host, what was found and what is expected.
        """
        try:
            return self.kind.take(value)
        except Unfit as misfit:
            found = "nothing (null)" if value is None else shown(value)
            detail = f" ({misfit})" if str(misfit) else ""
            way_out = "correct it, or remove it to take the default" if self.default is not REQUIRED else "correct it"
            raise FabricError(f"{self.name} of {host} is {found}{detail}; expected {self.kind.expected}: {way_out}") from None


def _group(name: str, kind: Kind, default: Any, description: str) -> Variable:
    return Variable(PREFIX + name, kind, default, "group", description)


def _host(name: str, kind: Kind, default: Any, description: str) -> Variable:
    return Variable(PREFIX + name, kind, default, "host", description)


RAW_LIST = Kind("a list of cables", plain)

_TABLE = (
    _group("cluster_name", NAME, "spark", "name of the cluster; folder of its reports"),
    _group("topology", choice(*TOPOLOGIES), REQUIRED, "how the nodes are cabled"),
    _group(
        "cables",
        RAW_LIST,
        [],
        "cables as they are plugged, [{a: 'spark1:0', b: 'spark2:1'}], b: switch; an entry may carry networks and addresses",
    ),
    _host(
        "ports",
        nothing_or(list_of(whole(0, 1), empty=False)),
        None,
        "ports with a cable; default [1] on pair and switch, [0, 1] on mesh and ring",
    ),
    _host(
        "node_number", nothing_or(whole(1, 65000)), None, "number of the node, host part of its addresses; default its place in the group"
    ),
    _group(
        "ring_order",
        nothing_or(list_of(NAME, empty=False)),
        None,
        "the hosts in their order round the ring or mesh; default by node number",
    ),
    _group("subnet_base", NETWORK, "192.168.177.0/24", "network of the first cable's rail a; rail b has the next"),
    _group("subnet_step", whole(2, 254), 10, "distance of the networks from one cable to the next"),
    _group("subnet_pool", nothing_or(NETWORK), None, "network out of which consecutive /24s are taken instead of base and step"),
    _group("host_offset", whole(0, 253), 10, "added to the node number to make the host part of an address"),
    _group("mtu", whole(1280, 9216), 9000, "MTU of the fabric interfaces, in bytes"),
    _group("netplan_optional", truth(), True, "an unplugged cable does not hold up the boot"),
    _group(
        "netplan_renderer",
        choice("auto", "networkd", "NetworkManager"),
        "auto",
        "who drives the fabric interfaces; auto leaves it to the node",
    ),
    _group("netplan_path", text(r"/etc/netplan/[A-Za-z0-9_][A-Za-z0-9._-]*\.yaml", "a path /etc/netplan/NAME.yaml"), "/etc/netplan/40-cx7.yaml",
           "the netplan file that holds the fabric interfaces"),
    _group("apply_batch", whole(0, 100000), 0, "nodes that are changed at once; 0 changes one first, then all others"),
    _host(
        "foreign_netplan", choice("refuse", "adopt", "ignore"), "refuse", "what to do with other netplan files that name fabric interfaces"
    ),
    _group("link_gbps", number(0, 1600), 200.0, "speed of a cable's link, 200 or 100 Gb/s"),
    _group("rail_gbps", nothing_or(rates()), None, "expected RDMA rate of a rail, one way; default from link and PCIe width"),
    _group("rail_bidirectional_gbps", nothing_or(rates()), None, "expected RDMA rate of a rail, sum of both ways at once"),
    _host("management_interface", nothing_or(INTERFACE), None, "interface of the management network; default what the node answers on"),
    _host("management_address", nothing_or(ADDRESS), None, "address of the node on the management network; default ansible_host"),
    _group("ssh_mesh", truth(), True, "let each node reach each other by ssh, with a key of its own"),
    _host("ssh_user", nothing_or(USER), None, "user of the ssh mesh between nodes; default the connection's user"),
    _group("test_seconds", whole(1, 3600), 5, "length of one bandwidth test, in seconds"),
    _group(
        "test_qp_timeout",
        nothing_or(whole(1, 31)),
        None,
        "time to wait for an RDMA acknowledgement, 4.096 us x 2^n; default perftest's own, 14 (67 ms); emulated machines need more",
    ),
    _group("test_size_bytes", nothing_or(whole(1, 2**30)), None, "message size of the bandwidth tests; default 65536, perftest's own"),
    _group("test_queue_pairs", nothing_or(whole(1, 1024)), None, "queue pairs of a bandwidth test; default 1, perftest's own"),
    _group(
        "rdma_tests",
        list_of(choice("latency", "read", "send")),
        ("latency", "read", "send"),
        "RDMA tests besides write bandwidth, which is always measured: latency of write and send, bandwidth of read and send",
    ),
    _group("latency_iterations", whole(100, 10**8), 10000, "messages of a latency test; its 99.9th percentile needs 1000 or more"),
    _group("iperf3_streams", list_of(whole(1, 128)), (1, 4, 8), "TCP streams of the ladder, in its order; an empty list leaves TCP out"),
    _group("iperf3_seconds", whole(1, 3600), 3, "length of one TCP test, in seconds"),
    _group("test_repeats", whole(0, 20), 2, "how often a test that fell short is repeated, alone, to tell flaky from broken; 0 for never"),
    _group("max_concurrent_tests", nothing_or(whole(1, 100000)), None, "most tests at once in the whole cluster; default no limit"),
    _group("switch_pairs", choice("neighbours", "all"), "neighbours", "pairs that are measured on a switch"),
    _group("control_port", whole(1024, 65535), 18500, "TCP port on which the two ends of a test meet, on the management network"),
    _group("test_port_base", whole(1024, 65535), 18600, "first TCP port of the measuring tools, one port a test of a round"),
    _group("force_busy", truth(), False, "measure and apply although the cluster is in use"),
    _group("drift_fails", truth(), True, "drift found by --check ends with a non-zero status"),
    _group("fail_on", choice("fail", "warn"), "fail", "the mildest finding that fails the verdict"),
    _group("rules", mappings(), [], "rules of judging, added or overriding by id"),
    _group("nccl_version", nothing_or(VERSION), None, "NCCL version to install"),
    _group("nccl_prefix", nothing_or(ANY_TEXT), None, "folder of an installed NCCL"),
    _group("nccl_source", nothing_or(text_or_mapping()), None, "where NCCL comes from"),
    _group("nccl_image", nothing_or(ANY_TEXT), None, "container image that brings NCCL"),
    _group(
        "nccl_bootstrap",
        choice("management", "fabric"),
        "management",
        "network on which NCCL's ranks meet; fabric is allowed on pair and switch",
    ),
    _group(
        "nccl_profile", choice("upstream", "runtime_connect", "switchless_ring"), "upstream", "how NCCL copes with rings of four and more"
    ),
    _group("nccl_environment", environment(), {}, "variables of NCCL's environment to set, replace or (null) leave out"),
    _group("packages", truth(), True, "install the packages that measuring needs"),
)

VARIABLES = {variable.name: variable for variable in _TABLE}

CONNECTION_VARIABLES = {
    variable.name: variable
    for variable in (
        Variable("ansible_host", nothing_or(ADDRESS), None, "host", "address of the node for Ansible"),
        Variable("ansible_port", nothing_or(whole(1, 65535)), None, "host", "port of the node for Ansible"),
        Variable("ansible_connection", nothing_or(ANY_TEXT), None, "host", "local on the controller itself"),
        Variable("ansible_user", nothing_or(USER), None, "host", "user of the connection"),
    )
}

RESULTS = frozenset(
    PREFIX + name
    for name in (
        "plan", "node", "neighbours", "paths", "perftest", "iperf3", "diagnosis", "nccl", "inference", "drift", "lost", "started", "in_use", "applied",
        "refused",
    )
)
"""Facts that the collection's own plays keep as host variables; never settings."""


def wanted(names: list[str]) -> list[str]:
    """Return those of a host's variable names that a plan needs to read or to speak about."""
    return [name for name in names if (name.startswith(PREFIX) and name not in RESULTS) or name in CONNECTION_VARIABLES]


def unknown(name: str) -> str | None:
    """Return what to say about a ``fabric_*`` name that is no variable of the collection, or None when it is one."""
    if not name.startswith(PREFIX) or name in VARIABLES or name in RESULTS:
        return None
    near = closest(name, VARIABLES)
    return (
        f"{name} is no variable of this collection and is ignored{near or '; remove it, or see the table of variables for the right name'}"
    )
