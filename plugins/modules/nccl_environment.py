#!/usr/bin/python
# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_environment
short_description: Install NCCL's environment and the hostfile on a node
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Writes the plan's environment of the node and the hostfile as plain files that a shell, systemd, docker and others can read, each value with its reason.
  - Reads from the NCCL library that programs will load what it knows, and completes the environment by that. On a ring of four or more a library that knows
    C(NCCL_SWITCHLESS_RING_ONLY) gets it, with the channel counts; the name and the version of a library say nothing about it.
  - Never writes C(NCCL_DEBUG).
options:
  node:
    description:
      - Name of the node, for the file's head line.
    type: str
    required: true
  environment:
    description:
      - The environment of the node, C(nccl_environment) of the plan.
    type: list
    elements: dict
    required: true
  interface:
    description:
      - The node's management interface as it was observed, for the values that follow it.
    type: str
  hostfile:
    description:
      - Hosts in the order of the ranks, C(hostfile) of the plan.
    type: list
    elements: dict
    default: []
  shape:
    description:
      - Shape of the cabling, C(shape) of the plan.
    type: str
    required: true
  profile:
    description:
      - How NCCL copes with rings, C(nccl.profile) of the plan.
    type: str
    default: upstream
  libraries:
    description:
      - Folders to look for C(libnccl.so.2) in, in this order.
    type: list
    elements: path
    default: []
  sha256:
    description:
      - SHA-256 that the library must have. With another library, or none, nothing is installed. Empty takes any.
    type: str
    default: ""
  path:
    description:
      - Where the environment is installed.
    type: path
    default: /etc/dgxspark-fabric/nccl.env
  hostfile_path:
    description:
      - Where the hostfile is installed.
    type: path
    default: /etc/dgxspark-fabric/hostfile
attributes:
  check_mode:
    description: Can run in check mode and return what would change.
    support: full
  diff_mode:
    description: Shows what a change would be.
    support: full
notes:
  - Needs root.
seealso:
  - module: dgxspark.fabric.nccl_tests
"""

EXAMPLES = r"""
- name: Install NCCL's environment
  dgxspark.fabric.nccl_environment:
    node: "{{ inventory_hostname }}"
    environment: "{{ fabric_plan.nodes[inventory_hostname].nccl_environment }}"
    interface: "{{ fabric_node.management.interface }}"
    hostfile: "{{ fabric_plan.hostfile }}"
    shape: "{{ fabric_plan.shape }}"
    libraries: [/opt/dgxspark-fabric/nccl/current/lib]
  become: true
"""

RETURN = r"""
library:
  description: The library that was found, its version, and which variables it knows.
  returned: always
  type: dict
  sample: {path: /opt/dgxspark-fabric/nccl/current/lib/libnccl.so.2, version: 2.30.7, known: {NCCL_ALGO: true, NCCL_SWITCHLESS_RING_ONLY: false}}
environment:
  description: The environment as installed.
  returned: always
  type: dict
warnings:
  description: Variables that the library does not know, and what a ring risks with it.
  returned: when there are any
  type: list
  elements: str
"""

import os
import pathlib

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgxspark.fabric.plugins.module_utils import managed_file, nccl_library
from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_build import BuildError, file_sha256
from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_files import environment_text, hostfile_text
from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_rank import LIBRARY, search_file

MODE = 0o644
FOLLOWED = "management.interface"


def unverified(node: str, library: str | None, folders: list[str], sha256: str) -> str:
    """Return why a library is not the one that was named, "" when it is, or when none was named."""
    if not sha256:
        return ""
    if library is None:
        return f"{node}: {LIBRARY} is not in {', '.join(folders) or 'any folder'}, and fabric_nccl_source names its SHA-256: correct fabric_nccl_prefix"
    try:
        found = file_sha256(pathlib.Path(library), "")
    except BuildError as error:
        return str(error)
    if found == sha256.strip().lower():
        return ""
    return (
        f"{node}: {library} has the SHA-256 {found}, expected {sha256} (fabric_nccl_source): it is not the library that was named; nothing was "
        "installed. Copy the right one there, or correct the SHA-256")


def main() -> None:
    """Work out both files, compare, write."""
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "required": True},
            "environment": {"type": "list", "elements": "dict", "required": True},
            "interface": {"type": "str"},
            "hostfile": {"type": "list", "elements": "dict", "default": []},
            "shape": {"type": "str", "required": True},
            "profile": {"type": "str", "default": "upstream"},
            "libraries": {"type": "list", "elements": "path", "default": []},
            "sha256": {"type": "str", "default": ""},
            "path": {"type": "path", "default": "/etc/dgxspark-fabric/nccl.env"},
            "hostfile_path": {"type": "path", "default": "/etc/dgxspark-fabric/hostfile"},
        },
        supports_check_mode=True)
    wanted = module.params
    try:
        entries = [
            {**entry, "value": wanted["interface"]} if entry.get("follows") == FOLLOWED and wanted["interface"] else dict(entry)
            for entry in wanted["environment"] if entry["name"] != "NCCL_DEBUG"
        ]
        planned = {entry["name"]: str(entry["value"]) for entry in entries}
        texts = {wanted["hostfile_path"]: hostfile_text(wanted["hostfile"])} if wanted["hostfile"] else {}
    except KeyError as error:
        module.fail_json(msg=f"an entry of environment or hostfile lacks {error}: pass them as the plan has them")
    library = next((path for folder in wanted["libraries"] if os.path.exists(path := os.path.join(folder, LIBRARY))), None)
    trouble = unverified(wanted["node"], library, wanted["libraries"], wanted["sha256"])
    if trouble:
        module.fail_json(msg=trouble)
    version, known = search_file(library, nccl_library.asked([planned])) if library else (None, {})
    entries = nccl_library.adapted(entries, known, wanted["shape"], wanted["profile"])
    installed = {entry["name"]: str(entry["value"]) for entry in entries}
    texts = {wanted["path"]: environment_text(wanted["node"], entries), **texts}
    result: dict[str, object] = {"library": {"path": library, "version": version, "known": known}, "environment": installed}
    ignored = nccl_library.ignored(installed, known)
    if ignored:
        module.warn(f"{wanted['node']}: NCCL {version} at {library} does not know {', '.join(ignored)} and ignores it")
    risk = nccl_library.tree_risk(known, wanted["shape"], wanted["profile"])
    if risk:
        module.warn(f"{wanted['node']}: {risk}")
    diffs = []
    try:
        for path, text in texts.items():
            content = text.encode()
            diff = managed_file.file_diff(managed_file.read(path), content, MODE)
            if diff is None:
                continue
            diffs.append(diff)
            if not module.check_mode:
                pathlib.Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                managed_file.write(path, content, MODE)
    except (managed_file.FileError, OSError) as error:
        module.fail_json(msg=f"{wanted['node']}: {error}; the module needs root (become: true)", **result)
    module.exit_json(changed=bool(diffs), diff=diffs, **result)


if __name__ == "__main__":
    main()
