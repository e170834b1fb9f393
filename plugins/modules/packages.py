#!/usr/bin/python
# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: packages
short_description: Installs missing packages once and remembers their versions
version_added: "0.1.0"
author:
  - dgxspark.fabric contributors (@dgxspark)
description:
  - Installs those packages that are missing, by apt-get. What is installed is never upgraded. When installing would upgrade or remove anything, it
    stops and names it.
  - Package lists are fetched only where they do not know a package, so nothing is fetched where nothing is missing.
  - Keeps the versions on the node; check mode compares with them.
options:
  node:
    description: Name of the node, for messages and the drift list.
    type: str
    default: ""
  names:
    description: The packages.
    type: list
    elements: str
    required: true
  versions:
    description: Versions of other things to remember and compare, by name (V(null) when absent), such as NCCL.
    type: dict
    default: {}
  apt_options:
    description: Options for apt-get, each C(Key=Value), such as C(Acquire::http::Proxy=http://mirror:3142).
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying the node.
    support: full
  diff_mode:
    description: Returns the packages that are, or would be, installed.
    support: full
"""

EXAMPLES = r"""
- name: Install what measuring needs
  dgxspark.fabric.packages:
    node: "{{ inventory_hostname }}"
    names: [perftest, iperf3]
  become: true
"""

RETURN = r"""
installed:
  description: Packages that were installed, or would be.
  returned: always
  type: list
  elements: str
versions:
  description: Versions as they are now.
  returned: always
  type: dict
drift:
  description: Missing packages, and versions that differ from those with which the node was provisioned.
  returned: always
  type: list
  elements: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgxspark.fabric.plugins.module_utils import node_packages
from ansible_collections.dgxspark.fabric.plugins.module_utils.managed_file import FileError
from ansible_collections.dgxspark.fabric.plugins.module_utils.node_packages import Installer, PackagesError


def main() -> None:
    """Read the options, install, return."""
    module = AnsibleModule(
        argument_spec={
            "node": {"type": "str", "default": ""},
            "names": {"type": "list", "elements": "str", "required": True},
            "versions": {"type": "dict", "default": {}},
            "apt_options": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    names = list(dict.fromkeys(module.params["names"]))
    node = module.params["node"] or "this node"
    other = {str(name): str(version) for name, version in module.params["versions"].items() if version}
    try:
        present = {**node_packages.installed(node_packages.run_apt, names), **other} if names else other
        missing = [name for name in names if name not in present]
        recorded = node_packages.read_record()
        drift = node_packages.drift(node, names, present, recorded)
        if missing and not module.check_mode:
            installer = Installer(node_packages.run_apt, module.params["apt_options"])
            installer.plan(missing)
            installer.install(missing)
            present.update(node_packages.installed(node_packages.run_apt, names))
        if not module.check_mode and present != recorded:
            node_packages.write_record(present)
    except (PackagesError, FileError) as exc:
        module.fail_json(msg=f"{node}: {exc}")
    diff = [{"before_header": "packages", "after_header": "packages", "before": "", "after": "".join(f"{name}\n" for name in missing)}] if missing else []
    module.exit_json(changed=bool(missing), installed=missing, versions=present, drift=drift, diff=diff)


if __name__ == "__main__":
    main()
