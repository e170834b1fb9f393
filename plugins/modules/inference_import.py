# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: inference_import
short_description: Take over results that a load generator has left elsewhere
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Reads result files of C(aiperf) (C(profile_export_aiperf.json)), C(guidellm) (C(benchmarks.json)) and C(vllm bench serve --save-result), and returns
    their runs as the fact C(fabric_inference). Which tool it was is seen by the file.
  - Files hold figures and few conditions. What they do not say has to be stated, since only runs under the same conditions are compared.
options:
  results:
    description:
      - The files, each with C(path) on the controller, and any of C(model), C(quantisation), C(context_tokens), C(input_tokens), C(output_tokens),
        C(concurrency), C(stack), C(nodes), C(link_gbps) and C(parallel).
    type: list
    elements: dict
    required: true
  defaults:
    description: The same, for what an entry does not state.
    type: dict
    default: {}
attributes:
  action:
    description: Whether the module has an action plugin that runs on the controller.
    support: full
  check_mode:
    description: Can run in check mode. It reads files alone.
    support: full
  diff_mode:
    description: Shows what a change would be.
    support: none
seealso:
  - module: dgxspark.fabric.inference_bench
"""

EXAMPLES = r"""
- name: Take over what guidellm measured
  dgxspark.fabric.inference_import:
    results:
      - path: results/benchmarks.json
        nodes: 2
        quantisation: fp8
        context_tokens: 32768
        stack: vLLM 0.12.0, NCCL 2.30.7
"""

RETURN = r"""
ansible_facts:
  description: The results.
  returned: always
  type: dict
  contains:
    fabric_inference:
      description: As M(dgxspark.fabric.inference_bench_collect) returns it; C(source) of each run is its file.
      type: dict
      returned: always
"""
