# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Definitions cut out of a netplan file leave the meaning of the rest, for any file; and no text breaks the readers."""

from __future__ import annotations

import typing as t

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.dgxspark.fabric.plugins.module_utils import netplan_edit, netplan_yaml
from ansible_collections.dgxspark.fabric.plugins.module_utils.foreign_settings import without_keys
from ansible_collections.dgxspark.fabric.tests.unit.fuzzing import examples

yaml = pytest.importorskip("yaml")

NAMES = st.sampled_from(["enp1s0f0np0", "enP2p1s0f0np0", "enP7s7", "bond0", "123", "yes", "a:b", "x#y", "a b", "'"])
SETTINGS = st.recursive(
    st.none() | st.booleans() | st.integers(0, 9000) | st.sampled_from(["10.0.0.1/24", "", "# no comment", "ethernets:", "a: b", "line\nnext\n", " x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["addresses", "mtu", "match", "macaddress", "routes", "to"]), inner, max_size=3)),
    max_leaves=8,
)
#: A definition is a mapping or empty; netplan takes nothing else.
DEFINITION = st.none() | st.dictionaries(st.sampled_from(["addresses", "mtu", "match", "routes"]), SETTINGS, max_size=3)
KINDS = st.dictionaries(st.sampled_from(["ethernets", "bonds", "vlans", "bridges"]), st.dictionaries(NAMES, DEFINITION, min_size=1, max_size=4), max_size=3)
LINES = st.sampled_from([
    "network:", "  ethernets:", "  ethernets: {}", "    a:", "    'a':", "      mtu: 9000", "    - x", "# c", "", "  version: 2", "\t", "- -",
    "a: [b", "|", "    ? a", "---",
])
TEXTS = st.text() | st.lists(LINES | st.text(max_size=8)).map("\n".join)


@examples(150)
@given(KINDS, st.sets(st.integers(0, 11)), st.booleans(), st.booleans())
def test_what_is_left_means_what_it_meant(kinds: dict[str, t.Any], places: set[int], first: bool, comments: bool) -> None:
    network = {"version": 2, **kinds} if first else {**kinds, "version": 2}
    text = yaml.safe_dump({"network": network}, sort_keys=False)
    if comments:
        text = f"# above\n\n{text}\n# below\n"
    found = sorted(netplan_edit.definitions(text))
    assert all(name in kinds[kind] or isinstance(yaml.safe_load(name), (int, bool)) for kind, name in found)
    keys = {found[place] for place in places if place < len(found)}
    left = netplan_edit.without(text, keys)
    assert left is not None
    assert yaml.safe_load(left)["network"] == without_keys(network, keys)


@examples(200)
@given(TEXTS, st.sets(st.tuples(st.sampled_from(["ethernets", "bonds"]), NAMES | st.just("a")), max_size=3))
def test_any_text_is_cut_by_whole_lines(text: str, keys: set[tuple[str, str]]) -> None:
    left = netplan_edit.without(text, keys)
    assert (left is None) == (not keys <= netplan_edit.definitions(text))
    if left is not None:
        lines = iter(text.splitlines(keepends=True))
        assert all(line in lines for line in left.splitlines(keepends=True))


@examples(200)
@given(TEXTS)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert isinstance(netplan_yaml.parse(text), dict)
    except netplan_yaml.NetplanYamlError:
        pass
