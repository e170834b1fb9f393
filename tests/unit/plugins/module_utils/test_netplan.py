# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest
from ansible_collections.dgxspark.fabric.plugins.module_utils import (
    arp_settings, dead_man, live_state, managed_file, netplan_compare, netplan_overlap, netplan_request, netplan_sandbox, netplan_tree, netplan_yaml,
)
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import NOT_FOUND, Completed
from ansible_collections.dgxspark.fabric.plugins.module_utils.live_state import Live
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_tree import Hardware, Planned
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils import spark_root

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "node"
A = Planned("enp1s0f0np0", "192.168.177.11/24", 9000, "rocep1s0f0")
B = Planned("enP2p1s0f0np0", "192.168.178.11/24", 9000, "roceP2p1s0f0")
GOOD_ARP = {"arp_ignore": 1, "arp_announce": 2}


def tree_of(text: str) -> dict:
    return netplan_yaml.parse(text)


def merged() -> dict:
    return tree_of((FIXTURES / "netplan-get.txt").read_text(encoding="utf-8"))


# --- the form that netplan get prints -------------------------------------------------------------------------------


def test_canonical_yaml():
    tree = merged()
    assert tree["ethernets"]["enp1s0f0np0"] == {
        "optional": True, "addresses": ["192.168.177.11/24"], "dhcp4": False, "dhcp6": False, "mtu": 9000, "link-local": []}
    assert tree["ethernets"]["enP7s7"]["routes"] == [{"to": "default", "via": "10.77.0.1", "metric": 100}, {"to": "10.0.0.0/8", "via": "10.77.0.2"}]


@pytest.mark.parametrize("text", ["", "{}\n", "network: {}\n"])
def test_no_configuration(text):
    assert netplan_yaml.parse(text) == {}


@pytest.mark.parametrize("text", ["network:\n  version: &a 2\n", "just words\n", "network:\n  a: 1\n      b: 2\n", "- a\n", "network:\n  a: {b: 1}\n"])
def test_another_form_is_an_error(text):
    with pytest.raises(netplan_yaml.NetplanYamlError):
        netplan_yaml.parse(text)


# --- merged trees ------------------------------------------------------------------------------------------------------


def test_exactly_the_plan():
    assert netplan_tree.planned_differences(merged(), [A, B]) == []


def test_concatenated_addresses_and_dhcp_are_found():
    tree = merged()
    tree["ethernets"]["enp1s0f0np0"] |= {"addresses": ["10.1.1.1/24", "192.168.177.11/24"], "mtu": 1500, "dhcp4": True}
    assert netplan_tree.planned_differences(tree, [A]) == [
        "enp1s0f0np0: merged addresses are ['10.1.1.1/24', '192.168.177.11/24'], expected exactly ['192.168.177.11/24']",
        "enp1s0f0np0: merged mtu is 1500, expected 9000",
        "enp1s0f0np0: merged dhcp4 is true, expected false",
    ]


@pytest.mark.parametrize(("foreign", "key", "why"), [
    ("ethernets:\n    enp1s0f0np0:\n      dhcp4: true", "ethernets.enp1s0f0np0", "defines it"),
    ("ethernets:\n    all:\n      match:\n        name: \"en*\"\n      dhcp4: true", "ethernets.all", "matches it by name"),
    ("ethernets:\n    one:\n      match:\n        macaddress: \"02:00:00:00:00:02\"", "ethernets.one", "matches it by macaddress"),
    ("ethernets:\n    one:\n      match:\n        driver: \"mlx5*\"\n        name: \"enp*\"", "ethernets.one", "matches it by driver and name"),
    ("bonds:\n    bond0:\n      interfaces:\n      - enp1s0f0np0", "bonds.bond0.interfaces", "builds bond0 upon it"),
    ("vlans:\n    v7:\n      id: 7\n      link: \"enp1s0f0np0\"", "vlans.v7.link", "builds v7 upon it"),
])
def test_claims_of_others(foreign, key, why):
    found = netplan_tree.claims(tree_of(f"network:\n  version: 2\n  {foreign}\n"), {"enp1s0f0np0": Hardware("02:00:00:00:00:02", "mlx5_core")})
    assert [(claim.key, claim.why) for claim in found] == [(key, why)]


