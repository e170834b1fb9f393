# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: link_probe_collect
short_description: End the probe of the links and fetch what was heard
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Tells the probe that M(dgxspark.fabric.link_probe) started on this node that all nodes have started, waits for its end, and returns
    what it heard as the fact C(fabric_neighbours).
  - Reads and writes two small files on the node by one plain shell command.
options:
  started:
    description: What M(dgxspark.fabric.link_probe) returned on this host.
    type: dict
    required: true
  all_started:
    description:
      - When the last node had started, in seconds since the epoch by the controller's clock. The probes go on until some seconds later, so that all
        of them send and listen at the same time, however long it takes to collect from all.
      - The moment of this task when left out.
    type: float
  raised:
    description: Whether any node raised a port, whose link then takes some seconds to come up.
    type: bool
    default: false
attributes:
  action:
    description: Whether the module has an action plugin that runs on the controller.
    support: full
  check_mode:
    description: Can run in check mode and behaves the same there.
    support: full
  diff_mode:
    description: Shows what a change would be.
    support: none
seealso:
  - module: dgxspark.fabric.link_probe
"""

EXAMPLES = r"""
- name: Fetch what was heard
  dgxspark.fabric.link_probe_collect:
    started: "{{ started }}"
  become: true
"""

RETURN = r"""
ansible_facts:
  description: What was heard.
  returned: always
  type: dict
  contains:
    fabric_neighbours:
      description: >-
        C(interfaces) by name, each with C(port), C(rail), C(mac), C(carrier), C(state) (V(probed) or V(admin down, not probed)), C(raised),
        C(heard) (C(node), C(interface), C(port), C(rail), C(mac) of each sender, and C(direct), whether it is at the same cable),
        C(strangers) (senders of another cluster or run); C(lldp), the neighbours that lldpd knows, null where it does not run.
      type: dict
      returned: always
"""
