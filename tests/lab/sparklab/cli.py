# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs what the command line asks for."""

from __future__ import annotations

import argparse
import json
import os
import sys

from . import arguments, devices, host
from .errors import LabError
from .progress import say


def main(words: list[str] | None = None) -> int:
    """Run one command; return its exit status (1 for errors that the user can act on)."""
    options = arguments.parser().parse_args(words)
    host.widen_path()
    try:
        return COMMANDS[options.command](options) or 0
    except LabError as error:
        say(f"lab {options.command}: {error}")
        return 1
    except KeyboardInterrupt:
        say(f"lab {options.command}: interrupted; the same command again goes on or cleans up")
        return 130
    except BrokenPipeError:
        return 141


def build(options: argparse.Namespace) -> None:
    """``lab build``."""
    from . import image, lock

    with lock.exclusive():
        name, _folder = image.ensure(options.force)
    say(f"image {name} is there")


def up(options: argparse.Namespace) -> None:
    """``lab up``."""
    from . import lock, operations, wiring

    order: tuple[int, ...] = ()
    if options.order:
        try:
            order = tuple(int(part.removeprefix("spark")) for part in options.order.split(","))
        except ValueError as error:
            raise LabError(f"--order {options.order}: write node numbers with commas, 1,2,4,3") from error
    if options.cable and options.topology:
        raise LabError("--cable lists a fabric of your own; leave out --topology")
    topology = None if options.cable else options.topology or "mesh"
    wanted = wiring.make_wiring(topology, options.nodes, order, tuple(options.cable))
    with lock.exclusive():
        operations.up(wanted, calibrate=not options.no_calibration)


def down(options: argparse.Namespace) -> None:
    """``lab down``."""
    from . import lock, operations

    with lock.exclusive():
        operations.down()


def reset(options: argparse.Namespace) -> None:
    """``lab reset``."""
    from . import lock, operations

    with lock.exclusive():
        operations.reset(options.boot)


def mark(options: argparse.Namespace) -> None:
    """``lab mark``."""
    from . import lock, operations

    with lock.exclusive():
        operations.mark()


def calibrate(options: argparse.Namespace) -> None:
    """``lab calibrate``."""
    from . import lock, operations

    with lock.exclusive():
        print(json.dumps(operations.recalibrate(), indent=1))


def status(options: argparse.Namespace) -> int:
    """``lab status``: 0 when the lab is up, 3 when it is not."""
    from . import operations

    data = operations.status()
    if options.json:
        print(json.dumps(data, indent=1))
        return 0 if data["up"] else 3
    if not data["up"]:
        print(f"the lab is down; its image {data['image']} is {'built' if data['image_built'] else 'not built'}")
        return 3
    how = "KVM" if data["accelerator"] == "kvm" else "software emulation"
    print(f"{data['topology']} of {len(data['nodes'])}, {how}, image {data['image']}")
    if not data["image_is_current"]:
        print("  the image's recipe has changed since: the next lab up starts the machines anew")
    for name, node in data["nodes"].items():
        print(f"  {name}  {node['address']}  {'process ' + str(node['pid']) if node['pid'] else 'DEAD'}")
    for place, cable in enumerate(data["cables"], 1):
        print(f"  cable {place}: {cable}")
    for place, fault in enumerate(data["faults"], 1):
        print(f"  fault {place}: {fault['text']}")
    for kind, rates in (data["calibration"] or {}).items():
        print(f"  expected {kind} Gb/s by tests at once: " + ", ".join(f"{count}: {rate}" for count, rate in rates.items()))
    return 0


def fault(options: argparse.Namespace) -> None:
    """``lab fault``."""
    from . import lock, operations

    with lock.exclusive():
        if options.kind == "clear":
            if options.number is None:
                count = operations.clear_faults()
                print(f"{count} fault{'' if count == 1 else 's'} undone")
            else:
                print(f"undone: {operations.clear_fault(options.number)}")
        elif options.kind == "revive":
            print(operations.revive(options.node))
        else:
            values = {name: value for name, value in vars(options).items() if name not in ("command", "kind")}
            print(operations.add_fault(options.kind, **values))


def without_dashes(words: list[str]) -> list[str]:
    """Drop the ``--`` before a command."""
    return words[1:] if words[:1] == ["--"] else words


def ssh(options: argparse.Namespace) -> int:
    """``lab ssh``: becomes ssh."""
    from . import ssh as connection
    from . import state

    present = state.running()
    command = connection.command(present.wiring.node(options.node), without_dashes(options.remote), options.user)
    os.execvp(command[0], command)


def console(options: argparse.Namespace) -> None:
    """``lab console``."""
    from . import console as serial
    from . import machines, state

    present = state.load()
    if present is None or not present.holder_alive():
        raise LabError("the lab is not up; start it with: lab up --topology mesh --nodes 3")
    number = present.wiring.node(options.node)
    serial.attach(number, machines.socket_path(number, "console"))


def proxy(options: argparse.Namespace) -> None:
    """``lab proxy``."""
    from . import proxy as carrier
    from . import state

    present = state.load()
    if present is None or not present.holder_alive():
        raise LabError("the lab is not up; start it with: lab up --topology mesh --nodes 3")
    carrier.pump(carrier.connect(present, options.address, options.port))


def run(options: argparse.Namespace) -> int:
    """``lab exec``: becomes the command."""
    from . import namespace, state

    words = without_dashes(options.words)
    if not words:
        raise LabError(f"give a command, for instance: lab exec -- ping -c 3 {devices.address(1)}")
    command = [*namespace.enter_command(state.running().holder), *words]
    sys.stdout.flush()
    os.execvp(command[0], command)


COMMANDS = {
    "build": build, "up": up, "down": down, "status": status, "ssh": ssh, "mark": mark, "reset": reset, "fault": fault,
    "console": console, "proxy": proxy, "exec": run, "calibrate": calibrate,
}
