#!/usr/bin/python
# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: inference_bench
short_description: Start measuring an OpenAI-compatible endpoint with a load generator
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Starts a job that looks at the endpoint, gets the load generator C(aiperf) in a virtual environment of its own, and runs it at each concurrency.
    The module returns at once. The job goes on when the connection is lost, keeps its results below O(state_directory), and ends by itself at its
    deadline, together with everything that it started.
  - An endpoint that refuses, answers with errors, stalls or breaks its streams off is told before anything is installed and any load is made.
  - The job comes from the filter P(dgxspark.fabric.inference_job#filter). The results are fetched by M(dgxspark.fabric.inference_bench_collect).
options:
  job:
    description:
      - The job, as the filter P(dgxspark.fabric.inference_job#filter) returns it.
    type: dict
    required: true
  api_key:
    description:
      - Key that the endpoint wants. It reaches the load generator in its environment, and stands in no result.
    type: str
  state_directory:
    description:
      - Where the job keeps progress and results, in a folder for each run. Folders of earlier runs are removed, and what still runs of them is ended.
    type: path
    default: ~/.cache/dgxspark-fabric/inference
attributes:
  check_mode:
    description: Can run in check mode. A load is not a prediction, so it is skipped there, with what would be run.
    support: full
  diff_mode:
    description: Shows what a change would be.
    support: none
notes:
  - Run it on one machine, a node or the controller. Needs no root, and should not have it, since the load generator brings many packages.
  - Needs Python 3.11 to 3.13 with C(venv), and a package index, unless the job names an installed C(aiperf).
seealso:
  - module: dgxspark.fabric.inference_bench_collect
  - module: dgxspark.fabric.inference_import
"""

EXAMPLES = r"""
- name: Start the load
  dgxspark.fabric.inference_bench:
    job: "{{ options | dgxspark.fabric.inference_job(inventory_hostname, run='20261201T120000Z-ab12', nodes=2, link_gbps=200) }}"
  register: started
  vars:
    options:
      url: http://192.168.1.10:8000
      quantisation: fp8
      input_tokens: 1024

- name: Fetch the results
  dgxspark.fabric.inference_bench_collect:
    started: "{{ started }}"
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
  description: Folder that holds progress and results.
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
from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_job import InferenceBench, Machine
from ansible_collections.dgxspark.fabric.plugins.module_utils.inference_job_spec import InferenceJob, JobInputError, parse_job
from ansible_collections.dgxspark.fabric.plugins.module_utils.job_state import LOG
from ansible_collections.dgxspark.fabric.plugins.module_utils.tool_process import process_identity

DEFAULT_DIRECTORY = "~/.cache/dgxspark-fabric/inference"
#: Seconds beyond its own deadline after which a job is ended by its alarm.
ALARM_MARGIN = 60


def work(job: InferenceJob, machine: Machine) -> Callable[[Callable[[str], None]], None]:
    """Return the body of the detached process: open, report, measure."""

    def body(report: Callable[[str], None]) -> None:
        try:
            bench = InferenceBench(job, machine)
            bench.open()
        except OSError as error:
            report(json.dumps({"error": str(error)}))
            return
        report(json.dumps({"pid": os.getpid(), "identity": process_identity(os.getpid())}))
        bench.run()

    return body


def would(job: InferenceJob) -> str:
    """Return what a run would do, in words."""
    levels = ", ".join(str(level) for level in job.concurrency)
    return (f"it would ask {job.endpoint.url} for {job.requests} answers of {job.output_tokens} tokens to {job.input_tokens} tokens, {levels} at once, "
            f"by {job.program or f'aiperf {job.version} in {job.environment}'}")


def main() -> None:
    """Check the job, start it detached, return."""
    module = AnsibleModule(
        argument_spec={
            "job": {"type": "dict", "required": True}, "api_key": {"type": "str", "no_log": True},
            "state_directory": {"type": "path", "default": DEFAULT_DIRECTORY}},
        supports_check_mode=True)
    try:
        job = parse_job({**module.params["job"], "api_key": module.params["api_key"] or ""})
    except JobInputError as error:
        module.fail_json(msg=f"the job cannot be done: {error}")
    if module.check_mode:
        module.exit_json(changed=False, skipped=True, run=job.run, msg=f"inference is not measured in check mode; {would(job)}")
    directory = pathlib.Path(module.params["state_directory"])
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        module.fail_json(msg=f"{directory} cannot be made on {job.node}: {error}; set inference_bench_state_directory to a folder of the connecting user")
    result = {"changed": False, "run": job.run, "folder": str(directory / job.run), "deadline_seconds": job.deadline}
    answer = detach(work(job, Machine(directory)), str(directory / LOG), job.deadline + ALARM_MARGIN)
    try:
        report = json.loads(answer)
    except ValueError:
        module.fail_json(msg=f"the job on {job.node} ended at once; {directory / LOG} there may say why", **result)
    if "error" in report:
        module.fail_json(msg=f"the job cannot keep its state below {directory} on {job.node}: {report['error']}", **result)
    module.exit_json(status="running", pid=report["pid"], identity=report["identity"], **result)


if __name__ == "__main__":
    main()
