#!/usr/bin/python
# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: netplan_undo
short_description: Takes back what provisioning did to the network of a node
version_added: "0.1.0"
author:
  - dgxspark.fabric contributors (@dgxspark)
description:
  - Removes the managed files, puts every file that was adopted back as it was, byte for byte, with mode and owner, and takes away what netplan
    leaves on the interfaces, namely addresses, MTU and ARP settings.
  - The change is guarded as M(dgxspark.fabric.netplan) guards its own. A timer and a unit for the next boot bring the provisioned state back unless the old
    one is reached, the management address is there, and (with O(confirm_seconds)) the controller confirms with O(dgxspark.fabric.netplan#module:phase=confirm).
  - Does nothing on a node that was not provisioned, or where it was taken back already.
options:
  node:
    description: Name of the node, for messages.
    type: str
    default: ""
  validate:
    description: Whether to look for reasons against it only. Nothing is changed.
    type: bool
    default: false
  force:
    description:
      - Whether to go on although files were edited since they were provisioned. The edits are lost, except for a copy in C(/var/lib/dgxspark-fabric/undone).
    type: bool
    default: false
  management_interface:
    description: The interface that the node is managed by.
    type: str
  management_address:
    description: The address on O(management_interface) that must be there after the change.
    type: str
  timeout:
    description: How many seconds the old state may take to be there, before the provisioned one is brought back.
    type: int
    default: 90
  confirm_seconds:
    description: How many seconds the controller has to confirm. V(0) needs no confirmation.
    type: int
    default: 0
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying the node.
    support: full
  diff_mode:
    description: Returns what has changed, or would change, in files and in the live state.
    support: full
seealso:
  - module: dgxspark.fabric.netplan
"""

EXAMPLES = r"""
- name: Take the fabric's settings back
  dgxspark.fabric.netplan_undo:
    node: "{{ inventory_hostname }}"
    management_interface: enP7s7
    management_address: 10.77.0.11
"""

RETURN = r"""
edited:
  description: Files that were edited since they were provisioned.
  returned: always
  type: list
  elements: str
would_change:
  description: Whether anything has to be taken back.
  returned: with O(validate)
  type: bool
actions:
  description: What was done, in order.
  returned: when something was done
  type: list
  elements: str
needs_confirm:
  description: Whether the provisioned state comes back unless the change is confirmed.
  returned: when O(validate) is V(false)
  type: bool
token:
  description: Names the change for the confirmation.
  returned: when O(validate) is V(false)
  type: str
rolled_back:
  description: Whether the provisioned state was brought back.
  returned: on failure
  type: bool
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgxspark.fabric.plugins.module_utils import live_state, netplan_undo
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import run
from ansible_collections.dgxspark.fabric.plugins.module_utils.dead_man import DeadMan, DeadManError
from ansible_collections.dgxspark.fabric.plugins.module_utils.managed_file import FileError
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_apply import Apply, Goal, NotReached
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_compare import Comparison
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_verdict import Request


def request_of(params: t.Mapping[str, t.Any], dead_man: DeadMan) -> Request:
    """Return what is asked for; the interfaces come from the node's own record."""
    return Request(node=params["node"], path="", content=b"", planned=netplan_undo.planned_interfaces(dead_man.record), arp=False,
                   management_interface=params["management_interface"] or None, management_address=params["management_address"] or None,
                   timeout=float(params["timeout"]), confirm_seconds=float(params["confirm_seconds"]))


def refuse_edited(module: AnsibleModule, node: str, edited: list[str]) -> None:
    """Stop when files were edited since, unless it is forced."""
    if edited and not module.params["force"]:
        module.fail_json(msg=f"{node}: {', '.join(edited)} changed since this collection wrote it, and taking back would lose that. Save the change "
                         "elsewhere, or force it with -e undo_force=true (a copy stays in /var/lib/dgxspark-fabric/undone)", edited=edited)


def perform(module: AnsibleModule, request: Request, dead_man: DeadMan) -> None:
    """Take everything back."""
    node = request.node or "this node"
    record = dead_man.record

    def missing(live: t.Mapping[str, live_state.Live]) -> Comparison:
        return netplan_undo.compare(record, live)

    with dead_man.alone(request.timeout):
        actions = []
        if dead_man.journal() is not None:
            dead_man.roll_back()
            actions.append("took back an earlier change that was never confirmed")
        before = live_state.read(run, request.planned)
        comparison = missing(before)
        edited = netplan_undo.edited(record, comparison.files)
        refuse_edited(module, node, edited)
        if not comparison.would_change:
            record.forget()
            module.exit_json(changed=bool(actions), edited=edited, actions=actions, needs_confirm=False, token=None, diff=[])
        why = netplan_undo.rejected(run, comparison.files)
        if why:
            module.warn(f"{node}: netplan rejected the configuration before it was provisioned, and does so again: {why}")
        apply = Apply(request, run, dead_man, Goal(missing, kind="undo", rejected=bool(why)))
        try:
            outcome = apply.perform(comparison, before)
        except NotReached as exc:
            module.fail_json(msg=f"{node}: {exc}", rolled_back=True, actions=actions + apply.outcome.actions, edited=edited, diff=comparison.diff())
        if outcome.token:
            dead_man.note_reached(outcome.token, [])
            if not request.confirm_seconds:
                dead_man.confirm(outcome.token)
        else:
            record.forget()
    module.exit_json(changed=True, edited=edited, actions=actions + outcome.actions, needs_confirm=bool(outcome.token and request.confirm_seconds),
                     token=outcome.token, diff=comparison.diff())


def main() -> None:
    """Read the options, take back, return."""
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "default": ""},
            "validate": {"type": "bool", "default": False},
            "force": {"type": "bool", "default": False},
            "management_interface": {"type": "str"},
            "management_address": {"type": "str"},
            "timeout": {"type": "int", "default": 90},
            "confirm_seconds": {"type": "int", "default": 0},
        },
        supports_check_mode=True,
    )
    dead_man = DeadMan(run)
    node = module.params["node"] or "this node"
    try:
        request = request_of(module.params, dead_man)
        if module.params["validate"] or module.check_mode:
            comparison = netplan_undo.compare(dead_man.record, live_state.read(run, request.planned))
            edited = netplan_undo.edited(dead_man.record, comparison.files)
            refuse_edited(module, node, edited)
            would_change = comparison.would_change or dead_man.journal() is not None
            module.exit_json(changed=would_change and module.check_mode, would_change=would_change, edited=edited, needs_confirm=False, token=None,
                             diff=comparison.diff() if module.check_mode else [])
        perform(module, request, dead_man)
    except (FileError, DeadManError, live_state.LiveStateError) as exc:
        module.fail_json(msg=f"{node}: {exc}")


if __name__ == "__main__":
    main()
