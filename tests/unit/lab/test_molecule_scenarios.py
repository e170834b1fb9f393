# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the Molecule scenarios expect is what the lab has and the design gives; the scenarios themselves need the lab."""

from __future__ import annotations

import pathlib
import re
import typing as t

import pytest
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.plan import make_plan

from sparklab import arguments, wiring

yaml = pytest.importorskip("yaml")

ROOT = pathlib.Path(__file__).resolve().parents[3]
MOLECULE = ROOT / "extensions/molecule"
SCENARIOS = {"pair", "mesh", "ring", "switch", "adopt", "networkmanager", "faults"}


def load(path: pathlib.Path) -> t.Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("topology", ["pair", "mesh", "ring", "switch"])
def test_expected_addresses_are_those_of_the_plan_and_the_cables_those_of_the_lab(topology: str) -> None:
    expected = load(MOLECULE / f"shared/vars/{topology}.yml")
    hosts = {name: {"ansible_host": f"10.77.0.{place}", "fabric_topology": topology} for place, name in enumerate(expected["addresses"], 11)}
    plan = make_plan(hosts)
    assert [cable["name"] for cable in plan["cables"]] == expected["cables"]
    assert [cable.name for cable in wiring.make_wiring(topology, len(hosts)).cables] == expected["cables"]
    found = {name: {interface: entry["address"] for interface, entry in node["interfaces"].items()} for name, node in plan["nodes"].items()}
    assert found == expected["addresses"]


def test_every_scenario_is_there_with_a_topology_of_the_lab() -> None:
    assert {path.parent.name for path in MOLECULE.glob("*/molecule.yml")} == SCENARIOS
    for name in SCENARIOS:
        assert load(MOLECULE / name / "molecule.yml")["scenario"]["name"] == name
        assert (MOLECULE / f"shared/vars/{load(MOLECULE / name / 'vars/main.yml')['lab_topology']}.yml").is_file()


def test_the_runner_names_scenarios_that_are_there() -> None:
    named = set(re.findall(r"-s (\w+)", (ROOT / "tests/run").read_text(encoding="utf-8")))
    assert named and named <= SCENARIOS


def test_faults_are_commands_of_the_lab_on_cables_of_its_topology() -> None:
    scenario = load(MOLECULE / "faults/vars/main.yml")
    cables = load(MOLECULE / f"shared/vars/{scenario['lab_topology']}.yml")["cables"]
    for fault in scenario["faults"]:
        assert arguments.parser().parse_args(["fault", *fault["inject"]]).kind == fault["inject"][0]
        assert fault["cables"] and set(fault["cables"]) <= set(cables)
