#!/usr/bin/python
# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: perftest
short_description: Start a node's share of the cluster-wide load tests, RDMA and TCP
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Starts a job on the node that walks through the node's tests, round by round, with C(ib_write_bw) and its kin and with C(iperf3), and returns
    at once.
    The job goes on when the connection is lost, keeps its results below O(state_directory), and ends by itself at its deadline.
  - Every node gets a job of its own by the filter P(dgxspark.fabric.perftest_job#filter). The two ends of a test meet on a TCP connection between their
    management addresses; nothing on the controller, and no ssh between nodes, is needed in between.
  - The results are fetched by M(dgxspark.fabric.perftest_collect).
  - A job of an earlier run that is still there is ended, together with its tools. No other process is touched.
options:
  job:
    description:
      - The job, as the filter P(dgxspark.fabric.perftest_job#filter) returns it.
    type: dict
    required: true
  state_directory:
    description:
      - Where the job keeps progress and results on the node, in a folder for each run. Folders of earlier runs are removed.
    type: path
    default: /run/dgxspark-fabric
attributes:
  check_mode:
    description: Can run in check mode. A load test is not a prediction, so it is skipped there.
    support: full
  diff_mode:
    description: Shows what a change would be.
    support: none
notes:
  - Needs root, for the memory limits of RDMA and to see who else uses the devices.
  - Needs the packages C(perftest) and C(iperf3) on the node. Where one is missing, its tests say so, and the module does not fail.
seealso:
  - module: dgxspark.fabric.perftest_collect
"""

EXAMPLES = r"""
- name: Start the load tests on all nodes
  dgxspark.fabric.perftest:
    job: "{{ fabric_plan | dgxspark.fabric.perftest_job(inventory_hostname, hostvars, ansible_play_hosts, run=load_test_name) }}"
  become: true
  register: started

- name: Fetch the results
  dgxspark.fabric.perftest_collect:
    started: "{{ started }}"
  become: true
"""

RETURN = r"""
run:
  description: Name of the run.
  returned: always
  type: str
status:
  description: V(running), or V(not_started) when the control port could not be opened; RV(msg) says why.
  returned: when not in check mode
  type: str
folder:
  description: Folder on the node that holds progress and results.
  returned: when not in check mode
  type: str
pid:
  description: Process id of the job.
  returned: when it runs
  type: int
identity:
  description: Start time of the process in clock ticks since boot, which tells it from a later process with the same id.
  returned: when it runs
  type: str
deadline_seconds:
  description: Seconds after which the job ends whatever happens.
  returned: when not in check mode
  type: float
msg:
  description: Why nothing was started.
  returned: when nothing was started
  type: str
"""

import json
import os
import pathlib
from collections.abc import Callable

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgxspark.fabric.plugins.module_utils.detach import detach
from ansible_collections.dgxspark.fabric.plugins.module_utils.job_state import DEFAULT_DIRECTORY, LOG
from ansible_collections.dgxspark.fabric.plugins.module_utils.perftest_job import Machine, PerftestJob
from ansible_collections.dgxspark.fabric.plugins.module_utils.perftest_spec import JobInputError, JobSpec, parse_job
from ansible_collections.dgxspark.fabric.plugins.module_utils.tool_process import process_identity

#: Seconds beyond its own deadline after which a job is ended by its alarm.
ALARM_MARGIN = 60


def work(job: JobSpec, directory: pathlib.Path) -> Callable[[Callable[[str], None]], None]:
    """Return the body of the detached process: open, report, measure."""

    def body(report: Callable[[str], None]) -> None:
        try:
            perftest = PerftestJob(job, Machine(directory=directory))
            perftest.open()
        except OSError as error:
            report(json.dumps({"error": str(error)}))
            return
        report(json.dumps({"pid": os.getpid(), "identity": process_identity(os.getpid())}))
        perftest.run()

    return body


def main() -> None:
    """Check the job, start it detached, return."""
    module = AnsibleModule(
        argument_spec={"job": {"type": "dict", "required": True}, "state_directory": {"type": "path", "default": DEFAULT_DIRECTORY}},
        supports_check_mode=True)
    try:
        job = parse_job(module.params["job"])
    except JobInputError as error:
        module.fail_json(msg=f"the job cannot be done: {error}")
    if module.check_mode:
        module.exit_json(changed=False, skipped=True, run=job.run, msg="load tests are not run in check mode")
    directory = pathlib.Path(module.params["state_directory"])
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        module.fail_json(msg=f"{directory} cannot be made on {job.node}: {error}; the module needs root (become: true)")
    result = {"changed": False, "run": job.run, "folder": str(directory / job.run), "deadline_seconds": job.deadline}
    answer = detach(work(job, directory), str(directory / LOG), job.deadline + ALARM_MARGIN)
    try:
        report = json.loads(answer)
    except ValueError:
        module.fail_json(msg=f"the job on {job.node} ended at once; {directory / LOG} there may say why", **result)
    if "error" in report:
        module.exit_json(
            status="not_started", **result,
            msg=f"the control port {job.control_port} (fabric_control_port) cannot be opened on {job.control_address} of {job.node}: {report['error']}")
    module.exit_json(status="running", pid=report["pid"], identity=report["identity"], **result)


if __name__ == "__main__":
    main()
