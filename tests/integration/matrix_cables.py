# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The faults on a mesh of three, a ring of four and a switch: which cable, which node, which direction."""

from __future__ import annotations

import functools

import matrix_breaking as breaking
from conftest import Lab
from matrix_pair import MEASURING, SLOW_IDS
from matrix_verdict import Fault, Wanted

A0, B0, A1, B1 = "enp1s0f0np0", "enP2p1s0f0np0", "enp1s0f1np1", "enP2p1s0f1np1"
CABLE, SECOND, THIRD = "spark1:0-spark2:1", "spark1:1-spark3:0", "spark2:0-spark3:1"
RING_CABLE, RING_SECOND, RING_THIRD = "spark1:0-spark2:1", "spark2:0-spark3:1", "spark3:0-spark4:1"
PORT1, PORT2, PORT3 = "spark1:1-switch", "spark2:1-switch", "spark3:1-switch"
OBSERVING = r"TASK \[dgxspark.fabric.observe : Read the node"
PROBING = r"TASK \[dgxspark.fabric.cabling : End the probe"

mesh = functools.partial(Fault, topology="mesh")
ring = functools.partial(Fault, topology="ring")
switch = functools.partial(Fault, topology="switch")


def gone(ids: str, *words: str) -> tuple[Wanted, ...]:
    """Return what has to be found on a mesh when spark3 is gone."""
    cables = (Wanted("node.not_measured", name, ("spark3 did not answer", "Bring spark3 back")) for name in (SECOND, THIRD))
    return (Wanted(ids, "spark3", words), *cables)


def three_plugs_moved_on(lab: Lab) -> None:
    """Give three cables of the ring each the place of another: no exchange of two puts them right."""
    lab.fault("swap", RING_CABLE, RING_THIRD)
    lab.fault("swap", RING_SECOND, RING_CABLE)


MESH = (
    mesh(name="cable cut", inject=lambda lab: lab.fault("cut", CABLE), layer="link", hit=(CABLE,),
         wanted=(Wanted("link.carrier", CABLE, (f"spark1 {A0}", f"spark2 {B1}", "both rails", "until they click")),)),
    mesh(name="one twin down at one end", inject=lambda lab: lab.fault("twin-down", "spark1", B0), layer="link", hit=(f"{CABLE}/b",),
         wanted=(Wanted("link.one_twin", f"{CABLE}/b", (f"spark1 {B0}", "other rail of the same cable has one")),)),
    mesh(name="cables swapped at one node", inject=lambda lab: lab.fault("swap", CABLE, THIRD), layer="link", hit=(CABLE, THIRD),
         wanted=tuple(Wanted("link.cabling", name, ("spark2 port 0 and spark2 port 1 are swapped", "Exchange the two plugs at spark2"))
                      for name in (CABLE, THIRD))),
    mesh(name="MTU low on the cable", inject=lambda lab: lab.fault("mtu", CABLE, "1500"), layer="path", hit=(CABLE,),
         wanted=(Wanted("path.mtu", CABLE, ("9000", "Largest size that passes: 1[45]", "Raise the MTU between spark1 port 0 and spark2 port 1")),)),
    mesh(name="MTU low on the cable, one direction", inject=lambda lab: lab.fault("mtu", CABLE, "1500", "--from", "spark2"), layer="path", hit=(CABLE,),
         wanted=(Wanted("path.mtu", CABLE, ("9000", "Largest size that passes: 1[45]")),)),
    mesh(name="rate limited both ways", inject=lambda lab: lab.fault("rate", CABLE, breaking.SLOW), layer="rdma", hit=(CABLE,),
         wanted=(Wanted(SLOW_IDS, CABLE, ("spark1", "spark2", "both")),)),
    mesh(name="rate limited one way", inject=lambda lab: lab.fault("rate", CABLE, breaking.SLOW, "--from", "spark1"), layer="rdma", hit=(CABLE,),
         wanted=(Wanted(SLOW_IDS, CABLE, ("only spark1 -> spark2 falls short",)),)),
    mesh(name="black hole with carrier up", inject=lambda lab: lab.fault("loss", CABLE, "100"), layer="link", hit=(CABLE,),
         wanted=(Wanted("link.hears", CABLE, ("hears nobody", "Exchange cable")),)),
    mesh(name="node killed while it is observed", inject=lambda lab: lab.fault("kill", "spark3"), moment=OBSERVING, layer="node", hit=(SECOND, THIRD),
         wanted=gone("node.reachable|node.lost", "spark3")),
    mesh(name="node killed while the links are probed", inject=lambda lab: lab.fault("kill", "spark3"), moment=PROBING, layer="node", hit=(SECOND, THIRD),
         wanted=gone("node.lost", "dropped out in mid-run", "console")),
    mesh(name="node killed while it measures", inject=lambda lab: breaking.kill_measuring(lab, "spark3"), moment=MEASURING, layer="node", hit=(SECOND, THIRD),
         wanted=gone("node.lost", "dropped out in mid-run", "console")),
    mesh(name="ssh lost in mid-run, for good", inject=lambda lab: breaking.block_ssh_measuring(lab, "spark3"), moment=MEASURING, layer="node",
         hit=(SECOND, THIRD), wanted=gone("node.lost", "dropped out in mid-run", "management network")),
)

