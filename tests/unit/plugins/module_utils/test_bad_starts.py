# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bad starting states of a node: each is refused by validating, before anything is written, with a message that says what to do."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import typing as t

import pytest
from ansible_collections.dgxspark.fabric.plugins.module_utils import command, managed_file, netplan_validate
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import NOT_FOUND, Completed
from ansible_collections.dgxspark.fabric.plugins.module_utils.live_state import Live
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_tree import Planned
from ansible_collections.dgxspark.fabric.plugins.module_utils.netplan_verdict import Request, Verdict
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils import spark_root
from ansible_collections.dgxspark.fabric.tests.unit.plugins.module_utils.foreign_layouts_on_disk import A, B, CX7, MANAGEMENT, NM, profile, static

pytestmark = pytest.mark.skipif(not command.find_program("netplan"), reason="netplan is not installed here: tests/setup tools installs netplan.io")

PLANNED = (Planned(A, "192.168.177.11/24", 9000, "rocep1s0f1"), Planned(B, "192.168.178.11/24", 9000, "roceP2p1s0f1"))
TEXT = "# dgxspark.fabric\n" + static({A: "192.168.177.11/24", B: "192.168.178.11/24"}, "dhcp4: false; dhcp6: false; link-local: []; mtu: 9000")
GOOD = Request("spark1", "/" + CX7, TEXT.encode(), PLANNED, management_interface="enP7s7", management_address="10.77.0.11",
               networks=("192.168.177.0/24", "192.168.178.0/24", "192.168.197.0/24"))


@dataclasses.dataclass
class Start:
    """One starting state: files, live state, what programs answer, and what is asked for."""

    files: dict[str, str] = dataclasses.field(default_factory=dict)
    live: dict[str, t.Any] = dataclasses.field(default_factory=dict)  # of A
    addresses: dict[str, str] = dataclasses.field(default_factory=dict)
    routes: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    pairs: list[dict[str, t.Any]] = dataclasses.field(default_factory=list)
    request: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    build: t.Callable[[pathlib.Path], None] | None = None
    netplan: bool = True
    manager: bool = True  # NetworkManager is installed


def upper(name: str, kind: str, over: str = A) -> t.Callable[[pathlib.Path], None]:
    """Return what puts a virtual interface over one of the fabric."""
    def build(root: pathlib.Path) -> None:
        spark_root.add_interface(root, name, 9)
        spark_root.put(root, f"sys/class/net/{name}/uevent", f"DEVTYPE={kind}")
        spark_root.link(root, f"sys/class/net/{over}/upper_{name}", root / f"sys/class/net/{name}")

    return build


