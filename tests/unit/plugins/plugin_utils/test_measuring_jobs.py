# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Jobs and targets of the nodes from a plan and what was observed; and what the controller sees of a running job."""

from __future__ import annotations

import copy
import json
import subprocess
import typing as t
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.module_utils import perftest_spec, tool_process
from ansible_collections.dgxspark.fabric.plugins.plugin_utils import job_progress
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.path_targets import make_targets
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.perftest_jobs import make_job, start_skew
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan import make_plan
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.seen_nodes import SeenInterface, SeenNode, seen_nodes

NAMES = ["spark1", "spark2", "spark3"]
PLAN = make_plan({name: {"fabric_cluster_name": "lab", "fabric_topology": "mesh", "ansible_host": f"10.77.0.1{name[-1]}"} for name in NAMES})


def observed() -> dict[str, dict[str, t.Any]]:
    """Return the variables of healthy hosts."""
    hosts = {}
    for number, name in enumerate(NAMES, 1):
        interfaces = {
            key: {"mac": f"52:54:00:0{number}:00:0{index}", "carrier": True, "admin_up": True, "addresses": [f"{value['address']}/24"]}
            for index, (key, value) in enumerate(PLAN["nodes"][name]["interfaces"].items())}
        hosts[name] = {"fabric_node": {"management": {"address": f"10.77.0.2{number}"}, "interfaces": interfaces}}
    return hosts


def job_of(name: str, hosts: dict[str, dict[str, t.Any]], names: list[str]) -> dict[str, t.Any]:
    """Return the job of a host."""
    return make_job(PLAN, name, seen_nodes(hosts, names), "run-123", 30)


def test_jobs_of_a_healthy_mesh_hold_every_test_twice() -> None:
    jobs = {name: job_of(name, observed(), NAMES) for name in NAMES}
    for test in PLAN["tests"] + PLAN["further_tests"]:
        ends = {name: next((one for one in job["tests"] if one["id"] == test["id"]), None) for name, job in jobs.items()}
        client, server = ends[test["client"]], ends[test["server"]]
        assert (client["role"], client["peer"], server["role"], server["peer"]) == ("client", test["server"], "server", test["client"])
        assert client["server_address"] == server["server_address"] == f"10.77.0.2{test['server'][-1]}"  # as observed, not as planned
        assert (client["device"], server["device"]) == (test["client_device"], test["server_device"])
        assert client["address"] == server["peer_address"] == test["client_address"]
        assert sum(end is not None for end in ends.values()) == 2
    for job in jobs.values():
        assert not job["in_step"]
        parsed = perftest_spec.parse_job(json.loads(json.dumps(job)))
        assert (parsed.rounds, parsed.not_run) == (PLAN["rounds"] + PLAN["further_rounds"], ())
        assert Counter(test.stage for test in parsed.tests) == {
            "directed": 8, "bidirectional": 4, "write_latency": 4, "send_latency": 4, "read": 8, "send": 8, "tcp": 48}


@pytest.mark.parametrize(("change", "error"), [
    (lambda hosts: hosts["spark3"].pop("fabric_node"), "not_observed"),
    (lambda hosts: hosts["spark3"].update(fabric_lost="no answer"), "not_observed"),
    (lambda hosts: hosts.pop("spark3"), "not_observed"),
    (lambda hosts: hosts["spark3"]["fabric_node"].update(management=None), "no_management"),
    (lambda hosts: [one.update(carrier=False) for one in hosts["spark3"]["fabric_node"]["interfaces"].values()], "link_down"),
    (lambda hosts: [one.update(admin_up=False) for one in hosts["spark3"]["fabric_node"]["interfaces"].values()], "link_down"),
    (lambda hosts: [one.update(addresses=["10.9.9.9/24"]) for one in hosts["spark3"]["fabric_node"]["interfaces"].values()], "address_missing"),
    (lambda hosts: hosts["spark3"]["fabric_node"]["interfaces"].clear(), "interface_missing"),
])
def test_tests_that_cannot_be_run_are_left_out_with_the_reason(change: t.Callable[[t.Any], t.Any], error: str) -> None:
    hosts = observed()
    change(hosts)
    job = job_of("spark1", hosts, NAMES)
    assert {test["peer"] for test in job["tests"]} == {"spark2"}
    assert {test["concurrent"] for test in job["tests"] if test["round"] == 0} == {2}
    assert {(record["peer"], record["error"]) for record in job["not_run"]} == {("spark3", error)}
    assert all("spark3" in record["message"] for record in job["not_run"])
    perftest_spec.parse_job(job)


