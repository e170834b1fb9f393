#!/usr/bin/python
# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: netplan
short_description: Keeps one netplan file and the live state of the fabric interfaces as planned
version_added: "0.1.0"
author:
  - dgxspark.fabric contributors (@dgxspark)
description:
  - Manages one netplan file for the fabric interfaces of a node, and the ARP settings that keep the two rails of a cable apart.
  - In O(phase=validate) nothing is written. All reasons not to apply are reported at once; a copy of the node's whole netplan
    configuration with the planned file must give exactly the plan, and leave every other interface unchanged.
  - In O(phase=apply) the file is written and applied where anything differs, in the file or live. A timer and a unit for the next boot
    take the change back unless the live state is reached, the management address is there, and (with O(confirm_seconds)) the
    controller confirms.
  - In O(phase=confirm) the change is kept, the timer is stopped.
  - Links without a signal are reported in RV(drift); no change on the node can mend them.
options:
  phase:
    description: What to do.
    type: str
    choices: [validate, apply, confirm]
    required: true
  node:
    description: Name of the node, for messages and the drift list.
    type: str
    default: ""
  content:
    description: The text of the netplan file. Required except for O(phase=confirm).
    type: str
  path:
    description: The managed netplan file.
    type: path
    default: /etc/netplan/40-cx7.yaml
  interfaces:
    description:
      - The planned interfaces that the file defines. Each has C(name), C(mtu), and C(address) with C(prefix), or V(null) for
        none; C(rdma_device) names the RDMA device whose GID table must hold the address. Entries with C(managed) V(false) are left alone.
      - Other keys are ignored, so that a plan's interfaces can be passed as they are.
    type: list
    elements: dict
    default: []
  arp:
    description: Whether to keep C(arp_ignore) at 1 and C(arp_announce) at 2 on the planned interfaces.
    type: bool
    default: true
  sysctl_path:
    description: The file that keeps the ARP settings over a reboot.
    type: path
    default: /etc/sysctl.d/60-dgxspark-fabric.conf
  management_interface:
    description: The interface that the node is managed by. It must not be in the plan.
    type: str
  management_address:
    description: The address on O(management_interface) that must be there after the change.
    type: str
  networks:
    description:
      - Every network of the plan, on any node. None of them may be in use on an interface outside the plan.
    type: list
    elements: str
    default: []
  foreign:
    description:
      - What to do with settings of others for the planned interfaces, in netplan files, NetworkManager profiles, files of systemd-networkd, or set at
        runtime (as long as this node was not provisioned yet).
      - V(refuse) stops, names each file and key, the tool that is known to write it, and what adopting would do.
      - V(adopt) moves exactly the definitions of planned interfaces away, leaves the rest of each file as it is, and keeps the files byte for byte in
        C(/var/lib/dgxspark-fabric/original), from where M(dgxspark.fabric.netplan_undo) brings them back.
      - V(ignore) allows definitions in other netplan files as long as the merged configuration is exactly the plan.
    type: str
    choices: [refuse, adopt, ignore]
    default: refuse
  force_busy:
    description: Whether to change a node on which programs use the RDMA devices of the plan.
    type: bool
    default: false
  timeout:
    description:
      - How many seconds the live state may take to be as planned, before everything is taken back.
      - With O(phase=confirm) how many seconds to wait for a change that is still on its way.
    type: int
    default: 90
  confirm_seconds:
    description: How many seconds the controller has to confirm a change (O(phase=confirm)), before it is taken back. V(0) needs no confirmation.
    type: int
    default: 0
  validated:
    description:
      - RV(validated) of O(phase=validate). When other netplan files changed since, they are looked at once more before anything is written.
    type: str
    default: ""
  token:
    description: Which change to confirm, from RV(token) of O(phase=apply). Without it, whichever waits.
    type: str
attributes:
  check_mode:
    description: Can run in check mode and return changed status prediction without modifying the node.
    support: full
  diff_mode:
    description: Returns what has changed, or would change, in files and in the live state.
    support: full
