# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Judge a run and write its report on the controller
version_added: "0.1.0"
author: dgxspark.fabric contributors (@dgxspark)
description:
  - Judges what was planned, observed and measured, and writes C(report.json), C(report.html), C(summary.md), C(junit.xml), C(fabric.prom),
    with O(scenarios) also C(scenarios.md), and for each host C(<host>.json) and C(<host>.html) into a folder of its own for each run.
  - Compares the run with the last good one and with a named baseline.
  - Passwords, tokens and keys are masked in every file.
  - Prints the summary for people, failures first, then one line for each cable and rail.
  - Runs wholly on the controller, as the user who runs Ansible. No host is connected to, so the task may run on a host that is down.
  - Never fails because of a bad verdict; look at RV(verdict) for that.
options:
  results:
    description: What was planned, observed and measured, as the filter P(dgxspark.fabric.results#filter) returns it.
    type: dict
  source:
    description:
      - A stored C(report.json), or the folder of a run, to be judged and rendered again.
      - Mutually exclusive with O(results), one of the two is required.
    type: path
  rules:
    description: Rules that add to or override those of the plan, by C(id); C(docs/checks.md) lists the rules and their fields.
    type: list
    elements: dict
    default: []
  dest:
    description:
      - With O(results), the folder of all reports, default V(reports); a run is written to C(<cluster>/<run id>) below it.
      - With O(source), the folder of the rendered files; by default they replace those beside the stored report.
      - A relative path starts at the current directory.
    type: path
  keep:
    description: How many runs of a cluster to keep, the new one included. Runs that the new one was compared with are kept beyond that number.
    type: int
    default: 20
  redact:
    description: Whether to replace MAC addresses, GUIDs and serial numbers by names such as C(mac-1), the same wherever one appears.
    type: bool
    default: false
  baseline:
    description:
      - A run to compare with, as a run id or as the path of a report or of its folder.
      - With O(results) it is added to the last good run; with O(source) it alone is compared with.
    type: str
  noise_percent:
    description: By how much two figures of one test may differ, in percent, where neither three good runs nor repeats within an earlier run tell its noise.
    type: float
    default: 10.0
  scenario:
    description:
      - What scenario the run belongs to, stored with it, C(name) (such as A), C(network), C(nodes) and C(notes). Such a run is never removed with the old ones.
      - With O(source) it names a stored run afterwards.
    type: dict
    default: {}
  scenarios:
    description:
      - Scenarios for the table, each with C(name) and C(run) (run id or path). Without C(run) the newest stored run of that name counts,
        without C(name) that of the run.
      - Inference is shown under conditions that all scenarios share; where they share none, the error names what differs.
      - An entry may state C(network), C(nodes), C(nccl), C(inference) and C(p95) itself, for what was measured elsewhere.
    type: list
    elements: dict
    default: []
  inference:
    description: Runs of inference measured elsewhere, added to those of C(fabric_inference); C(docs/verdict.md) describes a run.
    type: list
    elements: dict
    default: []
  measured_inference:
    description:
      - C(fabric_inference) by host, measured after the run was stored. Its runs are added to those that the host had; one under the same conditions,
        on as many nodes at the same link speed, is replaced.
      - Only with O(source).
    type: dict
    default: {}
  bottleneck:
    description: Whether to say what limits inference where nothing but RDMA was measured, too. Else it is said where NCCL or inference was measured.
    type: bool
    default: false
  started:
    description: When the run began, ISO 8601 in UTC. By default the time of the report.
    type: str
  show:
    description: Whether to print the summary.
    type: bool
    default: true
attributes:
  action:
    description: Whether the module has an action plugin that runs on the controller.
    support: full
  check_mode:
    description: Can run in check mode. The report is written in check mode too, since it is no state of a node; it never counts as a change.
    support: full
  diff_mode:
    description: Can show the differences of the files.
    support: none
"""

EXAMPLES = r"""
- name: Judge the run and write the report
  dgxspark.fabric.report:
    results: "{{ hostvars | dgxspark.fabric.results(groups['spark'], tested=ansible_play_hosts_all) }}"
    dest: reports
  run_once: true

- name: Judge a stored run again, less strictly
  dgxspark.fabric.report:
    source: reports/lab/latest
    dest: /tmp/again
    rules:
      - id: rdma.rail_bandwidth
        warn: 80
        fail: 60

- name: Compare two stored runs
  dgxspark.fabric.report:
    source: reports/lab/latest
    baseline: 20261130T221500Z-ab12
"""

RETURN = r"""
report:
  description: The folder of the report's files, as an absolute path.
  returned: success
  type: str
run_id:
  description: Name of the run.
  returned: success
  type: str
verdict:
  description: The verdict, that is C(status) (V(pass) or V(fail)), C(counts) of the findings by status, and a C(message).
  returned: success
  type: dict
summary:
  description: The summary for people, line by line.
  returned: success
  type: list
  elements: str
comparison:
  description: What changed against other runs; C(docs/report.schema.json) describes it.
  returned: success
  type: list
  elements: dict
cables:
  description: Status of every cable by its name.
  returned: success
  type: dict
"""
