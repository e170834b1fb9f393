# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_tests_collect
short_description: Wait for nccl-tests and fetch what they measured
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Follows the job that M(dgxspark.fabric.nccl_tests) started on the launching node, shows progress and time left, and returns the results as the fact
    C(fabric_nccl).
  - Reads two small files on the node by plain shell commands. A lost connection is tried again until the job should have ended and some time more.
  - Never fails because of a node that is gone; its result says V(lost).
options:
  started:
    description:
      - What M(dgxspark.fabric.nccl_tests) returned on this host, whatever it was, an unreachable host included.
    type: dict
    required: true
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
    default: 60
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
  - module: dgxspark.fabric.nccl_tests
"""

EXAMPLES = r"""
- name: Fetch the results
  dgxspark.fabric.nccl_tests_collect:
    started: "{{ started }}"
  become: true
"""

RETURN = r"""
ansible_facts:
  description: The results.
  returned: always
  type: dict
  contains:
    fabric_nccl:
      description: >-
        What the launching node found: C(status) (V(done), V(skipped), V(refused), V(failed), V(lost) or V(not_started)), C(reason), C(message) and C(fix);
        C(order), C(mpi), C(stand_in) (true when the programs are the lab's stand-in, which has no NCCL in it), C(nodes) (what each node said from inside
        the first launch: versions, library, limits, memory, settings), C(problems), C(runs) and C(not_run). Each run has the fields of the parsed output
        (C(collective), C(devices), C(rows), …), C(status), C(error), C(message), the command, and C(rank_records): for each rank what NCCL's log says
        of networks, devices and channels, and the bytes that each device moved.
      type: dict
      returned: always
"""