notes:
  - With O(phase=validate) in check mode, reasons not to apply are returned in RV(problems) and RV(drift), and the module does not fail.
"""

EXAMPLES = r"""
- name: Validate the planned file
  dgxspark.fabric.netplan:
    phase: validate
    node: "{{ inventory_hostname }}"
    content: "{{ lookup('ansible.builtin.template', '40-cx7.yaml.j2') }}"
    interfaces:
      - {name: enp1s0f0np0, address: 192.168.177.11, prefix: 24, mtu: 9000, rdma_device: rocep1s0f0}
    management_interface: enP7s7
    management_address: 10.77.0.11

- name: Apply it, and take it back if it is not confirmed within two minutes
  dgxspark.fabric.netplan:
    phase: apply
    node: "{{ inventory_hostname }}"
    content: "{{ lookup('ansible.builtin.template', '40-cx7.yaml.j2') }}"
    interfaces:
      - {name: enp1s0f0np0, address: 192.168.177.11, prefix: 24, mtu: 9000, rdma_device: rocep1s0f0}
    management_interface: enP7s7
    management_address: 10.77.0.11
    confirm_seconds: 120
  register: applied

- name: Keep it
  dgxspark.fabric.netplan:
    phase: confirm
    token: "{{ applied.token }}"
  when: applied.needs_confirm
"""

RETURN = r"""
problems:
  description: Every reason not to apply, each with C(id) and C(message).
  returned: with O(phase=validate)
  type: list
  elements: dict
foreign:
  description: Settings of others for the planned interfaces. C(where) is the file, C(layout) the known layout, C(message) says what conflicts.
  returned: with O(phase=validate)
  type: list
  elements: dict
would_change:
  description: Whether O(phase=apply) would change anything.
  returned: with O(phase=validate)
  type: bool
validated:
  description: Stands for the other netplan files as they were when they were validated, for O(validated) of O(phase=apply).
  returned: with O(phase=validate)
  type: str
drift:
  description: What deviates from the plan; after O(phase=apply) what still does.
  returned: always
  type: list
  elements: dict
  sample:
    - {host: spark1, subject: enp1s0f0np0, key: mtu, wanted: 9000, live: 1500, message: "spark1: enp1s0f0np0 has MTU 1500, the plan wants 9000"}
actions:
  description: What was done, in order.
  returned: with O(phase=apply)
  type: list
  elements: str
needs_confirm:
  description: Whether the change is taken back unless it is confirmed.
  returned: with O(phase=apply)
  type: bool
token:
  description: Names the change for O(phase=confirm).
  returned: with O(phase=apply)
  type: str
rolled_back:
  description: Whether the change was taken back.
  returned: on failure of O(phase=apply)
  type: bool
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.dgxspark.fabric.plugins.module_utils import arp_settings, live_state, managed_file, netplan_compare, netplan_drift
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import run
from ansible_collections.dgxspark.fabric.plugins.module_utils.dead_man import DeadMan, DeadManError
from ansible_collections.dgxspark.fabric.plugins.module_utils.foreign_settings import Survey
from ansible_collections.dgxspark.fabric.plugins.module_utils.managed_file import FileError
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_apply import MARGIN_SECONDS, Apply, Goal, NotReached
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_request import RequestError, request_of
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_sandbox import others_digest
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_validate import look_at_netplan, validate
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_verdict import Request, Verdict


class Refused(RuntimeError):
    """Something came in between validation and change; nothing was changed."""


def problem_text(request: Request, verdict: Verdict) -> str:
    """Return all problems as one message."""
    lines = "".join(f"\n  - {problem['message']}" for problem in verdict.problems)
    return f"{request.node or 'this node'} is not changed, because:{lines}"


