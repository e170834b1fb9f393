#!/usr/bin/python
# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_facts
short_description: Reads links, addresses, RDMA devices and the management interface of a node
version_added: "0.1.0"
author:
  - dgxspark.fabric contributors (@dgxspark)
description:
  - Reads in one execution everything that the checks of the cluster network need to know about a node.
  - Values come from sysfs and procfs where they are there; a missing tool is named in RV(fabric_node.unavailable), never an error.
  - Changes nothing.
options:
  management_interface:
    description:
      - The management interface, when the inventory names it.
    type: str
  management_address:
    description:
      - The management address, when the inventory names it. A host name, or an address that the node does not hold, is no error.
    type: str
  peers:
    description:
      - Management addresses of the other nodes. The interface in their network is the management interface if nothing better tells.
    type: list
    elements: str
    default: []
  use_ssh:
    description:
      - Whether the address that the ssh connection reached tells the management interface. Set V(false) on the controller itself,
        whose user may have come in by any interface.
    type: bool
    default: true
  controller_epoch_seconds:
    description:
      - What the controller's clock says, in seconds since 1970, to compare the node's clock with it.
    type: float
attributes:
  check_mode:
    description: Can run in check mode and behaves the same there.
    support: full
  diff_mode:
    description: Shows what a change would be.
    support: none
"""

EXAMPLES = r"""
- name: Read the node
  dgxspark.fabric.fabric_facts:
    peers: [10.77.0.12, 10.77.0.13]
  register: node

- name: Show the management address
  ansible.builtin.debug:
    var: node.fabric_node.management.address
"""

RETURN = r"""
fabric_node:
  description: What the node says about itself. Units stand in the key.
  returned: success
  type: dict
  contains:
    facts_version:
      description: Version of this structure.
      type: int
      returned: always
    management:
      description: Interface, address, prefix and how they were found (V(configured), V(address), V(ssh), V(peers), V(default_route)).
      type: dict
      returned: always
    interfaces:
      description: >-
        All interfaces except loopback and container links, by name; those of the fabric with C(port), C(rail), C(twin), C(autoneg), C(fec),
        C(flow_control) and C(traffic).
      type: dict
      returned: always
    rdma_devices:
      description: RDMA devices by name, with state, GID table, the index of each RoCE v2 GID by its IPv4 address, and counters.
      type: dict
      returned: always
    routes:
      description: IPv4 routes of all tables.
      type: list
      elements: dict
      returned: always
    neighbours:
      description: The neighbour table.
      type: list
      elements: dict
      returned: always
    gpus:
      description: How many GPUs NVIDIA's driver shows.
      type: int
      returned: always
    busy:
      description: >-
        What uses the fabric: programs that hold RDMA queue pairs or compute on the GPU, interfaces with traffic, and programs with sockets on those.
      type: list
      elements: dict
      returned: always
    pci_functions:
      description: Network functions of the ConnectX-7 by PCI address, with or without an interface, their PCIe link and its error counters.
      type: dict
      returned: always
    hotplug:
      description: Whether the driver that powers the ConnectX-7 off without a cable is there and on.
      type: dict
      returned: always
    machine:
      description: Vendor, product and firmware version.
      type: dict
      returned: always
    dgx_release:
      description: Name and version from C(/etc/dgx-release).
      type: dict
      returned: always
    kernel_options:
      description: Options of the kernel's command line that matter to RDMA.
      type: dict
      returned: always
    kernel_events:
      description: What the kernel said since boot of the ConnectX-7 and of PCIe errors, one entry a kind and function with count and last line.
      type: list
      elements: dict
      returned: always
    memory:
      description: Memory in bytes, the contiguous allocator's (CMA) included.
      type: dict
      returned: always
    memlock_bytes:
      description: How many bytes a program may lock, V(unlimited) or a number.
      type: raw
      returned: always
    kernel:
      description: Release of the kernel.
      type: str
      returned: always
    os:
      description: Name and version of the system.
      type: dict
      returned: always
    tools:
      description: Versions of the tools that later stages use; V(null) when absent.
      type: dict
      returned: always
    clock_epoch_seconds:
      description: What the node's clock said, in seconds since 1970.
      type: float
      returned: always
    clock_offset_seconds:
      description: By how much it is ahead of the controller's, the time of sending included; V(null) without O(controller_epoch_seconds).
      type: float
      returned: always
    unavailable:
      description: What could not be read, why, and which package brings it.
      type: dict
      returned: always
  sample:
    facts_version: 1
    hostname: spark1
    management: {interface: enP7s7, address: 10.77.0.11, prefix: 24, source: ssh}
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import run
from ansible_collections.dgxspark.fabric.plugins.module_utils.node_facts import gather
from ansible_collections.dgxspark.fabric.plugins.module_utils.iproute import IprouteError


def main() -> None:
    """Read the options, gather, return."""
    module = AnsibleModule(
        argument_spec={
            "management_interface": {"type": "str"},
            "management_address": {"type": "str"},
            "peers": {"type": "list", "elements": "str", "default": []},
            "use_ssh": {"type": "bool", "default": True},
            "controller_epoch_seconds": {"type": "float"},
        },
        supports_check_mode=True,
    )
    try:
        node = gather(
            run,
            management_interface=module.params["management_interface"],
            management_address=module.params["management_address"],
            peers=module.params["peers"],
            use_ssh=module.params["use_ssh"],
            controller_epoch_seconds=module.params["controller_epoch_seconds"],
        )
    except IprouteError as exc:
        module.fail_json(msg=f"the node's addresses cannot be read: {exc}; is the package iproute2 whole?")
    module.exit_json(changed=False, fabric_node=node)


if __name__ == "__main__":
    main()