@pytest.mark.parametrize("foreign", [
    "ethernets:\n    enP7s7:\n      dhcp4: true",
    "ethernets:\n    wlan:\n      match:\n        name: \"wl*\"",
    "ethernets:\n    one:\n      match:\n        driver: \"mlx5*\"\n        name: \"wl*\"",
])
def test_settings_of_other_interfaces_are_no_claims(foreign):
    assert netplan_tree.claims(tree_of(f"network:\n  {foreign}\n"), {"enp1s0f0np0": Hardware("02:00:00:00:00:02", "mlx5_core")}) == []


def test_changes_of_others():
    before, after = merged(), merged()
    after["ethernets"]["enP7s7"] = {"addresses": ["10.77.0.99/24"]}
    after["renderer"] = "NetworkManager"
    names = {"enp1s0f0np0", "enP2p1s0f0np0"}
    first, second = netplan_tree.other_changes(before, after, names)
    assert first.startswith("ethernets.enP7s7 would change from addresses [10.77.0.11/24]") and "networkd to NetworkManager" in second
    del after["ethernets"]["enP7s7"]
    assert "enP7s7 would disappear" in netplan_tree.other_changes(before, after, names)[0]
    assert netplan_tree.other_changes(before, merged(), names) == []


# --- netplan on a copy of the tree -------------------------------------------------------------------------------------


def test_sandbox_copies_all_directories_and_hides_its_paths(tmp_path):
    spark_root.put(tmp_path, "etc/netplan/50-cloud-init.yaml", "network: {version: 2}")
    spark_root.put(tmp_path, "etc/netplan/40-cx7.yaml.dgxspark-new", "half a file")
    spark_root.put(tmp_path, "usr/lib/netplan/00-network-manager-all.yaml", "network: {renderer: NetworkManager}")
    asked = []

    def run(argv, timeout):
        asked.append(list(argv))
        directory = pathlib.Path(argv[3])
        assert (directory / "lib/netplan/00-network-manager-all.yaml").is_file()
        warning = "** (generate:1): WARNING **: Permissions for x are too open."
        return Completed(tuple(argv), 1, "", f"{warning}\n{directory}/etc/netplan/x.yaml:5:7: Error in network definition: unknown key 'mut'\n")

    with netplan_sandbox.sandbox(run, str(tmp_path)) as copy:
        assert copy.files() == ["/usr/lib/netplan/00-network-manager-all.yaml", "/etc/netplan/50-cloud-init.yaml"]
        copy.place("/etc/netplan/40-cx7.yaml", "network: {}\n")
        assert oct((copy.directory / "etc/netplan/40-cx7.yaml").stat().st_mode)[-3:] == "600"
        with pytest.raises(netplan_sandbox.NetplanError) as caught:
            copy.generate()
        directory = copy.directory
    assert str(caught.value) == "/etc/netplan/x.yaml:5:7: Error in network definition: unknown key 'mut'"
    assert asked[0][:3] == ["netplan", "generate", "--root-dir"] and not directory.exists()


def test_warnings_on_standard_error_are_no_failure(tmp_path):
    def run(argv, timeout):
        return Completed(tuple(argv), 0, "network:\n  version: 2\n", "** WARNING **: Permissions are too open")

    with netplan_sandbox.sandbox(run, str(tmp_path)) as copy:
        assert copy.tree() == {"version": 2}


def test_netplan_is_missing(tmp_path):
    with netplan_sandbox.sandbox(lambda argv, timeout: Completed(tuple(argv), NOT_FOUND, "", ""), str(tmp_path)) as copy:
        with pytest.raises(netplan_sandbox.NetplanError, match="install the package netplan.io"):
            copy.generate()


def test_digest_of_other_files(tmp_path):
    spark_root.put(tmp_path, "etc/netplan/50-a.yaml", "a")
    spark_root.put(tmp_path, "etc/netplan/40-cx7.yaml", "ours")
    first = netplan_sandbox.others_digest("/etc/netplan/40-cx7.yaml", str(tmp_path))
    spark_root.put(tmp_path, "etc/netplan/40-cx7.yaml", "ours, changed")
    assert netplan_sandbox.others_digest("/etc/netplan/40-cx7.yaml", str(tmp_path)) == first
    spark_root.put(tmp_path, "etc/netplan/99-b.yaml", "b")
    assert netplan_sandbox.others_digest("/etc/netplan/40-cx7.yaml", str(tmp_path)) != first