def test_a_limit_on_tests_at_once_makes_the_nodes_keep_step() -> None:
    hosts = {f"s{number}": {"fabric_topology": "ring", "ansible_host": f"10.77.0.1{number}", "fabric_max_concurrent_tests": 2} for number in range(1, 6)}
    plan = make_plan({name: {**variables, "fabric_cluster_name": "lab"} for name, variables in hosts.items()})
    seen = {name: SeenNode(name, f"10.77.0.2{name[-1]}", {
        key: SeenInterface(None, (value["address"],), True) for key, value in plan["nodes"][name]["interfaces"].items()}) for name in hosts}
    job = make_job(plan, "s1", seen, "run-123", 30)
    assert job["in_step"] and set(job["peers"]) == {"s2", "s3", "s4", "s5"}
    assert perftest_spec.parse_job(job).in_step


def test_limit_leaves_the_others_out() -> None:
    assert set(job_of("spark1", observed(), ["spark1", "spark2"])["peers"]) == {"spark2"}


def test_a_node_that_was_not_observed_gets_no_job() -> None:
    with pytest.raises(FabricError, match="spark1 was not observed"):
        job_of("spark1", {}, NAMES)
    with pytest.raises(FabricError, match="not in the plan"):
        job_of("spark9", observed(), NAMES)
    with pytest.raises(FabricError, match="hostvars"):
        seen_nodes([], NAMES)  # type: ignore[arg-type]


def test_skew_follows_from_forks() -> None:
    assert start_skew(3, 1) == start_skew(3, 3) + 20
    assert start_skew(64, 0) > start_skew(64, 5)


def test_targets_of_the_paths() -> None:
    targets = make_targets(PLAN, "spark1", seen_nodes(observed(), NAMES))
    assert len(targets) == 4
    for target in targets:
        peer = PLAN["nodes"][target["peer_node"]]["interfaces"][target["peer_interface"]]
        assert (target["peer_address"], target["segment"], target["mtu"]) == (peer["address"], peer["segment"], 9000)
        assert target["expected_mac"].startswith(f"52:54:00:0{target['peer_node'][-1]}")
    hosts = observed()
    hosts["spark3"]["fabric_lost"] = "no answer"
    assert {target["peer_node"] for target in make_targets(PLAN, "spark1", seen_nodes(hosts, NAMES))} == {"spark2"}


def test_the_plan_is_not_touched() -> None:
    before = copy.deepcopy(PLAN)
    job_of("spark1", observed(), NAMES)
    make_targets(PLAN, "spark1", seen_nodes(observed(), NAMES))
    assert before == PLAN


def look(folder: str, pid: int, identity: str, everything: bool = False) -> job_progress.Look:
    """Look at a job with a real shell."""
    answer = subprocess.run(["sh", "-c", job_progress.look_command(folder, pid, everything)], check=False, capture_output=True, text=True).stdout
    found = job_progress.read_look(answer, identity)
    assert found is not None
    return found


def test_looks_at_a_job(tmp_path: t.Any) -> None:
    folder = tmp_path / "it's a run"
    folder.mkdir()
    with subprocess.Popen(["sleep", "20"]) as process:
        identity = tool_process.process_identity(process.pid)
        first = look(str(folder), process.pid, identity)
        assert (first.progress, first.result, first.alive, first.over) == (None, None, True, False)
        (folder / "result.json").write_text('{"status": "running", "tests": [{"id": "a"}]}')
        (folder / "progress.json").write_text('{"status": "running", "round": 2, "rounds": 5, "running": 6, "seconds_left": 24.6}')
        running = look(str(folder), process.pid, identity)
        assert (running.result, running.alive, running.over) == (None, True, False)
        assert job_progress.progress_line(running.progress) == "round 2 of 5, 6 tests running, about 25 s left"
        named = {**running.progress, "what": "directed, tcp"}
        assert job_progress.progress_line(named) == "round 2 of 5 (RDMA writes one way, TCP), 6 tests running, about 25 s left"
        assert look(str(folder), process.pid, identity, True).result["tests"] == [{"id": "a"}]
        assert not look(str(folder), process.pid, "12").alive
        process.kill()
    assert not look(str(folder), process.pid, identity).alive
    (folder / "progress.json").write_text('{"status": "done"}')
    assert look(str(folder), process.pid, identity).over


@given(st.text())
def test_any_answer_is_read_or_not(answer: str) -> None:
    assert job_progress.read_look(answer, "1") is None or "@@" in answer


@pytest.mark.parametrize(("left", "quiet", "wanted"), [(60, True, 10), (60, False, 5), (4, True, 3), (0, True, 1), (3, False, 2)])
def test_looks_are_rare_while_tests_run(left: float, quiet: bool, wanted: float) -> None:
    assert job_progress.next_look({"seconds_left": left}, 5, quiet) == wanted
