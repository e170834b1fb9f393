# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.dgxspark.fabric.plugins.plugin_utils import rollout
from ansible_collections.dgxspark.fabric.plugins.plugin_utils.errors import FabricError

NODE = {"fabric_node": {"hostname": "x"}}


def test_all_ready():
    assert rollout.not_ready_text({"spark1": NODE, "spark2": NODE}, ["spark1", "spark2"]) == ""


def test_everyone_in_the_way_is_named():
    hosts = {"spark1": NODE, "spark2": {"fabric_lost": "spark2 cannot be reached: timed out"},
             "spark3": NODE | {"fabric_refused": "netplan is not installed"}, "spark4": {}}
    text = rollout.not_ready_text(hosts, list(hosts))
    assert text.startswith("Nothing was written on any node, because 3 of 4 nodes cannot be changed:\nspark2 cannot be reached: timed out\nspark3: netplan")
    assert "spark4 dropped out" in text and "--limit" in text


def test_which_are_changed():
    hosts = {"spark1": NODE | {"fabric_applied": True}, "spark2": NODE | {"fabric_refused": "spark2: after 90 s: …"}, "spark3": NODE}
    text = rollout.not_ready_text(hosts, list(hosts), changing=True)
    assert "As planned now: spark1. Not changed by this run: spark3." in text


def differing(**more):
    return {"__netplan_validated": {"would_change": True}} | more


@pytest.mark.parametrize(("size", "expected"), [
    (0, [["b"], ["c", "d"], ["a"]]),
    (1, [["b"], ["c"], ["d"], ["a"]]),
    (2, [["b", "c"], ["d"], ["a"]]),
    (9, [["b", "c", "d"], ["a"]]),
])
def test_batches_end_with_the_controllers_own_node(size, expected):
    hosts = {"a": differing(ansible_connection="local"), "b": differing(), "c": differing(), "d": differing(),
             "same": {"__netplan_validated": {"would_change": False}}, "lost": {}}
    assert rollout.batches(hosts, list(hosts), size) == expected


def test_nothing_to_change():
    assert rollout.batches({"a": {}}, ["a"]) == []


def test_a_negative_size():
    with pytest.raises(FabricError, match="fabric_apply_batch"):
        rollout.batches({}, [], -1)
