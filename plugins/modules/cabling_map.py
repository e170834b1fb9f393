# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cabling_map
short_description: Show the cabling as it was found, compare it with the plan, or write an inventory of it
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Puts together what the links of all nodes heard (the fact C(fabric_neighbours)) to cables and switches, and prints the map.
  - With a plan, says what contradicts it and which plug to move.
  - Without one, writes an inventory of what was found, with the live addresses where there are any.
  - Runs on the controller; no host is connected to.
options:
  hosts:
    description: The hosts of the fabric in their order.
    type: list
    elements: str
    required: true
  plan:
    description: The plan, as the role C(plan) keeps it; leave it out to have an inventory written.
    type: dict
  dest:
    description: Where the inventory is written to when there is no plan; a relative path starts at the current directory.
    type: path
    default: build/discovered/hosts.yml
  show:
    description: Whether to print the map.
    type: bool
    default: true
attributes:
  action:
    description: Whether the module has an action plugin that runs on the controller.
    support: full
  check_mode:
    description: Can run in check mode. No inventory is written then.
    support: full
  diff_mode:
    description: Shows the inventory that is written.
    support: full
seealso:
  - module: dgxspark.fabric.link_probe_collect
"""

EXAMPLES = r"""
- name: Show the cabling
  dgxspark.fabric.cabling_map:
    hosts: "{{ groups['spark'] }}"
    plan: "{{ fabric_plan }}"
  run_once: true
"""

RETURN = r"""
shape:
  description: Shape of the cabling, V(pair), V(mesh), V(ring), V(switch), V(mix) of switch and cables, V(graph) for any other, V(none).
  returned: success
  type: str
lines:
  description: The map.
  returned: success
  type: list
  elements: str
contradictions:
  description: What contradicts the plan, each with its instruction. Empty without a plan.
  returned: success
  type: list
  elements: str
probed:
  description: Hosts that were probed.
  returned: success
  type: list
  elements: str
inventory:
  description: Path of the inventory.
  returned: when there is no plan and a cable was found
  type: str
notes:
  description: What to look at before the inventory is used.
  returned: when an inventory was made
  type: list
  elements: str
"""
