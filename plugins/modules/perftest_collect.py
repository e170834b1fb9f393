# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: perftest_collect
short_description: Wait for the load tests of the nodes and fetch their results
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Follows the job that M(dgxspark.fabric.perftest) started on a node, shows what runs, round and time left, and returns the results as the facts
    C(fabric_perftest) and C(fabric_iperf3). Where the environment says E(CI), nothing is shown.
  - Reads two small files on the node by plain shell commands. A lost connection is tried again until the job should have
    ended and some time more.
  - Never fails because of a node that is gone; its result says V(lost).
options:
  started:
    description:
      - What M(dgxspark.fabric.perftest) returned on this host, whatever it was, an unreachable host included.
    type: dict
    required: true
  earlier:
    description:
      - The fact C(fabric_perftest) of a job before this one, whose tests are kept before the new ones. The fact C(fabric_iperf3) stays as it was.
    type: dict
  poll_seconds:
    description:
      - Time between two looks at a job, at most.
    type: float
    default: 5
  margin_seconds:
    description:
      - How long beyond the job's own deadline a result is waited for.
    type: float
    default: 30
  lost_seconds:
    description:
      - How long beyond the expected end of its job a node that cannot be reached is waited for.
    type: float
    default: 30
attributes:
  action:
    description: Whether the module has an action plugin that runs on the controller.
    support: full
  check_mode:
    description: Can run in check mode. There is nothing to fetch then, and the fact says so.
    support: full
  diff_mode:
    description: Shows what a change would be.
    support: none
seealso:
  - module: dgxspark.fabric.perftest
"""

EXAMPLES = r"""
- name: Fetch the results
  dgxspark.fabric.perftest_collect:
    started: "{{ started }}"
  become: true
"""

RETURN = r"""
ansible_facts:
  description: The results.
  returned: always
  type: dict
  contains:
    fabric_perftest:
      description: >-
        The node's results: C(run), C(node), C(status) (V(done), V(refused_busy), V(lost) or
        V(not_started)), C(message) and C(tests). Each test has C(id), C(role), C(status) (V(ok), V(failed), V(timeout),
        V(peer_absent), V(control_blocked), V(void) or V(not_run)), C(error), C(message), C(gbps) (average, 10^9 bit/s),
        command line, version, device, GID, RDMA MTU, counter deltas and the tool's last lines.
      type: dict
      returned: always
    fabric_iperf3:
      description: >-
        The same of the TCP tests, with C(streams), C(sent_gbps), C(retransmits), C(path_mtu_bytes) and C(mean_rtt_us); C(gbps) is what the
        receiver counted.
      type: dict
      returned: when O(earlier) is not given
"""
