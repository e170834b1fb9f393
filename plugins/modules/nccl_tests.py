#!/usr/bin/python
# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_tests
short_description: Start nccl-tests over the nodes of the fabric, in the plan's rank order
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Starts a job on the launching node and returns at once. The job goes on when the connection is lost, keeps its results below O(state_directory),
    and ends by itself at its deadline, together with everything that it started on any node.
  - The job refuses what is known to fail (a rank order without cables, a rendezvous on the fabric of a mesh or ring, an NCCL that is too old), looks at
    every node from inside a launch by C(mpirun) (Open MPI 4 or 5), then runs C(all_reduce_perf) and its kin. Each rank runs under the environment that is
    installed on its node, or the plan's, and writes NCCL's log to a file of its own.
  - With an image in the job, the programs run in containers of it, one for each rank, which are removed with the rank. The image is looked into from inside
    and compared with its host in NCCL, what that knows, C(nccl.conf), locked memory, C(/dev/infiniband). It is pulled only when the job says so.
  - Byte counters and GID tables are read on every node before and after each run.
  - The job comes from the filter P(dgxspark.fabric.nccl_job#filter). The results are fetched by M(dgxspark.fabric.nccl_tests_collect).
options:
  job:
    description:
      - The job, as the filter P(dgxspark.fabric.nccl_job#filter) returns it.
    type: dict
    required: true
  state_directory:
    description:
      - Where the job keeps progress and results on the launching node, in a folder for each run. Folders of earlier runs are removed.
    type: path
    default: /run/dgxspark-fabric-nccl
attributes:
  check_mode:
    description: Can run in check mode. A test is not a prediction, so it is skipped there, with what would be run.
    support: full
  diff_mode:
    description: Shows what a change would be.
    support: none
notes:
  - Run it on one node, the first of the rank order. Needs root there, to launch as the job's user and to keep results out of reach of others.
  - The user must be able to ssh to every node without a question, host keys included; they are checked as ever.
  - Needs C(python3) on every node, on the host also where the tests run in an image, and docker or podman then.
seealso:
  - module: dgxspark.fabric.nccl_tests_collect
"""

EXAMPLES = r"""
- name: Start nccl-tests
  dgxspark.fabric.nccl_tests:
    job: "{{ fabric_plan | dgxspark.fabric.nccl_job(hostvars, ansible_play_hosts, run=test_name) }}"
  become: true
  register: started
  when: inventory_hostname == fabric_plan.rank_order | first

- name: Fetch the results
  dgxspark.fabric.nccl_tests_collect:
    started: "{{ started }}"
  become: true
"""

RETURN = r"""
run:
  description: Name of the run.
  returned: always
  type: str
status:
  description: V(running).
  returned: when it was started
  type: str
folder:
  description: Folder on the node that holds progress, results and NCCL's logs.
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

import inspect
import json
import os
import pathlib
import pwd
from collections.abc import Callable

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgxspark.fabric.plugins.module_utils import nccl_container, nccl_rank
from ansible_collections.dgxspark.fabric.plugins.module_utils.detach import detach
from ansible_collections.dgxspark.fabric.plugins.module_utils.job_state import LOG
from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_job import Machine, NcclTests
from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_job_spec import JobInputError, NcclJob, parse_job
from ansible_collections.dgxspark.fabric.plugins.module_utils.tool_process import process_identity

DEFAULT_DIRECTORY = "/run/dgxspark-fabric-nccl"
#: Seconds beyond its own deadline after which a job is ended by its alarm.
ALARM_MARGIN = 60


def work(job: NcclJob, machine: Machine) -> Callable[[Callable[[str], None]], None]:
    """Return the body of the detached process: open, report, test."""

    def body(report: Callable[[str], None]) -> None:
        try:
            tests = NcclTests(job, machine)
            tests.open()
        except OSError as error:
            report(json.dumps({"error": str(error)}))
            return
        report(json.dumps({"pid": os.getpid(), "identity": process_identity(os.getpid())}))
        tests.run()

    return body


def would(job: NcclJob) -> str:
    """Return what a run would do, in words."""
    names = ", ".join(dict.fromkeys(test.collective for test in job.tests)) or "nothing"
    text = f"it would run {names} over {', '.join(job.order)}"
    if job.container is None:
        return text
    pull = f"pulled where it is missing, for {job.container.pull_seconds:g} s at most" if job.container.pull else "which is not pulled"
    return f"{text} in containers of {job.container.image} by {job.container.engine or 'docker or podman'}, {pull}"


def main() -> None:
    """Check the job, start it detached, return."""
    module = AnsibleModule(
        argument_spec={"job": {"type": "dict", "required": True}, "state_directory": {"type": "path", "default": DEFAULT_DIRECTORY}},
        supports_check_mode=True)
    try:
        job = parse_job(module.params["job"])
        if job.user:
            pwd.getpwnam(job.user)
    except JobInputError as error:
        module.fail_json(msg=f"the job cannot be done: {error}")
    except KeyError:
        module.fail_json(msg=f"there is no user {job.user} on {job.node}: set fabric_ssh_user to the user that may ssh between the nodes")
    if module.check_mode:
        module.exit_json(changed=False, skipped=True, run=job.run, msg=f"nccl-tests is not run in check mode; {would(job)}")
    directory = pathlib.Path(module.params["state_directory"])
    try:
        directory.mkdir(mode=0o711, parents=True, exist_ok=True)
    except OSError as error:
        module.fail_json(msg=f"{directory} cannot be made on {job.node}: {error}; the module needs root (become: true)")
    result = {"changed": False, "run": job.run, "folder": str(directory / job.run), "deadline_seconds": job.deadline}
    # Read before the process is detached: the archive that this module came in is gone afterwards.
    machine = Machine(directory, inspect.getsource(nccl_rank), container_source=inspect.getsource(nccl_container))
    answer = detach(work(job, machine), str(directory / LOG), job.deadline + ALARM_MARGIN)
    try:
        report = json.loads(answer)
    except ValueError:
        module.fail_json(msg=f"the job on {job.node} ended at once; {directory / LOG} there may say why", **result)
    if "error" in report:
        module.fail_json(msg=f"the job cannot keep its state below {directory} on {job.node}: {report['error']}", **result)
    module.exit_json(status="running", pid=report["pid"], identity=report["identity"], **result)


if __name__ == "__main__":
    main()
