#!/usr/bin/python
# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: path_probe
short_description: Probe the node's paths to its peers on the fabric
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Pings every peer on every segment at once, bound to the interface, with small packets and with packets of the planned MTU that must not be fragmented.
  - Where small packets pass and full ones do not, finds the largest size that does.
  - Reads which interface the kernel would take to the peer, and which MAC address answers there. The two interfaces of a port share a cable, and each may
    answer for the other, which ping does not show and RDMA does not survive.
  - Reads only. A few packets are sent.
options:
  targets:
    description:
      - Other ends of the node's segments, as the filter P(dgxspark.fabric.path_targets#filter) returns them.
    type: list
    elements: dict
    required: true
    suboptions:
      interface:
        description: Own interface.
        type: str
        required: true
      address:
        description: Own planned address on it.
        type: str
      peer_address:
        description: Address of the peer.
        type: str
        required: true
      mtu:
        description: Size in bytes of the largest packet that must pass.
        type: int
        default: 9000
      segment:
        description: Name of the segment; repeated in the result, like the options below.
        type: str
      rail:
        description: Rail of the segment.
        type: str
      cable:
        description: Own cable.
        type: str
      peer_node:
        description: Name of the peer.
        type: str
      peer_interface:
        description: Interface of the peer.
        type: str
      expected_mac:
        description: MAC address of the peer's interface.
        type: str
  far:
    description:
      - Nodes to which no cable leads, as the filter P(dgxspark.fabric.path_far#filter) returns them. The kernel is asked by which interface it would go there;
        nothing is sent.
    type: list
    elements: dict
    default: []
    suboptions:
      node:
        description: Name of the node.
        type: str
        required: true
      addresses:
        description: Its addresses on the fabric.
        type: list
        elements: str
        required: true
attributes:
  check_mode:
    description: Can run in check mode and behaves the same there.
    support: full
  diff_mode:
    description: Shows what a change would be.
    support: none
notes:
  - Needs the package C(iputils-ping) on the node, and root to bind to an interface.
"""

EXAMPLES = r"""
- name: Probe the paths
  dgxspark.fabric.path_probe:
    targets: "{{ fabric_plan | dgxspark.fabric.path_targets(inventory_hostname, hostvars, ansible_play_hosts) }}"
  become: true
  register: probed
"""

RETURN = r"""
fabric_paths:
  description: One record for each target.
  returned: success
  type: list
  elements: dict
  contains:
    sent:
      description: Packets sent of each size.
      type: int
      returned: always
    received:
      description: Answers to packets of the planned MTU.
      type: int
      returned: always
    small_received:
      description: Answers to small packets.
      type: int
      returned: always
    largest_mtu:
      description: Largest packet in bytes that passes, when those of the planned MTU do not.
      type: int
      returned: always
    neighbour_mac:
      description: MAC address that answers at the other end.
      type: str
      returned: always
    route_interface:
      description: Interface that the kernel takes to the peer from the planned address.
      type: str
      returned: always
    error:
      description: What stood in the way.
      type: str
      returned: always
    kind:
      description: V(far) in a record of an address of O(far), which has RV(fabric_paths[].route_interface) and C(gateway) alone.
      type: str
      returned: for addresses of O(far)
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import run
from ansible_collections.dgxspark.fabric.plugins.module_utils.iproute import IprouteError, parse_addresses
from ansible_collections.dgxspark.fabric.plugins.module_utils.path_prober import TargetError, ask_far, parse_far, parse_target, probe


def main() -> None:
    """Check the targets, probe, return."""
    words = ("address", "segment", "rail", "cable", "peer_node", "peer_interface", "expected_mac")
    options = {"interface": {"type": "str", "required": True}, "peer_address": {"type": "str", "required": True},
               "mtu": {"type": "int", "default": 9000}, **{word: {"type": "str"} for word in words}}
    far = {"node": {"type": "str", "required": True}, "addresses": {"type": "list", "elements": "str", "required": True}}
    module = AnsibleModule(
        argument_spec={
            "targets": {"type": "list", "elements": "dict", "required": True, "options": options},
            "far": {"type": "list", "elements": "dict", "default": [], "options": far},
        },
        supports_check_mode=True)
    try:
        targets = [parse_target(target) for target in module.params["targets"]]
        elsewhere = [parse_far(entry) for entry in module.params["far"]]
        addresses = parse_addresses(run(["ip", "-j", "addr", "show"]).out)
    except (TargetError, IprouteError) as error:
        module.fail_json(msg=f"the paths cannot be probed: {error}")
    module.exit_json(changed=False, fabric_paths=[*probe(targets, addresses, run), *ask_far(elsewhere, run)])


if __name__ == "__main__":
    main()
