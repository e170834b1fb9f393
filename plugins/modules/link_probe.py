#!/usr/bin/python
# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: link_probe
short_description: Start finding out who is at the other end of each fabric interface
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Sends short frames of an own EtherType (88B6) on every fabric interface, both rails, and notes whose frames arrive. No address is needed.
  - The probe runs in a process of its own on the node, so nodes may start one after the other. Run this module on all nodes, then
    M(dgxspark.fabric.link_probe_collect), which ends the probe and returns what was heard as the fact C(fabric_neighbours).
  - Where lldpd runs, its neighbours are noted as a second witness.
  - A port that is switched off is left alone, unless O(raise_ports) says otherwise; then it is switched on for the time of the probe.
options:
  run:
    description: Name of the run, the same on all nodes and never used twice. At least 6 letters or digits.
    type: str
    required: true
  cluster:
    description: Name of the cluster; frames of other clusters come from strangers.
    type: str
    required: true
  node:
    description: Name of this node in the inventory.
    type: str
    required: true
  interfaces:
    description: Interfaces to probe; all fabric interfaces of the node when empty.
    type: list
    elements: str
    default: []
  exclude:
    description: Interfaces that never are probed, such as the management interface.
    type: list
    elements: str
    default: []
  raise_ports:
    description: Whether ports that are switched off are switched on while the probe runs. Never done in check mode.
    type: bool
    default: false
  window_seconds:
    description: The probe ends by itself after this time, at most 900 seconds.
    type: float
    default: 120
  state_directory:
    description: Folder on the node for the state of the probe.
    type: path
    default: /run/dgxspark-fabric-links
attributes:
  check_mode:
    description: Can run in check mode. The probe runs, and no port is raised.
    support: full
  diff_mode:
    description: Shows what a change would be.
    support: none
notes:
  - Needs root for raw sockets.
  - Four frames a second and interface are sent.
seealso:
  - module: dgxspark.fabric.link_probe_collect
"""

EXAMPLES = r"""
- name: Start the probe
  dgxspark.fabric.link_probe:
    run: 20261130t221500ab
    cluster: spark
    node: "{{ inventory_hostname }}"
  become: true
  register: started
"""

RETURN = r"""
run:
  description: Name of the run.
  returned: success
  type: str
folder:
  description: Folder on the node with the state of the probe.
  returned: success
  type: str
pid:
  description: Process id of the probe.
  returned: success
  type: int
raised:
  description: Interfaces that were switched on for the probe.
  returned: success
  type: list
  elements: str
"""

import json
import os
import pathlib
import re
from collections.abc import Callable

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import run as run_program
from ansible_collections.dgxspark.fabric.plugins.module_utils.detach import detach
from ansible_collections.dgxspark.fabric.plugins.module_utils.job_state import LOG, RESULT, StateFolder
from ansible_collections.dgxspark.fabric.plugins.module_utils.link_prober import (
    FINISH, LONGEST_WINDOW, TRAINING, LinkProber, ProbeError, ProbeSpec, read_finish)

RUN_NAME = re.compile(r"[A-Za-z0-9]{6,64}", re.ASCII)
#: Seconds beyond the window after which the process is ended by its alarm.
ALARM_MARGIN = TRAINING + 30


def work(spec: ProbeSpec, directory: pathlib.Path) -> Callable[[Callable[[str], None]], None]:
    """Return the body of the detached process: open, report, probe, and leave all as it was."""

    def body(report: Callable[[str], None]) -> None:
        folder = StateFolder(directory, spec.run)
        try:
            folder.create()
            folder.note_processes(os.getpid(), [])
            prober = LinkProber(spec, run_program)
            prober.open()
        except (OSError, ProbeError) as error:
            report(json.dumps({"error": str(error)}))
            return
        try:
            report(json.dumps({"pid": os.getpid(), "raised": prober.raised}))
            found = prober.probe(lambda: read_finish(folder.path / FINISH))
        finally:
            prober.close()
        folder.write(RESULT, found)

    return body


def main() -> None:
    """Check the options, start the probe detached, return."""
    module = AnsibleModule(
        argument_spec={
            "run": {"type": "str", "required": True},
            "cluster": {"type": "str", "required": True},
            "node": {"type": "str", "required": True},
            "interfaces": {"type": "list", "elements": "str", "default": []},
            "exclude": {"type": "list", "elements": "str", "default": []},
            "raise_ports": {"type": "bool", "default": False},
            "window_seconds": {"type": "float", "default": 120},
            "state_directory": {"type": "path", "default": "/run/dgxspark-fabric-links"},
        },
        supports_check_mode=True,
    )
    options = module.params
    if not RUN_NAME.fullmatch(options["run"]):
        module.fail_json(msg=f"run is {options['run']!r}; expected 6 to 64 letters or digits, the same on all nodes")
    if not 1 <= options["window_seconds"] <= LONGEST_WINDOW:
        module.fail_json(msg=f"window_seconds is {options['window_seconds']:g}; expected a number of seconds from 1 to {LONGEST_WINDOW:g}")
    spec = ProbeSpec(
        run=options["run"], cluster=options["cluster"], node=options["node"], interfaces=tuple(options["interfaces"]), exclude=tuple(options["exclude"]),
        raise_ports=options["raise_ports"] and not module.check_mode, window=options["window_seconds"])
    directory = pathlib.Path(options["state_directory"])
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        module.fail_json(msg=f"{directory} cannot be made on {spec.node}: {error}; the module needs root (become: true)")
    answer = detach(work(spec, directory), str(directory / LOG), spec.window + ALARM_MARGIN)
    try:
        report = json.loads(answer)
    except ValueError:
        module.fail_json(msg=f"the probe on {spec.node} ended at once; {directory / LOG} there may say why")
    if "error" in report:
        module.fail_json(msg=report["error"])
    # A raised port is switched off again by the probe itself, so nothing of the node has changed when it ends.
    module.exit_json(changed=False, run=spec.run, folder=str(directory / spec.run), pid=report["pid"], raised=report["raised"])


if __name__ == "__main__":
    main()