def run_validate(module: AnsibleModule, request: Request, dead_man: DeadMan) -> None:
    """Report problems and differences; write nothing."""
    record = dead_man.record
    live = live_state.read(run, request.planned)
    comparison = netplan_compare.compare(request, live)
    current = comparison.files[0].state
    others = others_digest(request.path)
    known = record.known(current, request.content, others)
    verdict = validate(request, run, live, current, record.owned(current), comparison.would_change and not module.check_mode, known)
    if request.foreign == "adopt" and not verdict.problems:
        comparison = netplan_compare.compare(request, live, verdict.survey.edits)
    result: dict[str, t.Any] = {
        "problems": verdict.problems,
        "foreign": [{"where": item.where, "layout": item.layout.identifier, "interfaces": list(item.interfaces), "message": item.message}
                    for item in verdict.survey.foreign],
        "would_change": comparison.would_change,
        "validated": others,
        "drift": comparison.drift(request.node),
        "diff": comparison.diff() if module.check_mode else [],
    }
    result["drift"] += netplan_drift.not_lasting(request.node, request.planned, live, None if known else verdict.configured)
    result["drift"] += netplan_drift.renderers(request.node, live, record.renderers())
    result["drift"] += netplan_drift.put_aside(request.node, request.path)
    if dead_man.journal() is not None:
        # A run that was killed: applying completes it, or takes it back first.
        result["would_change"] = True
        result["drift"].append({"host": request.node, "subject": request.path, "key": "unconfirmed", "wanted": "confirmed", "live": "waiting",
                                "message": f"{request.node}: an earlier change was never confirmed; its timer takes it back unless a further run completes it"})
    for warning in verdict.warnings:
        module.warn(warning)
    if verdict.problems and not module.check_mode:
        module.fail_json(msg=problem_text(request, verdict), problems=verdict.problems)
    for problem in verdict.problems:
        result["drift"].append({"host": request.node, "subject": request.path, "key": problem["id"], "wanted": "none", "live": "refused",
                                "message": f"{request.node}: {problem['message']}"})
    module.exit_json(changed=bool(module.check_mode and comparison.would_change), **result)


def survey_now(request: Request, dead_man: DeadMan, live: t.Mapping[str, live_state.Live]) -> Survey:
    """Look at the settings of others right before writing: what adopting does to them, or whether one came since the validation.

    Raises:
        Refused: Something stands in the way that was not there at validation.
    """
    current = managed_file.read(request.path)
    others = others_digest(request.path)
    if dead_man.record.known(current, request.content, others) or (request.foreign != "adopt" and others == request.validated):
        return Survey()
    verdict = look_at_netplan(request, run, live, current, dead_man.record.owned(current))
    if verdict.problems:
        raise Refused("; ".join(problem["message"] for problem in verdict.problems))
    return verdict.survey if request.foreign == "adopt" else Survey()


def keep_waiting(dead_man: DeadMan, journal: t.Mapping[str, t.Any], request: Request) -> bool:
    """Return whether a change that a killed run left waits still to be confirmed, with its time begun anew."""
    try:
        return bool(journal.get("token")) and dead_man.extend(journal["token"], request.confirm_seconds + MARGIN_SECONDS)
    except DeadManError:
        return False


