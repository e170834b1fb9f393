# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: inference_bench_collect
short_description: Wait for the load on an endpoint to end and fetch what was measured
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Follows the job that M(dgxspark.fabric.inference_bench) started, shows progress and time left, and returns the results as the fact
    C(fabric_inference).
  - Reads two small files by plain shell commands. A lost connection is tried again until the job should have ended and some time more.
  - Never fails because of a machine that is gone; its result says V(lost).
options:
  started:
    description:
      - What M(dgxspark.fabric.inference_bench) returned, whatever it was, an unreachable host included.
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
      - How long beyond the expected end of its job a machine that cannot be reached is waited for.
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
  - module: dgxspark.fabric.inference_bench
"""

EXAMPLES = r"""
- name: Fetch the results
  dgxspark.fabric.inference_bench_collect:
    started: "{{ started }}"
"""

RETURN = r"""
ansible_facts:
  description: The results.
  returned: always
  type: dict
  contains:
    fabric_inference:
      description: >-
        What was found: C(status) (V(done), V(refused) by the look at the endpoint, V(failed), V(lost) or V(not_started)), C(reason), C(message) and C(fix);
        C(node) (which drove the endpoint), C(url), C(tool), C(endpoint) (what the look saw: models, context, server) and C(runs), one a concurrency.
        C(docs/inference.md) describes a run.
      type: dict
      returned: always
"""
