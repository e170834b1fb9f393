# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: explain
short_description: Say what a log or an output file shows
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Reads logs and outputs of tools (perftest, nccl-tests, NCCL, iperf3, mpirun, listings of links and addresses, netplan files, kernel logs) and says
    what they show, as findings with cause and fix.
  - The kind of each file is found by its content. Several kinds may stand in one file; prefixes of C(mpirun --tag-output) and times of day are taken off.
  - Files are looked at together, so that one log for each rank, or one listing for each node, gives one answer.
  - Runs wholly on the controller. No cluster is needed, no host is connected to, and no privilege is taken.
  - Secrets are masked, and the environment that nccl-tests writes into its JSON is dropped.
  - Never fails because of what a file shows; look at RV(verdict) for that. C(docs/explain.md) lists kinds and findings.
options:
  files:
    description:
      - The files. A folder is read as a netplan tree (C(etc/netplan) below it, or the YAML files in it), and its other files one by one.
      - Relative paths start at the current directory.
    type: list
    elements: path
    required: true
  out:
    description: File to write the findings to, as JSON. Neither one of O(files) nor in one of its folders.
    type: path
  topology:
    description: Topology of the cluster, where it is known; on V(mesh) and V(ring) a rail without IPv4 is a failure, not a warning.
    type: str
    choices: ["", pair, switch, mesh, ring]
    default: ""
  ports:
    description: Ports that belong to the fabric; others that are up are noted. Empty when not declared.
    type: list
    elements: int
    default: []
  rail_gbps:
    description: Expected RDMA rate of a rail in Gb/s; V(0) derives it from PCIe and link.
    type: float
    default: 0.0
  link_gbps:
    description: Speed of the links in Gb/s.
    type: float
    default: 200.0
  network:
    description: Transport that NCCL should use; V(Socket) for machines without RDMA.
    type: str
    choices: [IB, Socket]
    default: IB
  show:
    description: Whether to print the findings as JSON; it begins with a line C({) and ends with a line C(}).
    type: bool
    default: true
attributes:
  action:
    description: Whether the module has an action plugin that runs on the controller.
    support: full
  check_mode:
    description: It changes no node, so check mode makes no difference; O(out) is written there too.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
seealso:
  - module: dgxspark.fabric.report
"""

EXAMPLES = r"""
- name: Explain two files
  dgxspark.fabric.explain:
    files:
      - nccl-tests.log
      - ib_write_bw.txt
    out: build/explain.json
  register: explained

- name: Fail when they show a fault
  ansible.builtin.assert:
    that: explained.verdict.status == 'pass'
    fail_msg: "{{ explained.verdict.message }}"
"""

RETURN = r"""
explain_version:
  description: Version of the shape of this answer.
  returned: success
  type: int
files:
  description: Each file with the kinds found in it and its number of lines.
  returned: success
  type: list
  elements: dict
findings:
  description: The findings, lowest layer first, in the shape of those in a report.
  returned: success
  type: list
  elements: dict
verdict:
  description: The verdict, that is C(status) (V(pass) or V(fail)), C(counts) of the findings by status, and a C(message).
  returned: success
  type: dict
"""
