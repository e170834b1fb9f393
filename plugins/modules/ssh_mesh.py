#!/usr/bin/python
# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: ssh_mesh
short_description: Lets the nodes of a cluster reach each other by ssh
version_added: "0.1.0"
author:
  - dgxspark.fabric contributors (@dgxspark)
description:
  - Keeps a key pair of the node's own (ed25519), a known_hosts file of its own, and a marked block in the user's C(authorized_keys) and C(config). Everything
    else in those files stays as it is.
  - The private key never leaves the node. Host keys come from the nodes themselves, over the connection of Ansible, and are checked strictly.
options:
  phase:
    description:
      - V(read) makes the key pair where there is none, and returns public keys, host keys and our part of the files.
      - V(write) makes our part of the files as given.
      - V(prove) connects to each of O(targets) with C(BatchMode) and fails with every pair that does not work.
      - V(remove) takes our part of the files and the key pair away.
    type: str
    choices: [read, write, prove, remove]
    required: true
  node:
    description: Name of the node, for the key's comment and for messages.
    type: str
    default: ""
  user:
    description: The user of the mesh; without it the one who became root by sudo.
    type: str
  rotate:
    description: Whether to make a new key pair although there is one. For O(phase=read).
    type: bool
    default: false
  authorized_keys:
    description: Lines of the block in C(authorized_keys). For O(phase=write).
    type: list
    elements: str
    default: []
  known_hosts:
    description: Lines of our known_hosts file. For O(phase=write).
    type: list
    elements: str
    default: []
  config:
    description: Lines of the block in C(config). For O(phase=write).
    type: list
    elements: str
    default: []
  targets:
    description: The nodes to connect to. Each has C(node), C(names) (names and addresses to try) and C(user). For O(phase=prove).
    type: list
    elements: dict
    default: []
  timeout:
    description: How many seconds one connection may take to come up. For O(phase=prove).
    type: int
    default: 10
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying the node.
    support: full
  diff_mode:
    description: Returns the blocks before and after. Keys are public.
    support: full
"""

EXAMPLES = r"""
- name: Read keys and files
  dgxspark.fabric.ssh_mesh:
    phase: read
    node: "{{ inventory_hostname }}"
  become: true
  register: node_ssh

- name: Prove that another node is reached
  dgxspark.fabric.ssh_mesh:
    phase: prove
    node: "{{ inventory_hostname }}"
    targets:
      - {node: spark2, names: [spark2, 10.77.0.12], user: spark}
  become: true
"""

RETURN = r"""
ssh:
  description: C(user), C(public_key) (V(null) when check mode did not make it), C(host_keys), and our part of the files in C(authorized_keys),
    C(known_hosts) and C(config); C(too_open) are paths whose permissions sshd does not accept.
  returned: with O(phase=read)
  type: dict
paths:
  description: The files that changed.
  returned: with O(phase=write) and O(phase=remove)
  type: list
  elements: str
failures:
  description: The pairs that failed, each with C(from), C(to), C(user), C(command), C(key), C(said) and C(message).
  returned: with O(phase=prove)
  type: list
  elements: dict
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgxspark.fabric.plugins.module_utils import ssh_mesh_files, ssh_mesh_user
from ansible_collections.dgxspark.fabric.plugins.module_utils.managed_file import FileError
from ansible_collections.dgxspark.fabric.plugins.module_utils.ssh_mesh_files import SshMeshError, UserFiles
from ansible_collections.dgxspark.fabric.plugins.module_utils.ssh_mesh_user import Account

PARTS = ("authorized_keys", "known_hosts", "config")


def state_of(user: Account) -> dict[str, t.Any]:
    """Return our part of the user's files."""
    with ssh_mesh_user.rights_of(user):
        return UserFiles(user.home).state()


def run_read(module: AnsibleModule, user: Account) -> None:
    """Make the key pair where it is missing, and return what the other nodes need."""
    with ssh_mesh_user.rights_of(user):
        present = UserFiles(user.home).public_key() is not None
    missing = module.params["rotate"] or not present or not ssh_mesh_user.pair_is_whole(user)
    if missing and not module.check_mode:
        ssh_mesh_user.make_key(user, f"dgxspark-fabric:{module.params['node']}")
    state = state_of(user)
    if missing and module.check_mode:
        state["public_key"] = None
    host_keys = ssh_mesh_files.host_keys()
    if not host_keys:
        raise SshMeshError("there is no public host key in /etc/ssh: install openssh-server, or run ssh-keygen -A")
    module.exit_json(changed=missing, ssh={"user": user.name, "host_keys": host_keys, **state})


def diff(before: dict[str, t.Any], after: dict[str, t.Any]) -> list[dict[str, str]]:
    """Return Ansible diffs of our parts."""
    return [{"before_header": name, "after_header": name, "before": "".join(f"{line}\n" for line in before[name]),
             "after": "".join(f"{line}\n" for line in after[name])}
            for name in PARTS if before[name] != after[name]]


def run_write(module: AnsibleModule, user: Account) -> None:
    """Make our parts as given."""
    before = state_of(user)
    wanted = {name: module.params[name] for name in PARTS}
    if module.check_mode:
        differs = any(before[name] != wanted[name] for name in PARTS)
        module.exit_json(changed=differs, paths=[], diff=diff(before, wanted))
    with ssh_mesh_user.rights_of(user):
        paths = UserFiles(user.home).write(**wanted)
    module.exit_json(changed=bool(paths), paths=paths, diff=diff(before, wanted))


def run_prove(module: AnsibleModule, user: Account) -> None:
    """Connect to every target."""
    failures = ssh_mesh_user.prove(user, module.params["node"] or "this node", module.params["targets"], module.params["timeout"])
    if failures:
        module.fail_json(msg="\n".join(failure["message"] for failure in failures), failures=failures)
    module.exit_json(changed=False, failures=[])


def run_remove(module: AnsibleModule, user: Account) -> None:
    """Take our parts away."""
    before = state_of(user)
    if module.check_mode:
        present = any(before[name] for name in PARTS) or before["public_key"] is not None
        module.exit_json(changed=present, paths=[], diff=diff(before, {name: [] for name in PARTS}))
    with ssh_mesh_user.rights_of(user):
        paths = UserFiles(user.home).remove()
    module.exit_json(changed=bool(paths), paths=paths, diff=diff(before, {name: [] for name in PARTS}))


def main() -> None:
    """Read the options, act, return."""
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["read", "write", "prove", "remove"], "required": True},
            "node": {"type": "str", "default": ""},
            "user": {"type": "str"},
            "rotate": {"type": "bool", "default": False},
            "authorized_keys": {"type": "list", "elements": "str", "default": [], "no_log": False},
            "known_hosts": {"type": "list", "elements": "str", "default": []},
            "config": {"type": "list", "elements": "str", "default": []},
            "targets": {"type": "list", "elements": "dict", "default": []},
            "timeout": {"type": "int", "default": 10},
        },
        supports_check_mode=True,
    )
    phases = {"read": run_read, "write": run_write, "prove": run_prove, "remove": run_remove}
    try:
        phases[module.params["phase"]](module, ssh_mesh_user.account(module.params["user"]))
    except (SshMeshError, FileError, OSError) as exc:
        module.fail_json(msg=f"{module.params['node'] or 'this node'}: {exc}")


if __name__ == "__main__":
    main()
