# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The job of a node: checks of its input, and the command lines made from it."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.module_utils import perftest_spec as spec
from ansible_collections.dgxspark.fabric.tests.unit.fuzzing import examples

TEST: dict[str, t.Any] = {
    "id": "r0-n1-n2-a", "round": 0, "role": "client", "peer": "n2", "tool": "ib_write_bw", "device": "rocep1s0f0", "interface": "enp1s0f0np0",
    "address": "192.168.177.11", "peer_address": "192.168.177.12", "server_address": "10.77.0.12", "port": 18600, "seconds": 5}
JOB: dict[str, t.Any] = {"run": "run-123", "node": "n1", "control_address": "10.77.0.11", "control_port": 18500,
                         "peers": {"n2": {"address": "10.77.0.12"}}, "tests": [TEST]}


def line(**changes: t.Any) -> str:
    """Return the command line of a changed test."""
    return " ".join(spec.command(spec.parse_job({**JOB, "tests": [{**TEST, **changes}]}).tests[0], "/usr/bin/ib_write_bw", 3))


def test_command_lines() -> None:
    base = "/usr/bin/ib_write_bw -d rocep1s0f0 -x 3 -p 18600 -D 5 --report_gbits -F -s 65536"
    assert line() == f"{base} 10.77.0.12"
    assert line(role="server") == base
    assert line(bidirectional=True, queue_pairs=4) == f"{base} -b -q 4 10.77.0.12"
    assert line(server_address="fd00::12") == f"{base} --ipv6-addr fd00::12"
    assert line(server_address="fd00::12", role="server") == f"{base} --ipv6-addr"
    assert line(size_bytes=1048576).endswith("-s 1048576 10.77.0.12")
    assert line(tool="ib_write_lat") == "/usr/bin/ib_write_bw -d rocep1s0f0 -x 3 -p 18600 -n 1000 -F -s 2 10.77.0.12"


@pytest.mark.parametrize(("where", "value", "words"), [
    ("run", "../x", "run name"), ("run", "", "text is expected"), ("control_port", 0, "integer from 1"), ("control_port", "18500", "integer"),
    ("peers", [], "mapping"),
    ("tests", {}, "list"), ("tests", [5], "mapping"), ("tests", [{**TEST, "role": "both"}], "client or server"),
    ("tests", [{**TEST, "tool": "rm"}], "expected one of"),
    ("tests", [{**TEST, "peer": "n3"}], "not in job.peers"), ("tests", [TEST, TEST], "twice"), ("tests", [{**TEST, "device": "--help"}], "option"),
    ("tests", [{**TEST, "seconds": True}], "integer"), ("start_skew_seconds", -1, "seconds"), ("not_run", [{}], "id"),
])
def test_what_is_wrong_is_named(where: str, value: object, words: str) -> None:
    with pytest.raises(spec.JobInputError, match=words):
        spec.parse_job({**JOB, where: value})


def test_deadline_covers_every_round_hanging() -> None:
    job = spec.parse_job({**JOB, "rounds": 5, "start_skew_seconds": 30, "grace_seconds": 15})
    assert job.deadline >= 30 + 5 * (5 + 15)
    assert spec.parse_job({**JOB, "deadline_seconds": 12}).deadline == 12


@examples(200)
@given(st.dictionaries(st.sampled_from([*JOB, "rounds", "not_run"]), st.one_of(st.none(), st.integers(), st.text(max_size=8), st.lists(
    st.dictionaries(st.sampled_from(list(TEST)), st.one_of(st.none(), st.integers(), st.text(max_size=8)))), st.dictionaries(st.text(max_size=3), st.none()))))
def test_any_job_is_read_or_refused(changes: dict) -> None:
    try:
        spec.parse_job({**JOB, **changes})
    except spec.JobInputError:
        pass