TWO_FORKS = ("--forks", "2")
RING_CUT = functools.partial(ring, inject=lambda lab: lab.fault("cut", RING_CABLE), layer="link", hit=(RING_CABLE,),
                             wanted=(Wanted("link.carrier", RING_CABLE, (f"spark1 {A0}", f"spark2 {B1}", "both rails")),))

RING = (
    ring(name="none, two forks", inject=lambda lab: None, options=TWO_FORKS),
    RING_CUT(name="cable cut"),
    RING_CUT(name="cable cut, two forks", options=TWO_FORKS),
    ring(name="cables swapped at their far ends", inject=lambda lab: lab.fault("swap", RING_CABLE, RING_THIRD), layer="link", hit=(RING_CABLE, RING_THIRD),
         wanted=tuple(Wanted("link.cabling", name, ("spark2 port 1 and spark4 port 1 are swapped", "Exchange the two plugs at spark2 port 1 and spark4 port 1"))
                      for name in (RING_CABLE, RING_THIRD))),
    ring(name="cables to the wrong nodes", inject=three_plugs_moved_on, layer="link", hit=(RING_CABLE, RING_SECOND, RING_THIRD),
         wanted=tuple(Wanted("link.cabling", name, ("goes from|is in port", "expected", "plug at")) for name in (RING_CABLE, RING_SECOND, RING_THIRD))),
    ring(name="rate limited one way", inject=lambda lab: lab.fault("rate", RING_THIRD, breaking.SLOW, "--from", "spark4"), layer="rdma", hit=(RING_THIRD,),
         wanted=(Wanted(SLOW_IDS, RING_THIRD, ("only spark4 -> spark3 falls short",)),)),
)

SWITCH = (
    switch(name="cable cut", inject=lambda lab: lab.fault("cut", PORT1), layer="link", hit=(PORT1,),
           wanted=(Wanted("link.carrier", PORT1, (f"spark1 {A1}", f"spark1 {B1}", "spark1 port 1 and the switch")),)),
    switch(name="one twin down", inject=lambda lab: lab.fault("twin-down", "spark2", B1), layer="link", hit=(f"{PORT2}/b",),
           wanted=(Wanted("link.one_twin", f"{PORT2}/b", (f"spark2 {B1}",)),)),
    switch(name="switch port kept apart", inject=lambda lab: lab.call("exec", "--", "ip", "link", "set", "x3", "nomaster"), layer="link", hit=(PORT3,),
           wanted=(Wanted("link.hears", PORT3, (f"spark3 {A1}", f"spark3 {B1}", "a switch port keeps it apart")),)),
    switch(name="address missing on one rail", inject=lambda lab: breaking.replace_address(lab, "spark1", B1, gone="192.168.178.11/24"), layer="address",
           hit=(f"{PORT1}/b",), wanted=(Wanted("address.present", f"spark1:{B1}", ("192.168.178.11",)),)),
    switch(name="MTU low on one switch port", inject=lambda lab: lab.fault("mtu", PORT3, "1500"), layer="path", hit=(PORT3,),
           wanted=(Wanted("path.mtu", PORT3, ("spark3 port 1 and the switch", "on a switch 9216")),)),
    switch(name="loss of 10 % at one switch port", inject=lambda lab: lab.fault("loss", PORT2, "10"), layer="rdma", hit=(PORT2,),
           wanted=(Wanted("rdma.loss", PORT2, ("% of the packets", "behind a switch|on a switch")),)),
    switch(name="rate limited at one switch port", inject=lambda lab: lab.fault("rate", PORT3, breaking.SLOW), layer="rdma", hit=(PORT3,),
           wanted=(Wanted(SLOW_IDS, PORT3, ("spark3",)),)),
)