# --- networks in use elsewhere -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("addresses", "routes", "words"), [
    ({"docker0": ["192.168.176.1/20"]}, [], "overlaps the address 192.168.176.1/20 of docker0"),
    ({}, [{"dst": "192.168.0.0/16", "dev": "wg0"}], "overlaps the route 192.168.0.0/16 on wg0"),
    ({"enP7s7": ["192.168.177.200/24"]}, [{"dst": "192.168.177.0/24", "dev": "enP7s7"}], "overlaps the address 192.168.177.200/24 of enP7s7"),
])
def test_overlap(addresses, routes, words):
    problems = netplan_overlap.overlaps([A], addresses, routes)
    assert len(problems) == 1 and problems[0].startswith("enp1s0f0np0: planned network 192.168.177.0/24") and words in problems[0]


def test_no_overlap():
    addresses = {"enp1s0f0np0": ["192.168.177.11/24"], "lo": ["127.0.0.1/8"], "docker0": ["172.17.0.1/16"]}
    routes = [{"dst": "default", "dev": "enP7s7"}, {"dst": "0.0.0.0/1", "dev": "wg0"}, {"dst": "128.0.0.0/1", "dev": "wg0"},
              {"dst": "192.168.177.0/24", "dev": "enp1s0f0np0"}]
    assert netplan_overlap.overlaps([A], addresses, routes) == []


# --- live state ---------------------------------------------------------------------------------------------------------


def well(**changes) -> Live:
    values = {"mtu": 9000, "admin_up": True, "carrier": True, "addresses": ("192.168.177.11/24",), "arp": GOOD_ARP, "gids": ("192.168.177.11",)}
    return Live("enp1s0f0np0", **(values | changes))


@pytest.mark.parametrize(("live", "keys", "mends"), [
    (well(), [], []),
    (well(mtu=1500), ["mtu"], ["link"]),
    (well(addresses=(), gids=()), ["address"], ["netplan"]),
    (well(addresses=("192.168.0.1/24",)), ["address"], ["netplan"]),
    (well(addresses=("192.168.177.11/24", "10.0.0.1/24")), ["surplus_address"], ["address"]),
    (well(arp={"arp_ignore": 0, "arp_announce": 0}), ["arp_ignore", "arp_announce"], ["arp", "arp"]),
    (well(carrier=False, addresses=(), gids=()), ["link"], [""]),
    (well(carrier=False, mtu=1500, addresses=()), ["link", "mtu"], ["", "link"]),
    (well(admin_up=False, carrier=None, addresses=(), gids=()), ["enabled", "address"], ["link", "netplan"]),
    (well(gids=("10.0.0.9",)), ["gid"], ["wait"]),
    (well(gids=None), [], []),
    (Live("enp1s0f0np0", exists=False), ["presence"], [""]),
])
def test_differences(live, keys, mends):
    found = live_state.differences([A], {"enp1s0f0np0": live})
    assert [difference.key for difference in found] == keys
    assert [difference.mend for difference in found] == mends


def test_a_rail_without_address_keeps_none():
    planned = Planned("enp1s0f0np0", None, 9000)
    assert [difference.key for difference in live_state.differences([planned], {"enp1s0f0np0": well()})] == ["surplus_address"]
    assert live_state.differences([planned], {"enp1s0f0np0": well(addresses=())}) == []


def test_arp_settings_may_be_left_alone():
    assert live_state.differences([A], {"enp1s0f0np0": well(arp={"arp_ignore": 0, "arp_announce": 0})}, arp=False) == []


def test_a_missing_interface_is_explained():
    difference = live_state.differences([A], {})[0]
    assert "no cable" in difference.message and "Power saving" in difference.message and "broken" not in difference.message


def test_diff_and_drift():
    found = live_state.differences([A], {"enp1s0f0np0": well(mtu=1500, arp={"arp_ignore": 0, "arp_announce": 2})})
    assert live_state.diff_entries(found) == [{"before_header": "live enp1s0f0np0", "after_header": "planned enp1s0f0np0",
                                               "before": "mtu: 1500\narp_ignore: 0\n", "after": "mtu: 9000\narp_ignore: 1\n"}]
    assert live_state.drift_entry("spark1", found[0]) == {"host": "spark1", "subject": "enp1s0f0np0", "key": "mtu", "wanted": 9000, "live": 1500,
                                                          "message": "spark1: enp1s0f0np0 has MTU 1500, the plan wants 9000"}


