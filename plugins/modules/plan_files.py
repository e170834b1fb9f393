# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: plan_files
short_description: Write the files of a fabric's plan into a folder of the controller
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Writes C(plan.json), C(hostfile), C(cables.md), C(switch.md), C(switch.html) and, for each host, C(40-cx7.yaml), C(nccl.env) and C(vllm.env).
  - Runs wholly on the controller, as the user who runs Ansible. No host is connected to, whatever the inventory says about connection and privileges.
  - Files of hosts that left the plan are removed from the folder when they begin with the mark of this collection.
options:
  dest:
    description: Folder to write to; created when it does not exist. A relative path starts at the current directory.
    type: path
    required: true
  plan:
    description: The plan, as the filter P(dgxspark.fabric.plan#filter) returns it.
    type: dict
    required: true
  netplan_template:
    description: Template of a netplan file, which sees the document as C(netplan_document).
    type: path
    required: true
attributes:
  action:
    description: Whether the module has an action plugin that runs on the controller.
    support: full
  check_mode:
    description: Can run in check mode and predict changes without making them.
    support: full
  diff_mode:
    description: Can show the differences of the files.
    support: full
"""

EXAMPLES = r"""
- name: Write the plan
  dgxspark.fabric.plan_files:
    dest: build/plan
    plan: "{{ fabric_plan }}"
    netplan_template: "{{ role_path }}/../netplan/templates/40-cx7.yaml.j2"
  run_once: true
"""

RETURN = r"""
dest:
  description: The folder, as an absolute path.
  returned: success
  type: str
files:
  description: The files of the plan, relative to RV(dest).
  returned: success
  type: list
  elements: str
"""
