#!/usr/bin/python
# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_build
short_description: Build NCCL and nccl-tests from verified sources, or take them over from another node
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Builds NCCL and nccl-tests into a prefix below O(base) that is named for everything that it is made of; a prefix that is there is not built again.
  - Sources are a tag whose commit is verified, or an archive whose SHA-256 is; any other is refused and nothing is built.
  - C(current) below O(base) is switched at the very end. A build that fails or is killed leaves the last good one in use, and the next run goes on with it.
options:
  state:
    description:
      - V(probed) looks only, V(built) builds on this node, V(received) takes the prefix over from O(origin).
    type: str
    choices: [probed, built, received]
    default: built
  nccl:
    description:
      - Source of NCCL.
    type: dict
    required: true
    suboptions: &source
      tag:
        description: Tag to fetch.
        type: str
        default: ""
      commit:
        description: Commit that the tag must be, 40 hexadecimal digits.
        type: str
        default: ""
      url:
        description: Repository, or a mirror of it.
        type: str
        default: ""
      archive:
        description: Archive on the node instead of a repository.
        type: path
      sha256:
        description: SHA-256 that the archive must have.
        type: str
        default: ""
  tests:
    description:
      - Source of nccl-tests.
    type: dict
    required: true
    suboptions: *source
  base:
    description:
      - Folder of the prefixes.
    type: path
    default: /opt/dgxspark-fabric/nccl
  cuda_home:
    description:
      - Folder of the CUDA toolkit.
    type: path
    default: /usr/local/cuda
  mpi_home:
    description:
      - Folder of Open MPI, with C(include) and C(lib). Empty takes the distribution's.
    type: str
    default: ""
  gencode:
    description:
      - What C(nvcc) compiles for.
    type: str
    default: -gencode=arch=compute_121,code=sm_121
  jobs:
    description:
      - How many steps run at once; 0 takes the number of processors.
    type: int
    default: 0
  space_bytes:
    description:
      - Free space that a build needs.
    type: int
    default: 6000000000
  origin:
    description:
      - For O(state=received), the node that built it.
    type: dict
    suboptions:
      addresses:
        description: Addresses to fetch from, tried in this order, such as one of the fabric before that of the management network.
        type: list
        elements: str
        required: true
      user:
        description: User that may ssh there.
        type: str
      archive:
        description: RV(archive) of the node that built it.
        type: path
        required: true
      sha256:
        description: RV(sha256) of the node that built it.
        type: str
        required: true
      stamp:
        description: RV(stamp) of the node that built it.
        type: dict
        required: true
attributes:
  check_mode:
    description: Can run in check mode and says what would be built.
    support: full
  diff_mode:
    description: Shows what a change would be.
    support: full
notes:
  - Needs root, C(make), C(g++), the CUDA toolkit and C(libopenmpi-dev). All that is missing is named before anything is fetched.
seealso:
  - module: dgxspark.fabric.nccl_environment
"""

EXAMPLES = r"""
- name: Build NCCL
  dgxspark.fabric.nccl_build:
    nccl:
      tag: v2.30.7-1
      commit: 73cf112295c33aee2b895f329f592f2a9b4b0f97
      url: https://github.com/NVIDIA/nccl.git
    tests:
      tag: v2.19.6
      commit: a0b82b2260cf5152b9f8c061bbf7eaf0ba096432
      url: https://github.com/NVIDIA/nccl-tests.git
  become: true
"""

RETURN = r"""
stamp:
  description: Everything that the prefix is made of, and its name.
  returned: always
  type: dict
installed:
  description: Whether the prefix is there.
  returned: always
  type: bool
current:
  description: Name of the prefix in use.
  returned: always
  type: str
archive:
  description: Archive of the prefix for other nodes.
  returned: when it was built here
  type: str
sha256:
  description: SHA-256 of that archive.
  returned: when it was built here
  type: str