@pytest.mark.parametrize("layout", ["mlx5", "rxe"])
def test_read_live_state(tmp_path, layout):
    root = spark_root.spark(tmp_path, layout)
    text = '[{"ifname":"enp1s0f0np0","addr_info":[{"family":"inet","local":"192.168.177.11","prefixlen":24}]}]'
    live = live_state.read(lambda argv, timeout: Completed(tuple(argv), 0, text, ""), [A, Planned("enp9s9", None, 9000)], str(root))
    assert live_state.differences([A], live) == []
    assert not live["enp9s9"].exists


# --- ARP -----------------------------------------------------------------------------------------------------------------


def test_sysctl_file():
    lines = arp_settings.file_text(["enp1s0f0np0", "enP2p1s0f0np0"]).splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "net/ipv4/conf/enP2p1s0f0np0/arp_ignore = 1", "net/ipv4/conf/enP2p1s0f0np0/arp_announce = 2",
        "net/ipv4/conf/enp1s0f0np0/arp_ignore = 1", "net/ipv4/conf/enp1s0f0np0/arp_announce = 2"]


def test_announcement():
    frame = arp_settings.announcement("02:00:00:00:00:11", "192.168.177.11")
    assert len(frame) == 42 and frame[:6] == b"\xff" * 6 and frame[12:14] == b"\x08\x06"
    assert frame[28:32] == frame[38:42] == bytes([192, 168, 177, 11]) and frame[20:22] == b"\0\1"


def test_set_live(tmp_path):
    spark_root.add_interface(tmp_path, "enp1s0f0np0", 2, arp=(0, 0))
    tree = netplan_compare.live_state.Tree(tmp_path)
    arp_settings.apply_live(tree, "enp1s0f0np0")
    assert (tree.number("proc/sys/net/ipv4/conf/enp1s0f0np0/arp_ignore"), tree.number("proc/sys/net/ipv4/conf/enp1s0f0np0/arp_announce")) == (1, 2)


# --- files ---------------------------------------------------------------------------------------------------------------


