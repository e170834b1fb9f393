# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The faults on a pair: settings, tools and single rails, since what they show does not depend on the topology."""

from __future__ import annotations

import functools

import matrix_breaking as breaking
from conftest import Lab
from matrix_verdict import Fault, Wanted

CABLE = "spark1:1-spark2:1"
RAIL_A, RAIL_B = f"{CABLE}/a", f"{CABLE}/b"
A, B = "enp1s0f1np1", "enP2p1s0f1np1"
DEVICE_A, DEVICE_B = "rocep1s0f1", "roceP2p1s0f1"
SLOW_IDS = "rdma.rail_bandwidth|rdma.half_rate"
MEASURING = r"TASK \[dgxspark.fabric.perftest : Follow the load tests"

pair = functools.partial(Fault, topology="pair")


def twin_down_at_both_ends(lab: Lab) -> None:
    lab.fault("twin-down", "spark1", B)
    lab.fault("twin-down", "spark2", B)


def twins_in_one_subnet(lab: Lab) -> None:
    breaking.replace_address(lab, "spark2", B, gone="192.168.178.12/24", new="192.168.177.112/24")


def wrong_prefix(lab: Lab) -> None:
    breaking.replace_address(lab, "spark2", A, gone="192.168.177.12/24", new="192.168.177.12/28")


