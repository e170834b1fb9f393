# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line explains itself."""

from __future__ import annotations

import pytest

from sparklab import arguments, cli

COMMANDS = ["build", "up", "down", "status", "ssh", "mark", "reset", "fault", "console", "proxy", "exec", "calibrate"]
FAULTS = ["cut", "twin-down", "swap", "mtu", "rate", "loss", "kill", "revive", "clear"]


@pytest.mark.parametrize("words", [[], *([name] for name in COMMANDS), *(["fault", name] for name in FAULTS)])
def test_help(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parser().parse_args([*words, "--help"])
    assert ended.value.code == 0
    assert len(capsys.readouterr().out.splitlines()) > 4


def test_every_command_is_done_by_something() -> None:
    assert sorted(cli.COMMANDS) == sorted(COMMANDS)


def test_commands_keep_their_dashes() -> None:
    options = arguments.parser().parse_args(["ssh", "spark1", "--", "ls", "-l"])
    assert cli.without_dashes(options.remote) == ["ls", "-l"]


def test_a_wrong_request_is_an_error_of_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["up", "--topology", "mesh", "--nodes", "4"]) == 1
    assert capsys.readouterr().err.strip() == "lab up: topology mesh has 3 nodes, not 4"
