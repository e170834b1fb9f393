# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Following a job from the controller: results, lost connections, dead jobs, and hosts on which none runs."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.dgxspark.fabric.plugins.action import perftest_collect
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.job_progress import MARK

STARTED = {"run": "run-123", "folder": "/run/x/run-123", "pid": 77, "identity": "900", "deadline_seconds": 5.0, "status": "running"}
ALIVE = "77 (python3) S " + " ".join(["1"] * 18) + " 900 0"
RUNNING = {"status": "running", "round": 1, "rounds": 2, "running": 6, "seconds_left": 14.2}
TIMES = perftest_collect.Times(5.0, 30.0, 10.0)
DONE = {"status": "done", "run": "run-123", "node": "spark1", "tests": [{"id": "a"}]}


class Clock:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Move on."""
        self.now += seconds


def answer(progress: object, stat: str, result: object = None) -> dict[str, t.Any]:
    """Return what the node's shell prints."""
    texts = ["" if item is None else json.dumps(item) for item in (progress, result)]
    return {"rc": 0, "stdout": f"{texts[0]}\n{MARK}\n{stat}\n{MARK}\n{texts[1]}\n{MARK}\n", "stderr": ""}


@pytest.fixture
def action(monkeypatch: pytest.MonkeyPatch) -> t.Any:
    """Return an action whose node answers from a list, the last answer for ever."""
    clock = Clock()
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(perftest_collect, "time", clock)
    module = object.__new__(perftest_collect.ActionModule)
    module.answers, module.commands, module.shown, module.clock = [], [], [], clock
    monkeypatch.setattr(perftest_collect.display, "display", module.shown.append)

    def execute(command: str) -> dict[str, t.Any]:
        module.commands.append(command)
        clock.now += 0.3
        found = module.answers.pop(0) if len(module.answers) > 1 else module.answers[0]
        if isinstance(found, Exception):
            raise found
        return found

    module._low_level_execute_command = execute
    module._connection = t.cast(t.Any, None)
    return module


def test_result_of_a_job(action: t.Any) -> None:
    action.answers = [answer(None, ALIVE), answer(RUNNING, ALIVE),
                      answer({**RUNNING, "round": 2, "seconds_left": 3}, ALIVE), answer({"status": "done"}, "", DONE)]
    assert action._follow("spark1", STARTED, TIMES, True) == DONE
    assert action.shown == ["  load tests: round 1 of 2, 6 tests running, about 14 s left", "  load tests: round 2 of 2, 6 tests running, about 3 s left"]


def test_nothing_is_shown_in_ci(action: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    action.answers = [answer(RUNNING, ALIVE), answer({"status": "done"}, "", DONE)]
    assert action._follow("spark1", STARTED, TIMES, True) == DONE
    assert action.shown == []


def test_only_one_host_speaks(action: t.Any) -> None:
    action.answers = [answer(RUNNING, ALIVE), answer({"status": "done"}, "", DONE)]
    action._follow("spark2", STARTED, TIMES, False)
    assert action.shown == []


def test_lost_connections_lose_nothing(action: t.Any) -> None:
    gone = AnsibleConnectionFailure("ssh: connect to host spark1 port 22: No route to host")
    action.answers = [answer(RUNNING, ALIVE), gone,
                      {"rc": 255, "stdout": "", "stderr": "closed"}, {"rc": 0, "stdout": "half", "stderr": ""}, answer({"status": "done"}, "", DONE)]
    assert action._follow("spark1", STARTED, TIMES, True) == DONE


def test_a_node_that_is_gone_is_lost_soon_after_its_job_should_have_ended(action: t.Any) -> None:
    action.answers = [answer(RUNNING, ALIVE), AnsibleConnectionFailure("No route to host")]
    fact = action._follow("spark1", STARTED, TIMES, True)
    assert (fact["status"], fact["tests"]) == ("lost", [])
    assert "No route to host" in fact["message"]
    assert 14.2 + 10 <= action.clock.now < 14.2 + 10 + 5


def test_a_node_that_never_answers_is_lost_at_the_deadline(action: t.Any) -> None:
    action.answers = [AnsibleConnectionFailure("No route to host")]
    assert action._follow("spark1", STARTED, TIMES, True)["status"] == "lost"
    assert 35 <= action.clock.now < 40


def test_a_dead_job_is_noticed_and_its_rounds_are_kept(action: t.Any) -> None:
    action.answers = [answer(RUNNING, ALIVE), answer(RUNNING, ""), answer(RUNNING, "", {"status": "running", "tests": [{"id": "a"}]})]
    fact = action._follow("spark1", STARTED, TIMES, True)
    assert (fact["status"], fact["tests"]) == ("lost", [{"id": "a"}])
    assert "died" in fact["message"]


def test_a_process_id_used_again_is_not_the_job(action: t.Any) -> None:
    action.answers = [answer(RUNNING, ALIVE.replace("900", "901"))]
    assert action._follow("spark1", STARTED, TIMES, True)["status"] == "lost"


@pytest.mark.parametrize(("started", "status", "words"), [
    ({"unreachable": True, "msg": "no route"}, "lost", "no route"),
    ({"skipped": True, "msg": "load tests are not run in check mode"}, "not_started", "check mode"),
    ({"failed": True, "msg": "needs root"}, "not_started", "needs root"),
    ({"status": "not_started", "run": "run-123", "msg": "port 18500 taken"}, "not_started", "port 18500 taken"),
    ({}, "not_started", "no answer"),
])
def test_hosts_without_a_job(action: t.Any, started: dict[str, t.Any], status: str, words: str) -> None:
    fact = action._without_job("spark1", started)
    assert (fact["node"], fact["status"], fact["tests"]) == ("spark1", status, [])
    assert words in fact["message"]
