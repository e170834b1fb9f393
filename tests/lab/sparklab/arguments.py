# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line of ``lab``: commands, options and their explanations."""

from __future__ import annotations

import argparse

from .wiring import MAX_NODES, TOPOLOGIES

ABOUT = """\
Virtual DGX Sparks on this machine: real netplan, ssh, RoCE (rdma_rxe) and perftest on emulated hardware.

  lab up --topology mesh --nodes 3     boot three and write inventories/lab
  ansible-playbook -i inventories/lab site.yml
  lab fault cut spark1:0-spark2:1      break something
  lab fault clear                      and mend it
  lab reset                            back to freshly booted machines, in seconds
  lab down
"""
CABLES = "CABLE is a name (spark1:0-spark2:1, spark1:1-switch) or a number, as lab status lists them."
DIRECTION = "only for what this end sends (spark1, or switch); both directions without it"


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(prog="lab", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, text: str, more: str = "") -> argparse.ArgumentParser:
        return commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}. {more}".strip(), formatter_class=argparse.RawDescriptionHelpFormatter
        )

    build = add("build", "build the disk image", "Done by up too. Kept under .lab/, built anew when its recipe (tests/lab/image) changes.")
    build.add_argument("--force", action="store_true", help="build it although it is there")
    add_up(add(
        "up", "boot the machines and write inventories/lab",
        "The first time builds the image, boots each machine once\nand measures what RDMA tests reach here; later it takes seconds."
        " Machines that run already stay as they are;\na lab with other cables is taken down first.",
    ))
    add("down", "end the machines and everything else of the lab that runs", "Image and snapshots stay in .lab/.")
    show = add("status", "show machines, cables and faults")
    show.add_argument("--json", action="store_true", help="for programs")
    ssh = add("ssh", "log in on a machine, or run a command there", "Example: lab ssh spark1 -- ip -br address")
    ssh.add_argument("--user", default="root", help="root (default) or spark (whose password, for sudo, is spark)")
    ssh.add_argument("node", help="spark1 or 1")
    ssh.add_argument("remote", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="what to run; a shell without it")
    add(
        "mark", "let resets come back to the machines as they are now", "For instance provisioned. Revived machines come back to it, too.\n"
        "It lasts until lab down, lab calibrate or lab reset --boot.",
    )
    reset = add(
        "reset", "bring running machines back to their first moment, or to the one of lab mark",
        "Faults are cleared, dead machines started, ssh connections dropped.",
    )
    reset.add_argument("--boot", action="store_true", help="forget the mark: back to freshly booted machines")
    add_faults(add("fault", "break something, or mend it", f"{CABLES}\nFaults add up; lab status lists them."))
    console = add("console", "attach to a machine's serial port", "A root shell is on it, also when its network is broken. Ctrl-] ends.")
    console.add_argument("node", help="spark1 or 1")
    proxy = add("proxy", "join stdin and stdout to a port inside the lab's network", "ssh's ProxyCommand for the lab.")
    proxy.add_argument("address")
    proxy.add_argument("port", type=int)
    run = add(
        "exec", "run a command of this host inside the lab's network",
        "Example: lab exec -- tcpdump -ni c1 (c1 is the first cable, s1p0a the first twin of spark1's port 0, brm management)",
    )
    run.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    add("calibrate", "measure again what RDMA tests reach on this host", "Resets the machines. Written into inventories/lab.")
    return top


def add_up(up: argparse.ArgumentParser) -> None:
    """Add the options of ``up``."""
    up.add_argument("--topology", choices=TOPOLOGIES, help="layout of the cables (default: mesh)")
    up.add_argument("--nodes", type=int, metavar="N", help=f"number of machines, 2 to {MAX_NODES} (default: as the topology needs)")
    up.add_argument("--order", metavar="1,2,4,3", help="order of the nodes round a ring")
    up.add_argument(
        "--cable", action="append", default=[], metavar="spark1:0-spark2:1", help="a cable of your own; repeat it; replaces --topology"
    )
    up.add_argument("--no-calibration", action="store_true", help="do not measure what RDMA tests reach here")


def add_faults(fault: argparse.ArgumentParser) -> None:
    """Add the kinds of faults."""
    kinds = fault.add_subparsers(dest="kind", required=True, metavar="KIND")

    def add(name: str, text: str, *places: str) -> argparse.ArgumentParser:
        kind = kinds.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}. {CABLES if 'cable' in places else ''}")
        for place in places:
            kind.add_argument(place, metavar=place.upper())
        return kind

    def one_way(kind: argparse.ArgumentParser) -> None:
        kind.add_argument("--from", dest="sender", metavar="NODE", help=DIRECTION)

    add("cut", "cut a cable: no carrier at both ends", "cable")
    add("twin-down", "take the carrier from one interface; its twin keeps it", "node", "interface")
    add("swap", "miswire: exchange the plugs of two cables at a node that both reach, else their far ends", "cable", "other")
    one_way(add("mtu", "a cable that loses packets above SIZE bytes", "cable", "size"))
    one_way(add("rate", "a slow cable; RATE as tc writes it, 50mbit", "cable", "rate"))
    one_way(add("loss", "a cable that loses PERCENT of its packets at random", "cable", "percent"))
    add("kill", "end a machine as a power cut does", "node")
    add("revive", "start a killed machine again, from its snapshot", "node")
    clear = add("clear", "undo all faults; dead machines start again from their snapshots")
    clear.add_argument("number", nargs="?", type=int, metavar="NUMBER", help="undo only this one, by its number in lab status")
