# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory that the lab writes."""

from __future__ import annotations

import shlex

import yaml

from sparklab import inventory, ssh, state, wiring

PATHS = {"known_hosts": "/lab/known hosts", "private_key": "/lab/key", "control_dir": "/tmp/x/cm", "proxy_command": "'/a b/lab' proxy %h %p"}
RATES = {"directed": {"1": 0.3, "6": 0.05, "10": 0.02}, "bidirectional": {"2": 0.2}}


def variables(made: wiring.Wiring, rates: dict | None = None) -> dict:
    return yaml.safe_load(inventory.group_text(made, PATHS, rates or {}))


def test_hosts() -> None:
    hosts = yaml.safe_load(inventory.hosts_text(wiring.make_wiring("mesh", 3)))["spark"]["hosts"]
    assert list(hosts) == ["spark1", "spark2", "spark3"]
    assert hosts["spark3"] == {"ansible_host": "10.77.0.13", "fabric_node_number": 3}


def test_calibration_becomes_expected_rates_and_rules() -> None:
    found = variables(wiring.make_wiring("mesh", 3), RATES)
    assert list(found["fabric_rail_gbps"]) == [1, 6, 10]
    assert found["fabric_rail_bidirectional_gbps"] == {2: 0.2}
    assert {"id": "rdma.rail_bandwidth", "warn": 40, "fail": 40} in found["fabric_rules"]
    assert "fabric_rail_gbps" not in variables(wiring.make_wiring("mesh", 3))


def test_topologies() -> None:
    assert variables(wiring.make_wiring("pair", 2))["fabric_ports"] == [1]
    ring = variables(wiring.make_wiring("ring", 4, (1, 2, 4, 3)))
    assert ring["fabric_ring_order"] == ["spark1", "spark2", "spark4", "spark3"]
    custom = wiring.make_wiring(None, None, (), ("spark1:0-spark2:0", "spark2:1-switch"))
    assert variables(custom)["fabric_cables"] == [{"a": "spark1:0", "b": "spark2:0"}, {"a": "spark2:1", "b": "switch"}]
    assert yaml.safe_load(inventory.hosts_text(custom))["spark"]["hosts"]["spark2"]["fabric_ports"] == [0, 1]


def test_ssh_arguments_survive_the_shells_rules() -> None:
    words = shlex.split(variables(wiring.make_wiring("pair", 2))["ansible_ssh_common_args"])
    assert "ProxyCommand='/a b/lab' proxy %h %p" in words
    assert 'UserKnownHostsFile="/lab/known hosts"' in words
    assert "StrictHostKeyChecking=yes" in words and "StrictHostKeyChecking=no" not in words


def test_known_hosts_has_name_and_address() -> None:
    text = ssh.known_hosts_text({"spark1": "ssh-ed25519 AAA", "spark2": "ssh-ed25519 BBB"}, range(1, 3))
    assert text == "spark1,10.77.0.11 ssh-ed25519 AAA\nspark2,10.77.0.12 ssh-ed25519 BBB\n"


def test_state_survives_the_file() -> None:
    made = state.State(wiring.make_wiring("ring", 4, (1, 2, 4, 3)), 12, "boot:34", "tcg", "image", "key", True, [{"kind": "kill", "node": 1}])
    assert state.from_data(state.to_data(made)) == made
