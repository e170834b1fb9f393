# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the commands do: up, down, reset, faults. Each holds the lab's lock, and each may be repeated."""

from __future__ import annotations

import time
from typing import Any

from . import calibration, devices, faults, host, image, inventory, kvm, machines, namespace, network, snapshots, ssh, state
from .errors import LabError
from .paths import REPOSITORY
from .progress import say, step
from .state import State
from .wiring import Wiring


def up(wiring: Wiring, calibrate: bool = True) -> State:
    """Bring up a wiring; machines that run already are left alone, a lab of another wiring is taken down.

    Raises:
        LabError: something is missing on the host, or a machine did not start.
    """
    host.require(host.RUN_PROGRAMS)
    host.require_tun()
    began = time.monotonic()
    image_name, _folder = image.ensure()
    accelerator = kvm.choose()
    key = snapshots.key(image_name, accelerator)
    present = state.load()
    if present and present.ready and present.holder_alive() and (present.wiring, present.snapshots) == (wiring, key):
        heal(present)
    else:
        present = fresh(wiring, image_name, accelerator, key)
        if calibrate and calibration.load(present) is None:
            calibration.store(present, calibration.measure(present))
            restore(present)
        present.ready = True
        state.save(present)
    rates = calibration.load(present)
    if rates is None:
        say("no calibration: expected rates are those of real hardware; lab calibrate measures what this host reaches")
    folder = inventory.write(wiring, rates or {})
    say(f"up after {time.monotonic() - began:.1f} s; inventory: {folder.relative_to(REPOSITORY)}")
    return present


def fresh(wiring: Wiring, image_name: str, accelerator: str, key: str) -> State:
    """Start everything anew, after what was there before has been removed."""
    clear_away()
    holder, started = namespace.start()
    present = State(wiring, holder, started, accelerator, image_name, key)
    state.save(present)
    network.setup(present)
    present.host_keys = snapshots.ensure(present)
    ssh.write_known_hosts(present)
    wanted = faults.wanted(wiring, [])
    network.apply(present, wanted)
    with step(f"starting {wiring.nodes} machines from their snapshots"):
        machines.start_from_snapshot(present, wiring.numbers, wanted)
    return present


def heal(present: State) -> None:
    """Start machines that have died by themselves, and bring the network to what it should be."""
    wanted = faults.wanted(present.wiring, present.faults)
    network.apply(present, wanted)
    dead = [number for number in present.wiring.numbers if number not in wanted.killed and machines.pid_of(number) is None]
    if dead:
        with step(f"starting {', '.join(devices.node_name(number) for number in dead)} again"):
            machines.start_from_snapshot(present, dead, wanted)
    machines.apply_links(present.wiring, wanted)
    if present.faults:
        say(f"{len(present.faults)} faults stay as they are; lab fault clear undoes them")


def clear_away() -> None:
    """End everything of this checkout's lab, also what a killed command has left."""
    ssh.drop_connections()
    namespace.stop()
    machines.remove_files()
    state.forget()


def down() -> None:
    """Take the lab down; image and snapshots stay."""
    clear_away()
    image.clean_leftovers()
    say("down")


def restore(present: State) -> None:
    """Bring all machines back to their snapshots, without faults."""
    present.faults = []
    state.save(present)
    wanted = faults.wanted(present.wiring, [])
    network.apply(present, wanted)
    ssh.drop_connections()

    def work(number: int) -> None:
        if machines.pid_of(number) is None:
            machines.start_from_snapshot(present, [number], wanted)
        else:
            machines.reload(number, machines.moment(present).snapshot, wanted)

    machines.in_parallel(work, present.wiring.numbers)


def mark() -> None:
    """Let resets come back to this moment.

    Raises:
        LabError: a machine is dead, or a fault is in force, whose traces would stay in the snapshots.
    """
    began = time.monotonic()
    present = state.running()
    if present.faults:
        raise LabError("there are faults; lab fault clear undoes them")
    machines.in_parallel(machines.mark, present.wiring.numbers)
    present.marked = True
    state.save(present)
    say(f"marked in {time.monotonic() - began:.1f} s; lab reset comes back to this moment")


def reset(boot: bool = False) -> None:
    """Bring a running lab back to the moment of its mark, or to its first one."""
    began = time.monotonic()
    present = state.running()
    present.marked = present.marked and not boot
    restore(present)
    say(f"reset in {time.monotonic() - began:.1f} s")


def recalibrate() -> dict[str, dict[str, float]]:
    """Measure again; the machines are brought back to their first moment before and after."""
    present = state.running()
    present.marked = False
    restore(present)
    rates = calibration.measure(present)
    calibration.store(present, rates)
    restore(present)
    inventory.write(present.wiring, rates)
    return rates


def add_fault(kind: str, **values: Any) -> str:
    """Bring about a fault and return its description.

    Raises:
        LabError: it cannot be made as asked.
    """
    present = state.running()
    fault = faults.make(present.wiring, kind, **values)
    if fault in present.faults:
        return f"already so: {faults.describe(fault)}"
    present.faults.append(fault)
    state.save(present)
    wanted = faults.wanted(present.wiring, present.faults)
    if kind == "kill":
        machines.kill(fault["node"])
    else:
        network.apply(present, wanted)
        machines.apply_links(present.wiring, wanted)
    return faults.describe(fault)


def clear_faults(kept: list[dict[str, Any]] | None = None) -> int:
    """Undo all faults but those ``kept``; dead machines start again from their snapshots. Return how many were undone."""
    present = state.running()
    before = len(present.faults)
    present.faults = kept or []
    state.save(present)
    # Neighbours' control connections to a machine that starts again are of no use any more.
    wanted = faults.wanted(present.wiring, present.faults)
    if any(machines.pid_of(number) is None and number not in wanted.killed for number in present.wiring.numbers):
        ssh.drop_connections()
    heal(present)
    return before - len(present.faults)


def clear_fault(place: int) -> str:
    """Undo one fault by its place in ``lab status`` (from 1).

    Raises:
        LabError: no such fault.
    """
    present = state.running()
    if not 1 <= place <= len(present.faults):
        raise LabError(f"no fault {place}; lab status lists the {len(present.faults)} there are")
    gone = present.faults[place - 1]
    clear_faults([fault for number, fault in enumerate(present.faults, 1) if number != place])
    return faults.describe(gone)


def status() -> dict[str, Any]:
    """Return what runs."""
    present = state.load()
    image_name, folder = image.current()
    data: dict[str, Any] = {"up": False, "image": image_name, "image_built": image.is_built(folder)}
    if present is None or not present.holder_alive():
        return data
    wiring = present.wiring
    data.update(
        up=present.ready, accelerator=present.accelerator, topology=wiring.topology, image=present.image,
        image_is_current=present.image == image_name,
        nodes={
            devices.node_name(number): {"address": devices.address(number), "pid": machines.pid_of(number)} for number in wiring.numbers
        },
        cables=[cable.name for cable in wiring.cables],
        faults=[{**fault, "text": faults.describe(fault)} for fault in present.faults],
        calibration=calibration.load(present),
    )
    return data


def revive(text: str) -> str:
    """Start a killed machine again; return what was done.

    Raises:
        LabError: no such node.
    """
    number = state.running().wiring.node(text)
    clear_faults([fault for fault in state.running().faults if (fault["kind"], fault.get("node")) != ("kill", number)])
    return f"{devices.node_name(number)} runs"