"""

import os
import pathlib
import pwd
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgxspark.fabric.plugins.module_utils import nccl_build, nccl_launch
from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_build import BuildError, Source, Tools

SOURCE = {
    "tag": {"type": "str", "default": ""}, "commit": {"type": "str", "default": ""}, "url": {"type": "str", "default": ""},
    "archive": {"type": "path"}, "sha256": {"type": "str", "default": ""},
}


def distribution_mpi() -> str:
    """Return where Debian and Ubuntu keep Open MPI's headers, which depends on the architecture."""
    return f"/usr/lib/{os.uname().machine}-linux-gnu/openmpi"


def fetch_commands(origin: dict[str, Any]) -> list[list[str]]:
    """Return the commands that write the archive of another node to standard output, one an address."""
    commands = [nccl_launch.ssh_command(address, ["cat", origin["archive"]]) for address in origin["addresses"]]
    user = origin["user"]
    if user and user != pwd.getpwuid(os.geteuid()).pw_name:
        return [nccl_launch.as_user(command, user, pwd.getpwnam(user).pw_dir) for command in commands]
    return commands


def work(module: AnsibleModule) -> dict[str, object]:
    """Do what is asked; return the result."""
    wanted = module.params
    sources = [Source(name, **{key: value or "" for key, value in wanted[key_of].items()}) for name, key_of in (("nccl", "nccl"), ("nccl-tests", "tests"))]
    for source in sources:
        source.check()
    base = pathlib.Path(wanted["base"])
    origin = wanted["origin"]
    surroundings = nccl_build.fingerprint(wanted["cuda_home"])
    received = wanted["state"] == "received"
    stamp = origin["stamp"] if received else nccl_build.stamp_of(sources, wanted["gencode"], surroundings)
    there, before = nccl_build.installed(base, stamp), nccl_build.current(base)
    changed = not there or before != stamp["name"]
    diff = {"before": f"current: {before or 'none'}\n", "after": f"current: {stamp['name']}\n"}
    if wanted["state"] == "probed":
        return {"changed": False, "stamp": stamp, "installed": there, "current": before}
    if changed and not module.check_mode:
        with nccl_build.locked(base):
            if there:
                nccl_build.switch(base, stamp["name"])
            elif received:
                nccl_build.receive(base, stamp, fetch_commands(origin), origin["sha256"])
            else:
                mpi_home, jobs = wanted["mpi_home"] or distribution_mpi(), wanted["jobs"] or os.cpu_count() or 1
                tools = Tools(wanted["cuda_home"], mpi_home, wanted["gencode"], jobs, wanted["space_bytes"])
                nccl_build.check_tools(base, sources, tools)
                nccl_build.build(base, stamp, sources, tools)
    result: dict[str, object] = {"changed": changed, "stamp": stamp, "installed": there or not module.check_mode, "current": nccl_build.current(base)}
    if changed:
        result["diff"] = diff
    if not received and not module.check_mode:
        archive, sha256 = nccl_build.pack(base, stamp)
        result.update(archive=str(archive), sha256=sha256)
    return result


def main() -> None:
    """Build, and say why not."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["probed", "built", "received"], "default": "built"},
            "nccl": {"type": "dict", "required": True, "options": SOURCE},
            "tests": {"type": "dict", "required": True, "options": SOURCE},
            "base": {"type": "path", "default": "/opt/dgxspark-fabric/nccl"},
            "cuda_home": {"type": "path", "default": "/usr/local/cuda"},
            "mpi_home": {"type": "str", "default": ""},
            "gencode": {"type": "str", "default": "-gencode=arch=compute_121,code=sm_121"},
            "jobs": {"type": "int", "default": 0},
            "space_bytes": {"type": "int", "default": 6000000000},
            "origin": {
                "type": "dict",
                "options": {
                    "addresses": {"type": "list", "elements": "str", "required": True}, "user": {"type": "str"}, "archive": {"type": "path", "required": True},
                    "sha256": {"type": "str", "required": True}, "stamp": {"type": "dict", "required": True},
                },
            },
        },
        required_if=[("state", "received", ["origin"])],
        supports_check_mode=True)
    try:
        module.exit_json(**work(module))
    except BuildError as error:
        module.fail_json(msg=str(error))
    except (OSError, KeyError) as error:
        module.fail_json(msg=f"{os.uname().nodename}: {error}; the module needs root (become: true)")


if __name__ == "__main__":
    main()