def test_write_is_whole_and_private(tmp_path):
    path = str(tmp_path / "40-cx7.yaml")
    managed_file.write(path, b"one\n", 0o600)
    managed_file.write(path, b"two\n", 0o600)
    state = managed_file.read(path)
    assert (state.content, state.mode) == (b"two\n", 0o600) and os.listdir(tmp_path) == ["40-cx7.yaml"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "40-cx7.yaml"
    managed_file.write(str(path), b"one\n", 0o600)
    (tmp_path / "40-cx7.yaml.dgxspark-new").mkdir()
    with pytest.raises(managed_file.FileError, match="cannot be written"):
        managed_file.write(str(path), b"two\n", 0o600)
    assert path.read_bytes() == b"one\n"


def test_links_are_refused(tmp_path):
    (tmp_path / "x").write_text("x")
    (tmp_path / "40-cx7.yaml").symlink_to(tmp_path / "x")
    with pytest.raises(managed_file.FileError, match="not a plain file"):
        managed_file.read(str(tmp_path / "40-cx7.yaml"))


@pytest.mark.parametrize(("state", "keys"), [
    (managed_file.FileState("/p"), ["presence"]),
    (managed_file.FileState("/p", b"x", 0o644, 1000, 0), ["content", "mode", "owner"]),
    (managed_file.FileState("/p", b"wanted", 0o600, 0, 0), []),
])
def test_file_drift(state, keys):
    file = netplan_compare.WantedFile(state, b"wanted", 0o600)
    assert [entry["key"] for entry in netplan_compare.file_drift("spark1", file)] == keys
    assert file.differs == bool(keys) == (managed_file.file_diff(state, b"wanted", 0o600) is not None)


@pytest.mark.parametrize(("content", "live", "would_change", "needs_netplan"), [
    (b"same", well(), False, False),
    (b"other", well(), True, True),
    (b"same", well(mtu=1500), True, False),
    (b"same", well(addresses=()), True, True),
    (b"same", well(carrier=False, addresses=()), False, False),
])
def test_what_a_change_needs(content, live, would_change, needs_netplan):
    file = netplan_compare.WantedFile(managed_file.FileState("/p", b"same", 0o600, 0, 0), content, 0o600)
    comparison = netplan_compare.Comparison((file,), tuple(live_state.differences([A], {"enp1s0f0np0": live})))
    assert (comparison.would_change, comparison.needs_netplan) == (would_change, needs_netplan)


# --- the way back --------------------------------------------------------------------------------------------------------


def back(tmp_path: pathlib.Path, old: bytes | None, now: bytes) -> pathlib.Path:
    """Prepare a pending change of a file and run the script that takes it back; systemd's files are not in reach of the test."""
    state, target = tmp_path / "state", tmp_path / "40-cx7.yaml"
    (state / "pending").mkdir(parents=True)
    (state / "pending/journal.json").write_text("{}")
    if old is not None:
        managed_file.write(str(state / "pending/file-0"), old, 0o640)
    target.write_bytes(now)
    script = dead_man.rollback_script([str(target)], [], {}, netplan=False, directory=str(state))
    script = script.replace(dead_man.UNIT_DIRECTORY, str(tmp_path))
    for _twice in range(2):
        assert subprocess.run(["sh", "-c", script], check=False).returncode == 0
    assert not (state / "pending").exists() and (state / "rolled-back").is_dir()
    return target


def test_old_bytes_and_mode_come_back(tmp_path):
    target = back(tmp_path, b"old\n", b"new\n")
    assert target.read_bytes() == b"old\n" and oct(target.stat().st_mode)[-3:] == "640"


def test_a_file_that_was_not_there_goes(tmp_path):
    assert not back(tmp_path, None, b"new\n").exists()


def test_live_values_come_back():
    before = {"enp1s0f0np0": well(mtu=1500, addresses=("192.168.0.1/24",), arp={"arp_ignore": 0, "arp_announce": 0})}
    management = dead_man.Management("enP7s7", "10.77.0.11/24", (("default", "10.77.0.1"),))
    script = dead_man.rollback_script(["/etc/netplan/40-cx7.yaml"], [A], before, netplan=True, management=management)
    for line in ("timeout 90 netplan apply", "ip addr del 192.168.177.11/24 dev enp1s0f0np0", "ip addr replace 192.168.0.1/24 dev enp1s0f0np0",
                 "ip link set dev enp1s0f0np0 mtu 1500", "echo 0 > /proc/sys/net/ipv4/conf/enp1s0f0np0/arp_ignore",
                 "ip addr replace 10.77.0.11/24 dev enP7s7", "ip route replace default via 10.77.0.1 dev enP7s7"):
        assert line in script
    assert subprocess.run(["sh", "-n", "-c", script], check=False).returncode == 0


# --- options -------------------------------------------------------------------------------------------------------------


def params(**changes):
    values = {"node": "spark1", "path": "/etc/netplan/40-cx7.yaml", "content": "x", "arp": True, "sysctl_path": "/s", "foreign": "refuse", "force_busy": False,
              "management_interface": "enP7s7", "management_address": "10.77.0.11", "timeout": 90, "confirm_seconds": 0, "validated": "",
              "interfaces": [{"name": "enp1s0f0np0", "address": "192.168.177.11", "prefix": 24, "mtu": 9000, "rdma_device": "rocep1s0f0", "rail": "a"}]}
    return values | changes


def test_request():
    request = netplan_request.request_of(params())
    assert request.planned == (A,) and request.content == b"x\n"
    foreign = {"name": "enp1s0f1np1", "address": None, "prefix": None, "mtu": 9000, "managed": False}
    assert len(netplan_request.request_of(params(interfaces=[*params()["interfaces"], foreign])).planned) == 1


@pytest.mark.parametrize(("interfaces", "words"), [
    ([], "interfaces is empty"),
    ([{"mtu": 9000}], "has no name"),
    ([{"name": "x", "mtu": 9217}], "x: mtu 9217, expected 1280 to 9216"),
    ([{"name": "x", "mtu": "jumbo"}], "mtu 'jumbo' is no number"),
    ([{"name": "x", "mtu": 9000, "address": "192.168.1", "prefix": 24}], "address '192.168.1'"),
    ([{"name": "x", "mtu": 9000, "address": "192.168.1.1"}], "prefix None"),
    ([{"name": "x", "mtu": 9000}, {"name": "x", "mtu": 9000}], "x stand there twice"),
])
def test_bad_options(interfaces, words):
    with pytest.raises(netplan_request.RequestError, match=words):
        netplan_request.request_of(params(interfaces=interfaces))