def validate(root: pathlib.Path, start: Start) -> Verdict:
    """Validate a node in this state; what it holds must not change by it."""
    for index, name in enumerate((A, B, "enP7s7"), start=2):
        spark_root.add_interface(root, name, index)
    for path, text in {"etc/netplan/50-cloud-init.yaml": MANAGEMENT, **start.files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
        (root / path).chmod(0o600)
    if start.build:
        start.build(root)

    def run(argv, timeout=20.0):
        if argv[0] == "nmcli" and not start.manager:
            return Completed(tuple(argv), NOT_FOUND, "", "")
        if argv[0] == "netplan":
            return command.run(argv, timeout) if start.netplan else Completed(tuple(argv), NOT_FOUND, "", "")
        addresses = [{"ifname": name, "addr_info": [{"family": "inet", "local": text.partition("/")[0], "prefixlen": int(text.partition("/")[2])}]}
                     for name, text in {"enP7s7": "10.77.0.11/24", **start.addresses}.items()]
        answers = {"addr": json.dumps(addresses), "route": json.dumps(start.routes), "res": json.dumps(start.pairs)}
        return Completed(tuple(argv), 0, next((answers[word] for word in argv if word in answers), "[]"), "")

    live = {name: Live(name, admin_up=True, carrier=True) for name in (A, B)}
    live[A] = dataclasses.replace(live[A], **start.live)
    current = managed_file.FileState("/" + CX7)
    if (root / CX7).exists():
        current = managed_file.FileState("/" + CX7, (root / CX7).read_bytes(), 0o600, 0, 0)
    before = {path: path.read_bytes() for path in sorted((root / "etc").rglob("*")) if path.is_file()}
    verdict = netplan_validate.validate(dataclasses.replace(GOOD, **start.request), run, live, current, False, True, False, str(root))
    assert {path: path.read_bytes() for path in sorted((root / "etc").rglob("*")) if path.is_file()} == before
    return verdict


BAD: dict[str, tuple[Start, str, tuple[str, ...]]] = {
    "no cable, no interface": (Start(live={"exists": False}), "interface.missing", (A, "no cable", "Power saving")),
    "in a bond of runtime": (Start(live={"master": "bond9"}, build=upper("bond9", "bond")), "interface.enslaved", (A, "bond9", "address of its own")),
    "in a bridge": (Start(live={"master": "br0"}, build=upper("br0", "bridge")), "interface.enslaved", ("bridge br0",)),
    "below a VLAN": (Start(build=upper("fab.7", "vlan")), "interface.vlan", ("fab.7", "remove the VLAN")),
    "management unknown": (Start(request={"management_interface": None}), "management.unknown", ("fabric_management_interface",)),
    "management in the plan": (Start(request={"management_interface": A}), "management.planned", (A, "cut the connection", "ansible_host")),
    "management upon the plan": (Start(live={"master": "br0"}, request={"management_interface": "br0"}, build=upper("br0", "bridge")), "management.planned",
                                 ("br0",)),
    "docker in the network": (Start(addresses={"docker0": "192.168.177.1/24"}), "network.overlap", (A, "192.168.177.0/24", "docker0", "fabric_subnet_base")),
    "home network": (Start(addresses={"wlP9s9": "192.168.178.30/23"}), "network.overlap", ("wlP9s9",)),
    "VPN route": (Start(routes=[{"dst": "192.168.0.0/16", "dev": "tun0"}]), "network.overlap", ("192.168.0.0/16 on tun0",)),
    "address on lo": (Start(addresses={"lo": "192.168.177.200/32"}), "network.overlap", ("192.168.177.200/32 of lo",)),
    "network of other nodes' cable": (Start(addresses={"br-x": "192.168.197.1/24"}), "network.overlap", ("a cable of other nodes", "192.168.197.0/24")),
    "default route on the fabric": (Start(routes=[{"dst": "default", "dev": A, "gateway": "10.20.0.254"}]), "network.default_route", (A, "via 10.20.0.254")),
    "busy": (Start(pairs=[{"ifname": "rocep1s0f1", "pid": 77, "comm": "python3"}]), "node.busy", ("process 77 (python3)", "rocep1s0f1", "fabric_force_busy")),
    "no place for netplan": (Start(request={"path": "/etc/netplan.d/x.yaml"}), "netplan.path", ("fabric_netplan_path",)),
    "netplan missing": (Start(netplan=False), "netplan.rejected", ("netplan.io",)),
    "own file of somebody else": (Start({CX7: static({A: "192.168.100.10/24"}, "dhcp4: no")}), "netplan.foreign", ("/" + CX7, "NVIDIA", "adopt")),
    "second file for an interface": (Start({"etc/netplan/99-x.yaml": static({A: "10.1.1.1/24"})}), "netplan.foreign",
                                     ("99-x.yaml", f"ethernets.{A}", "10.1.1.1/24")),
    "a file that netplan rejects": (Start({"etc/netplan/60-x.yaml": "network:\n  ethernets:\n    enP7s7:\n      mtu: many\n"}), "netplan.rejected",
                                    ("60-x.yaml",)),
    "profile of NetworkManager": (Start({NM + "a.nmconnection": profile("a", A, "address1=10.1.1.1/24")}), "networkmanager.foreign", ("a.nmconnection", A)),
    "address by hand": (Start(live={"addresses": ("10.1.1.1/24",)}), "runtime.foreign", ("10.1.1.1/24", "reboot")),
    "file of networkd": (Start({"etc/systemd/network/05-x.network": f"[Match]\nName={A}\n"}), "networkd.foreign", ("05-x.network",)),
    "bond in netplan": (Start({"etc/netplan/60-b.yaml": f"network:\n  ethernets: {{{A}: {{}}, {B}: {{}}}}\n  bonds: {{bond0: {{interfaces: [{A}, {B}]}}}}\n"}),
                        "netplan.foreign", ("bond0", "bonds.bond0.interfaces")),
    "DHCP by another file, ignored": (Start({"etc/netplan/99-x.yaml": static({A: ""}, "dhcp6: true")}, request={"foreign": "ignore"}), "netplan.merged",
                                      (A, "dhcp6")),
    "twins with two renderers, ignored": (Start({"etc/netplan/99-x.yaml": static({A: ""}, "renderer: NetworkManager")}, request={"foreign": "ignore"}),
                                          "netplan.renderers", (A, B, "NetworkManager", "fabric_netplan_renderer")),
    "NetworkManager is to render and is not there": (Start({"etc/netplan/01-all.yaml": "network:\n  version: 2\n  renderer: NetworkManager\n"}, manager=False),
                                                     "netplan.renderer_missing", (A, "not installed", "fabric_netplan_renderer")),
    "renderer of everything": (Start(request={"content": TEXT.replace("  version: 2\n", "  version: 2\n  renderer: NetworkManager\n").encode()}),
                               "netplan.others",
                               ("the renderer of all interfaces",)),
}


@pytest.mark.parametrize("name", BAD)
def test_refused_before_the_first_write(tmp_path, name):
    start, identifier, words = BAD[name]
    problems = [problem for problem in validate(tmp_path, start).problems if problem["id"] == identifier]
    assert problems
    text = "\n".join(problem["message"] for problem in problems)
    for word in words:
        assert word in text


def test_a_good_start_is_not_refused(tmp_path):
    assert validate(tmp_path, Start(addresses={"docker0": "172.17.0.1/16"},
                                    routes=[{"dst": "default", "dev": "enP7s7", "gateway": "10.77.0.1"}])).problems == []


def test_a_bond_that_is_adopted_is_no_obstacle(tmp_path):
    text = f"network:\n  ethernets: {{{A}: {{}}, {B}: {{}}}}\n  bonds: {{bond0: {{interfaces: [{A}, {B}], addresses: [192.168.177.9/24]}}}}\n"
    start = Start({"etc/netplan/60-b.yaml": text}, live={"master": "bond0"}, addresses={"bond0": "192.168.177.9/24"}, request={"foreign": "adopt"},
                  build=upper("bond0", "bond"))
    assert validate(tmp_path, start).problems == []


def test_a_host_that_was_inserted_would_renumber_others(tmp_path):
    start = Start({CX7: TEXT.replace("192.168.177.11", "192.168.177.12")}, live={"addresses": ("192.168.177.12/24",)})
    verdict = validate(tmp_path, start)
    assert verdict.problems == []
    assert any("192.168.177.12" in text and "192.168.177.11" in text and "fabric_node_number" in text for text in verdict.warnings)


def test_wifi_as_management_is_a_warning(tmp_path):
    verdict = validate(tmp_path, Start(request={"management_interface": "wlP9s9"}))
    assert verdict.problems == [] and "Wi-Fi" in verdict.warnings[0]