PAIR = (
    pair(name="one twin down at both ends", inject=twin_down_at_both_ends, layer="link", hit=(RAIL_B,),
         wanted=(Wanted("link.one_twin", RAIL_B, (f"spark1 {B}", f"spark2 {B}", "plugs of cable")),)),
    pair(name="MTU low on one interface", inject=lambda lab: lab.ssh("spark2", f"ip link set {A} mtu 1500"), layer="address", hit=(RAIL_A,),
         wanted=(Wanted("address.mtu", f"spark2:{A}", ("1500", "9000", f"ip link set {A} mtu 9000")),)),
    pair(name="MTU low on RDMA only", inject=lambda lab: breaking.low_mtu_of_rdma(lab, "spark1", DEVICE_A), layer="rdma", hit=(RAIL_A,),
         wanted=(Wanted("rdma.mtu", RAIL_A, ("1024", "4096")),)),
    pair(name="rate limited on one rail, both ways", inject=lambda lab: breaking.slow_rail(lab, ("spark1", A), ("spark2", A)), layer="rdma", hit=(RAIL_A,),
         wanted=(Wanted(SLOW_IDS, RAIL_A, ("both ways",)),)),
    pair(name="loss of 1 %", inject=lambda lab: lab.fault("loss", CABLE, "1"), layer="rdma", hit=(CABLE,),
         wanted=(Wanted("rdma.loss", CABLE, ("% of the packets", "sent again", "plugs")),)),
    pair(name="loss of 10 %", inject=lambda lab: lab.fault("loss", CABLE, "10"), layer="rdma", hit=(CABLE,),
         wanted=(Wanted("rdma.loss", CABLE, ("% of the packets", "sent again", "plugs")),)),
    pair(name="twins in one subnet", inject=twins_in_one_subnet, layer="address", hit=(CABLE,),
         wanted=(Wanted("address.shared_network", CABLE, (A, B, "on spark2", "network of its own")),)),
    pair(name="neighbour entries with the other twin's MAC, ARP settings gone", layer="path", hit=(CABLE,),
         inject=lambda lab: breaking.mix_up_twins(lab, "spark1", "spark2", (A, B), ("192.168.177.12", "192.168.178.12")),
         wanted=(Wanted("path.neighbour", CABLE, (f"which is spark2 {A}", f"which is spark2 {B}", "arp_ignore=1 and arp_announce=2")),)),
    pair(name="address missing on one rail", layer="address", hit=(RAIL_B,),
         inject=lambda lab: breaking.replace_address(lab, "spark2", B, gone="192.168.178.12/24"),
         wanted=(Wanted("address.present", f"spark2:{B}", ("192.168.178.12", "Run site.yml")),)),
    pair(name="duplicate address", layer="address", hit=(RAIL_A,),
         inject=lambda lab: breaking.replace_address(lab, "spark2", A, new="192.168.177.11/24"),
         wanted=(Wanted("address.duplicate", f"spark2:{A}", (f"192.168.177.11 is also on spark1 {A}", "Remove the address from spark2")),)),
    pair(name="wrong prefix", inject=wrong_prefix, layer="address", hit=(RAIL_A,),
         wanted=(Wanted("address.prefix", f"spark2:{A}", ("/28", "/24", "Run site.yml")),)),
    pair(name="GID missing", inject=lambda lab: breaking.hide_gid(lab, "spark1", DEVICE_B), layer="address", hit=(RAIL_B,),
         wanted=(Wanted("address.gid", f"spark1:{B}", (DEVICE_B, "192.168.178.11", "down and up")),)),
    pair(name="memlock low", inject=lambda lab: breaking.low_memlock(lab, "spark2"), layer="node",
         wanted=(Wanted("node.memlock", "spark2", ("524288", "limits.d", "unlimited")),)),
    pair(name="perftest missing on one node", inject=lambda lab: breaking.no_perftest(lab, "spark2"), layer="rdma", hit=(CABLE,),
         wanted=(Wanted("rdma.tool", "spark2", ("not installed on spark2", "install perftest")),)),
    pair(name="perftest server killed in mid-test", inject=lambda lab: breaking.kill_server(lab, "spark2"), moment=MEASURING, layer="rdma", hit=(CABLE,),
         variables={"fabric_test_seconds": 6}, wanted=(Wanted("rdma.flaky", CABLE, ("fell short in 1 of",)),)),
    pair(name="firewall drops UDP 4791", layer="rdma", hit=(CABLE,), variables={"perftest_grace_seconds": 5},
         inject=lambda lab: breaking.wire_rules(lab, "oifname { s1p1a, s1p1b, s2p1a, s2p1b } udp dport 4791 drop"),
         wanted=(Wanted("rdma.timeout", CABLE, ("UDP port 4791", "firewall")),)),
    pair(name="clock wrong by a day", inject=lambda lab: lab.ssh("spark2", "date -s '+1 day'"), layer="node",
         wanted=(Wanted("node.clock", "spark2", ("1.0 days ahead of", "timedatectl set-ntp true")),)),
    pair(name="firewall on management blocks the rendezvous", layer="rdma", hit=(CABLE,),
         inject=lambda lab: breaking.wire_rules(lab, f"oifname m2 tcp dport {breaking.CONTROL_PORTS} drop"),
         wanted=(Wanted("rdma.control_port", "spark2", ("18500", "firewall", "Open TCP fabric_control_port")),)),
    pair(name="firewall on management blocks the tool's own port", layer="rdma", hit=(CABLE,), variables={"perftest_grace_seconds": 5},
         inject=lambda lab: breaking.wire_rules(lab, "oifname m2 tcp dport 18600-18700 drop"),
         wanted=(Wanted("rdma.control_port", "spark2", ("18600", "firewall", "fabric_test_port_base")),)),
    pair(name="a process with open queue pairs", layer="node", others=("skip",),
         inject=lambda lab: breaking.open_queue_pairs(lab, ("spark1", DEVICE_A), ("spark2", DEVICE_A), "10.77.0.12"),
         wanted=(Wanted("node.busy", "spark1", ("ib_write_bw", "Stop that program")), Wanted("node.busy", "spark2", ("ib_write_bw",)))),
    pair(name="ssh lost in mid-run, for 25 s: nothing is lost", moment=MEASURING, variables={"fabric_test_seconds": 6},
         inject=lambda lab: breaking.lose_ssh_for_a_while(lab, "spark2", 25)),
)
