# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs of real NCCL that tests/gpu/run recorded over namespaces, good ones and broken ones: read to the printed values, judged with their cause."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from ansible_collections.dgxspark.fabric.plugins.module_utils import nccl_tests_output
from ansible_collections.dgxspark.fabric.plugins.module_utils.nccl_proof import digest
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.judge import judge
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.nccl_transport import prove
from ansible_collections.dgxspark.fabric.tests.unit.plugins.plugin_utils import healthy

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "nccl"
NODES = ["spark1", "spark2", "spark3", "spark4"]
FAILURES: dict[str, dict[str, Any]] = json.loads((FIXTURES / "failures-2-nodes.json").read_text(encoding="utf-8"))


def text(name: str) -> str:
    """Return a recorded text."""
    return (FIXTURES / name).read_text(encoding="utf-8")


def numbers(row: nccl_tests_output.Row) -> list[float | None]:
    """Return the figures of a row in the order in which they are printed."""
    places = (row.out_of_place, row.in_place)
    return [row.size_bytes, *(value for place in places for value in (place.time_us, place.algbw_gbytes_per_s, place.busbw_gbytes_per_s, place.wrong))]


@pytest.mark.parametrize(
    ("collective", "largest", "average"),
    [
        ("all_reduce", (67108864, 108807, 0.93, 109604, 0.92), 0.234978),
        ("all_gather", (67108864, 58322.1, 0.86, 57716.3, 0.87), 0.279813),
    ],
)
def test_four_ranks_are_read_to_the_printed_values(collective: str, largest: tuple[float, ...], average: float) -> None:
    content = text(f"{collective}-4-ranks.txt")
    (run,) = nccl_tests_output.parse(content)
    printed = [line.split() for line in content.splitlines() if line[:1] == " " and line.split()[:1] and line.split()[0].isdigit()]
    assert (run.collective, run.version, run.ranks, run.concluded, run.out_of_bounds) == (f"{collective}_perf", "2.19.6", 4, True, 0)
    assert [device.host for device in run.devices] == NODES
    assert [numbers(row) for row in run.rows] == [[float(token) for token in [tokens[0], *tokens[5:13]]] for tokens in printed]
    row = run.rows[-1]
    assert (row.size_bytes, row.out_of_place.time_us, row.out_of_place.busbw_gbytes_per_s, row.in_place.time_us, row.in_place.busbw_gbytes_per_s) == largest
    assert run.average_gbytes_per_s == average


@pytest.mark.parametrize("rank", range(4))
def test_the_log_of_each_rank_says_that_it_fell_back_to_sockets(rank: int) -> None:
    record = digest(text(f"fallback-4-nodes.rank{rank}.log"))
    assert record is not None
    assert (record["rank"], record["ranks"], record["host"], record["version"]) == (rank, 4, NODES[rank], "2.28.9")
    assert record["networks"] == ["Socket"] and record["no_device"] and not record["devices"] and record["bootstrap"] == "enP7s7"
    ends = {(one["source"], one["target"], one["way"], one["via"], one["channels"]) for one in record["channels"]}
    assert ends == {(rank, (rank + 1) % 4, "send", "NET/Socket", 2), ((rank - 1) % 4, rank, "receive", "NET/Socket", 2)}
    assert record["rings_connected"] and record["init_complete"] and not record["warnings"]


def test_what_the_four_ranks_say_is_no_proof_of_the_fabric_and_one_of_sockets() -> None:
    records = [
        {
            "node": node,
            "exit_code": 0,
            "gids_changed": [],
            "bytes": {"devices": {}, "interfaces": {}},
            "ended": [],
            "log": digest(text(f"fallback-4-nodes.rank{rank}.log")),
        }
        for rank, node in enumerate(NODES)
    ]
    run = {"id": "all_reduce-all", "nodes": NODES, "rank_records": records, "status": "ok"}
    assert prove(healthy.plan_of("switch", 4), run).other_network == [f"{node} used Socket (it found no RDMA device)" for node in NODES]
    sockets = prove(healthy.plan_of("switch", 4, fabric_nccl_environment={"NCCL_NET": "Socket"}), run)
    assert not sockets.other_network and not sockets.silent and sockets.proven


# what was done to the run, the finding that fails, words of its message, words of its cause, words of its fix
CAUSES = [
    ("net-ib", "nccl.ran", "exit status 3; ranks: spark1 3, spark2 3", "no RDMA device is usable", "/dev/infiniband"),
    ("no-interface", "nccl.ran", "ranks: spark1 3, spark2 143", "No interface of this node has the name in NCCL_SOCKET_IFNAME", "ip -br addr"),
    ("same-host", "nccl.ran", "invalid usage", "Two ranks use one GPU", "NCCL_HOSTID"),
    ("deadline", "nccl.ran", "did not end within its deadline", "takes longer than nccl_tests_test_seconds", "raise nccl_tests_test_seconds"),
    ("node-dies", "nccl.ran", "spark2 gave no answer", "A node went down", "management addresses"),
    ("other-version", "nccl.launch", "spark1 has 2.28.9, spark2 has 9.28.9.", "do not have what a launch", "the same NCCL on every node"),
    ("broken-ssh", "nccl.launch", "root@10.99.77.2: Permission denied", "not in the other's authorized_keys", "BatchMode"),
]


@pytest.mark.parametrize(("case", "rule", "message", "cause", "fix"), CAUSES, ids=[row[0] for row in CAUSES])
def test_broken_runs_tell_their_cause(case: str, rule: str, message: str, cause: str, fix: str) -> None:
    plan = healthy.plan_of("switch", 2, fabric_nccl_environment={"NCCL_NET": "IB" if case == "net-ib" else "Socket"})
    data = {**healthy.healthy_run(plan), "nccl": {"spark1": FAILURES[case]}}
    failed = [one for one in judge(data)["findings"] if one["layer"] == "nccl" and one["status"] not in ("pass", "skip")]
    assert [(one["id"], one["status"]) for one in failed] == [(rule, "fail")]
    assert message in failed[0]["message"] and cause in failed[0]["cause"] and fix in failed[0]["fix"] and ".." not in failed[0]["message"]


def test_every_recorded_failure_is_judged() -> None:
    assert set(FAILURES) == {row[0] for row in CAUSES}
    assert not any(fact["left"] for fact in FAILURES.values())
