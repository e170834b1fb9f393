# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a rule can ask about: the facts of a subject, by scope, as documented in ``docs/checks.md``."""

from __future__ import annotations

COMMON_FACTS = {
    "plan": "of the plan: `cluster`, `topology`, `shape`, `mtu`, `rdma_mtu`, `link_gbps`, `switchless` (no switch and more than one pair)",
    "mode": "`validate` or `check`",
    "subject": "the name under which the finding is reported",
    "outcome": "status of every rule already judged on this subject, by id (for `op: matches`)",
}

SCOPE_FACTS = {
    "node": {
        "node": "inventory name",
        "number": "node number",
        "answered": "true when facts came from the node",
        "unreachable": "why there are none, else empty",
        "lost": "why the node dropped out in mid-run, else empty",
        "facts": "everything `fabric_facts` saw on the node",
        "measuring": "of the load test: `status`, `refused` (true/false), `problem` (text, else empty), `message`",
        "busy": "what used the fabric: programs with RDMA queue pairs or on the GPU, traffic, one text each",
        "far": "nodes without a cable: `asked` (number of addresses), `over_fabric` (which are routed over the fabric, in words)",
        "kernel_troubles": "what the kernel said since boot of faults of the network chip and PCIe, one text each",
        "clock": "the node's clock beside the controller's: `apart_seconds` (null where it was not compared), `text`",
        "kho_risk": "true on a kernel that cannot pin memory for RDMA because of its hand-over areas",
    },
    "interface": {
        "node": "inventory name",
        "interface": "interface name",
        "port": "0 or 1",
        "rail": "`a` or `b`",
        "cable": "cable name",
        "ends": "both ends of the cable, in words",
        "where": "node, interface, port and rail, in words",
        "peers": "the interfaces at the other end, in words",
        "planned": "the plan's `address`, `prefix`, `mtu`, `rdma_device`",
        "present": "true when the node has this interface",
        "live": "what `fabric_facts` saw of the interface",
        "rdma": "what `fabric_facts` saw of its RDMA device",
        "rdma_present": "true when the node has the planned RDMA device",
        "master": "bond, bridge or team that owns the interface, else empty",
        "speed_gbps": "link speed in 10^9 bit/s, null when the kernel does not tell",
        "speed_percent": "the same in percent of the planned link speed",
        "addresses": "IPv4 addresses found, as address/prefix",
        "address_present": "true when the planned address is there",
        "prefix": "length of the prefix that the planned address has, null when it is not there",
        "gid_present": "true when the RDMA device has a RoCE v2 GID of the planned address",
        "gids": "GIDs found, in words",
        "shared_network": "other interfaces of the node in the same IPv4 network",
        "functions": "how many PCIe functions of the network chip are there, in words",
        "cable_errors": "counters of a bad cable that are not zero, in words",
        "pcie_errors": "PCIe errors of the function that were not corrected, in words; null where nobody counts",
        "wrong_port_name": "the driver's port name where it is another port than the plan's, else empty",
        "pfc_without_ecn": "priorities with PFC and without ECN; null where the driver does not tell",
        "duplicate_owners": "other owners of an address of this interface, in words",
    },
    "rail": {
        "cable": "cable name",
        "rail": "`a` or `b`",
        "ends": "both ends of the cable, in words",
        "where": "cable and rail, in words",
        "nodes": "names of the nodes at its ends",
        "interfaces": "one entry an end: `node`, `interface`, `port`, `carrier`, `admin_up`, `speed_gbps`, `mtu`",
        "carrier": "true when every end has a link, null when an end does not tell",
        "down": "the ends without a link, in words",
        "twin_up": "true when the other rail of the same cable has a link at all its ends",
        "hears": "of the probe at layer 2: `silent` (ends that hear nobody though their link is up and somebody speaks at the far end), `number` of the cable",
        "uneven": "flow control and FEC that differ between the ends of a direct cable, in words",
        "path": "pings: `missing`, `wrong_route`, `wrong_neighbour` (texts); `small_percent`, `full_percent` (worst share of answers), "
        "`lost` and `full_lost` (which ones, in words), `largest_mtu`, `size`, `ping_size`, `probes`",
        "rdma": "load tests: `missing`, `zero`, `timeouts`, `failed`, `voided`, `blocked`, `absent`, `implausible`, `above_ceiling`, `wrong_gid` (texts); "
        "`blocked_node`, `absent_node`; `directed`, `bidirectional`, `read` and `send` (of the worst: `percent`, `gbps`, `expected_gbps`, `text`); "
        "`tool_missing` and `tool_missing_node`; `lost` (of the write, send and bidirectional tests: `percent` of the packets that were lost, null where "
        "nobody counts, and `text`); `latency`: `write` and `send` (figures in microseconds, `text`), `slow` and `jitter` (what stands out "
        "beside the other rails, texts); `retests` (null when nothing was repeated): `flaky`, `passing`, `bad` of `runs`, `text`, `alone_bad` of "
        "`alone_runs`, `alone_text`; `place` of a fault: `kind`, `node`, `text`, `note`; `best_percent` (of the ceiling), `mtu`, `tests` (evidence by test); "
        "`outlier` (among the figures of all rails: `texts` names those that lie apart, `percent`, `median`, `count`; null where too few can be compared)",
        "tcp": "TCP tests: `missing`, `failed`, `tool_missing`, `ladder` (texts); `tool_missing_node`; `best` (highest rung of the worse direction: `percent`, "
        "`gbps`, `expected_gbps`, `streams`, `text`); `mtu` (of the path, as TCP found it), `tests` (evidence by test)",
    },
    "cable": {
        "cable": "cable name",
        "ends": "both ends of the cable, in words",
        "nodes": "names of the nodes at its ends",
        "switch": "true when one end is a switch",
        "unanswered": "why a node at its ends gave no answer, else empty",
        "unanswered_nodes": "the names of these nodes",
        "cabling": "of the probe at layer 2: `probed`, `number`, `wrong` (what contradicts the plan, else empty), `fix` (which plug to move), "
        "`heard` (by end), `not_probed` (ends that nobody asked, and why)",
        "rdma": "both rails at once: `sum` (of the worst direction: `percent`, `gbps`, `expected_gbps`, `text`), "
        "`best_percent` (of the ceiling), `above_ceiling` (texts); of repetitions: `only_together` (text: each rail is good alone), `passing`",
        "tcp": "both rails at once: `sum` (of the worse direction: `percent`, `gbps`, `expected_gbps`, `text`), `no_gain` (texts)",
    },
    "segment": {
        "segment": "segment name",
        "rail": "`a` or `b`",
        "network": "IPv4 network",
        "members": "one entry a member: `node`, `interface`, `address`",
    },
    "cluster": {
        "cluster": "cluster name",
        "nodes": "everything `fabric_facts` saw, by node",
        "nccl": "of nccl-tests: `done` (the runs were made), `seen` (the nodes were looked at), `rdma_wanted`, `stand_in`, `in_image` (true or false); "
        "`missing`, "
        "`not_measured`, `refused`, `refused_fix`, `wrong_data`, `void`, `above_ceiling`, `left_running`, `json_differs`, `unchecked`, `left_out` (texts); "
        "`launch` (`text`, `cause`, `fix`); `failed` (`texts`, `lines`, `cause`, `fix`); `problems` (texts by kind); `transport` (null without a run to "
        "prove; `wanted`, `rdma`, `proven`, `used`, and texts: `silent`, `other`, `unproven`, `wrong_hop`, `missing_twin`, `unplanned`, `merged`); `share` "
        "(`least_percent`, `text`, `shares`); `bandwidth` and `ring_bandwidth` (of the worst: `percent`, `gbytes_per_s`, `text`); `scaling` (least ratio of "
        "all nodes to two), `ladder`, `curves`, `small`, `versions`, `rails` (as `cable/rail`)",
        "inference": "of an endpoint under load: `measured` (true where there is a run); `missing`, `refused`, `http`, `stalled`, `slow`, `truncated`, `other` "
        "(requests, or the look before the load), `unfit`, `generator`, `no_figure`, `incomplete`, `lengths` (texts), "
        "`not_stated` (conditions), `unfit_fix`, `generator_fix`, `generator_tail`; "
        "`ttft_ms`, `inter_token_ms` and `request_ms` (of the slowest run without errors: `p50`, `p95`, `p99`, `text`; null without one), `runs`",
        "edges": "all cables together: `count` (measured), `low` (true when all fall short by the same share), `percent` (that share), `text`, "
        "`loaded` (by the counters: `both` rails, `one`, `unknown`), `idle` (rails that carried nothing), `rails` (as `cable/rail`)",
        "parity": "what differs between nodes: `software`, `hardware` (texts), `compared` (number of nodes)",
        "tcp": "the cables' TCP sums beside each other (null with fewer than two): `slowest_percent` and `spread_percent` (of the median), "
        "`efficiency_percent` (of the link), `median_gbps`, `slowest` and `fastest` (texts)",
    },
}


def names_of(scope: str) -> dict[str, str]:
    """Return the documented top-level facts of a scope, name to meaning."""
    return {**SCOPE_FACTS[scope], **COMMON_FACTS}