def run_apply(module: AnsibleModule, request: Request, dead_man: DeadMan) -> None:
    """Make the node as planned, or say what would be done."""
    if module.check_mode:
        live = live_state.read(run, request.planned)
        comparison = netplan_compare.compare(request, live, survey_now(request, dead_man, live).edits)
        module.exit_json(changed=comparison.would_change, drift=comparison.drift(request.node), diff=comparison.diff(), actions=[],
                         needs_confirm=False, token=None)
    with dead_man.alone(request.timeout):
        actions = []
        before = live_state.read(run, request.planned)
        comparison = netplan_compare.compare(request, before)
        journal = dead_man.journal()
        if journal is not None:
            if not comparison.would_change and journal.get("kind") != "undo" and keep_waiting(dead_man, journal, request):
                drift = comparison.drift(request.node)
                dead_man.note_reached(journal["token"], drift, others_digest(request.path), renderers_of(before))
                module.exit_json(changed=True, drift=drift, diff=[], actions=["found an earlier change as planned, to be confirmed"], needs_confirm=True,
                                 token=journal["token"])
            dead_man.roll_back()
            actions.append("took back an earlier change that was never confirmed")
            before = live_state.read(run, request.planned)
        survey = survey_now(request, dead_man, before)
        comparison = netplan_compare.compare(request, before, survey.edits)
        drift = comparison.drift(request.node)
        if not comparison.would_change:
            module.exit_json(changed=bool(actions), drift=drift, diff=[], actions=actions, needs_confirm=False, token=None)

        def missing(live: t.Mapping[str, live_state.Live]) -> netplan_compare.Comparison:
            return netplan_compare.compare(request, live, survey.edits)

        apply = Apply(request, run, dead_man, Goal(missing, survey.uppers))
        try:
            outcome = apply.perform(comparison, before)
        except NotReached as exc:
            module.fail_json(msg=f"{request.node or 'this node'}: {exc}", rolled_back=True, actions=actions + apply.outcome.actions,
                             drift=drift, diff=comparison.diff())
        after = live_state.read(run, request.planned)
        left = missing(after).drift(request.node)
        if outcome.token:
            dead_man.note_reached(outcome.token, left, others_digest(request.path), renderers_of(after))
            if not request.confirm_seconds:
                dead_man.confirm(outcome.token)
    module.exit_json(
        changed=True,
        drift=left,
        diff=comparison.diff(),
        actions=actions + outcome.actions,
        needs_confirm=bool(outcome.token and request.confirm_seconds),
        token=outcome.token,
        waited_seconds=outcome.waited_seconds,
    )


def renderers_of(live: t.Mapping[str, live_state.Live]) -> dict[str, str | None]:
    """Return who renders each interface now."""
    return {name: state.renderer for name, state in live.items()}


def run_confirm(module: AnsibleModule, dead_man: DeadMan) -> None:
    """Keep the change."""
    node = module.params["node"] or "this node"
    if module.check_mode:
        module.exit_json(changed=False)
    left = dead_man.confirm(module.params["token"] or None, float(module.params["timeout"]))
    if left is None:
        why = dead_man.why_rolled_back() or "the planned state was not reached or not confirmed in time"
        module.fail_json(msg=f"{node}: there is no change to confirm, it was taken back: {why}; the node is as it was before", rolled_back=True)
    # Without a token the connection was lost before the change could report itself.
    module.exit_json(changed=not module.params["token"], drift=left)


def main() -> None:
    """Read the options and run the phase."""
    module = AnsibleModule(
        argument_spec={
            "phase": {"type": "str", "choices": ["validate", "apply", "confirm"], "required": True},
            "node": {"type": "str", "default": ""},
            "content": {"type": "str"},
            "path": {"type": "path", "default": "/etc/netplan/40-cx7.yaml"},
            "interfaces": {"type": "list", "elements": "dict", "default": []},
            "arp": {"type": "bool", "default": True},
            "sysctl_path": {"type": "path", "default": arp_settings.DEFAULT_PATH},
            "management_interface": {"type": "str"},
            "management_address": {"type": "str"},
            "networks": {"type": "list", "elements": "str", "default": []},
            "foreign": {"type": "str", "choices": ["refuse", "adopt", "ignore"], "default": "refuse"},
            "force_busy": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 90},
            "confirm_seconds": {"type": "int", "default": 0},
            "validated": {"type": "str", "default": ""},
            "token": {"type": "str", "no_log": False},
        },
        required_if=[("phase", "validate", ("content", "interfaces")), ("phase", "apply", ("content", "interfaces"))],
        supports_check_mode=True,
    )
    dead_man = DeadMan(run)
    try:
        if module.params["phase"] == "confirm":
            run_confirm(module, dead_man)
        request = request_of(module.params)
        if module.params["phase"] == "validate":
            run_validate(module, request, dead_man)
        run_apply(module, request, dead_man)
    except (RequestError, FileError, DeadManError, Refused, live_state.LiveStateError) as exc:
        module.fail_json(msg=f"{module.params['node'] or 'this node'}: {exc}")


if __name__ == "__main__":
    main()
