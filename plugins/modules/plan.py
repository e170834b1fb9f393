# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: plan
short_description: Work out the plan of a DGX Spark fabric from the inventory
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Returns everything that follows from the inventory alone, as the filter P(dgxspark.fabric.plan#filter) does, prints what the plan has to note, and
    fails with a message that names the variable and the host or cable when the inventory makes no plan.
  - Runs wholly on the controller. No host is connected to, whatever the inventory says about connection and privileges.
  - Looks only at the variables C(fabric_*), C(ansible_host), C(ansible_port), C(ansible_connection) and C(ansible_user) of the hosts.
options:
  group:
    description: Group of the inventory that holds the nodes of the fabric, in their order.
    type: str
    default: spark
  show_notes:
    description: Whether to print the notes of the plan, for example on a C(fabric_*) variable that does not exist. A plan without notes prints nothing.
    type: bool
    default: true
attributes:
  action:
    description: Whether the module has an action plugin that runs on the controller.
    support: full
  check_mode:
    description: It changes nothing, so check mode makes no difference.
    support: full
  diff_mode:
    description: There is nothing to show.
    support: none
seealso:
  - plugin: dgxspark.fabric.plan
    plugin_type: filter
  - module: dgxspark.fabric.plan_files
"""

EXAMPLES = r"""
- name: Work out the plan once, for all hosts
  dgxspark.fabric.plan:
  run_once: true
  register: worked_out

- name: Show the cables
  ansible.builtin.debug:
    msg: "{{ worked_out.plan.cables | map(attribute='name') }}"
  run_once: true
"""

RETURN = r"""
plan:
  description: The plan.
  returned: success
  type: dict
"""
