# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find out who is at the other end of each fabric interface: say who we are on each, and note whom we hear.

Nodes start at different moments, so a prober keeps sending and listening until the controller says that all have started
(a file appears), and some time more; then it writes down what it heard. It never runs longer than its window, and never sends
more frames than that window holds. A port that is switched off is left alone, or raised for the time of the probe.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import pathlib
import selectors
import socket
import struct
import time
import typing as t

from ansible_collections.dgxspark.fabric.plugins.module_utils import fabric_ports, lldp_neighbours, probe_frame, sysfs
from ansible_collections.dgxspark.fabric.plugins.module_utils.command import Runner

#: Seconds between two frames of an interface (they alternate between the two destinations).
INTERVAL = 0.25
#: Seconds for which all probers send and listen together, at least: eight frames, of which one must arrive.
SETTLE = 2.0
#: Seconds that a port may take from being raised until its link carries (a ConnectX-7 trains its link for some seconds).
TRAINING = 12.0
#: Longest time that a prober runs, whatever it is asked, in seconds.
LONGEST_WINDOW = 900.0
READ_LIMIT = 2048

# linux/if_packet.h, linux/sockios.h, linux/if.h
SOL_PACKET, PACKET_ADD_MEMBERSHIP, PACKET_MR_MULTICAST, PACKET_OUTGOING = 263, 1, 0, 4
SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1

NOT_PROBED = "admin down, not probed"
#: File in the probe's folder by which the controller says that all have started.
FINISH = "finish.json"


class ProbeError(RuntimeError):
    """An interface cannot be probed; the text says why and what to do."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProbeSpec:
    """What to probe. ``interfaces`` empty means every fabric interface; those in ``exclude`` never are."""

    run: str
    cluster: str
    node: str
    interfaces: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    raise_ports: bool = False
    window: float = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Finish:
    """The controller's word that all have started: for how many more seconds to go on, and whether ports were raised somewhere."""

    settle: float = SETTLE
    raised: bool = False


def read_finish(path: pathlib.Path) -> Finish | None:
    """Read the controller's word, ``None`` while there is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return Finish(min(60.0, max(0.0, float(document["settle"]))), document["raised"] is True)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def set_admin_state(interface: str, up: bool) -> None:
    """Switch an interface on or off; raises OSError."""
    request = struct.Struct("16sH22x")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        answer = fcntl.ioctl(handle.fileno(), SIOCGIFFLAGS, request.pack(interface.encode(), 0))
        flags = request.unpack(answer)[1]
        fcntl.ioctl(handle.fileno(), SIOCSIFFLAGS, request.pack(interface.encode(), flags | IFF_UP if up else flags & ~IFF_UP))


def open_socket(interface: str) -> socket.socket:
    """Return a raw socket on an interface that takes our frames only; raises OSError."""
    handle = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        index = socket.if_nametoindex(interface)
        handle.setsockopt(SOL_PACKET, PACKET_ADD_MEMBERSHIP, struct.pack("iHH8s", index, PACKET_MR_MULTICAST, 6, probe_frame.NEAREST_BRIDGE))
        # Bound with the EtherType only now, so that nothing of another interface is ever queued.
        handle.bind((interface, probe_frame.ETHERTYPE))
        handle.setblocking(False)
    except OSError:
        handle.close()
        raise
    return handle


class Ear:
    """One interface: what is sent and heard on it."""

    def __init__(self, tree: sysfs.Tree, name: str, place: tuple[int, str]) -> None:
        self.name = name
        self.place = place
        self.tree = tree
        self.mac = tree.text("sys/class/net", name, "address") or "00:00:00:00:00:00"
        self.admin_up = bool((tree.number("sys/class/net", name, "flags") or 0) & sysfs.IFF_UP)
        self.raised = False
        self.handle: socket.socket | None = None
        self.sent = 0
        self.error: str | None = None
        self.carrier: bool | None = None
        self.carrier_since: float | None = None
        self.heard: dict[tuple[t.Any, ...], dict[str, t.Any]] = {}

    def look(self, now: float) -> None:
        """Note whether the link carries, and since when."""
        self.carrier = sysfs.carrier(self.tree, self.name)
        if self.carrier and self.carrier_since is None:
            self.carrier_since = now
        elif not self.carrier:
            self.carrier_since = None

    def send(self, frame: bytes) -> None:
        """Send one frame; a link that is down costs the frame, nothing else."""
        if self.handle is None:
            return
        try:
            self.handle.send(frame)
            self.sent += 1
        except OSError as exc:
            self.error = f"frames cannot be sent: {exc}"

    def listen(self, run: bytes, cluster: str) -> None:
        """Take every frame that waits."""
        while self.handle is not None:
            try:
                frame, address = self.handle.recvfrom(READ_LIMIT)
            except OSError:  # none waits, or the interface has just gone down, which is told once
                return
            received = probe_frame.decode(frame) if address[2] != PACKET_OUTGOING else None
            if received is not None:
                self.note(received, received.hello.run == run and received.hello.cluster == cluster)

    def note(self, received: probe_frame.Received, known: bool) -> None:
        """Note a frame's sender. Frames of another run or cluster are kept apart: they come from a stranger."""
        hello = received.hello
        key = (hello.cluster, hello.node, hello.interface, received.mac, known)
        if key not in self.heard and len(self.heard) >= 512:
            return
        # On a switch everybody hears everybody, so an entry is kept short.
        entry = self.heard.setdefault(key, {
            "node": hello.node, "interface": hello.interface, "port": hello.port, "rail": hello.rail, "mac": received.mac, "direct": False,
            **({} if known else {"cluster": hello.cluster})})
        entry["direct"] = entry["direct"] or received.nearest

    def document(self) -> dict[str, t.Any]:
        """Return what was found, as the fact has it."""
        state = "probed" if self.handle is not None else NOT_PROBED if not self.admin_up and not self.raised else "not probed"
        heard = sorted(self.heard.values(), key=lambda entry: (entry["node"], entry["interface"], entry["mac"], entry.get("cluster", "")))
        return {
            "port": self.place[0], "rail": self.place[1], "mac": self.mac, "admin_up": self.admin_up, "raised": self.raised, "carrier": self.carrier,
            "state": state, "sent": self.sent, "error": self.error,
            "heard": [entry for entry in heard if "cluster" not in entry], "strangers": [entry for entry in heard if "cluster" in entry]}


class LinkProber:
    """The probe of one node."""

    def __init__(self, spec: ProbeSpec, run: Runner, tree: sysfs.Tree | None = None) -> None:
        self.spec = spec
        self._run = run
        self._tree = tree or sysfs.Tree("/")
        self._digest = probe_frame.run_digest(spec.run)
        self.ears = self._ears()

    def _ears(self) -> list[Ear]:
        places = fabric_ports.fabric_interfaces(self._tree)
        wanted = self.spec.interfaces or tuple(places)
        for name in wanted:
            if name not in places and self._tree.exists("sys/class/net", name):
                raise ProbeError(f"{name} of {self.spec.node} is no fabric interface; expected one of {', '.join(places) or 'none, since this node has none'}")
        return [Ear(self._tree, name, places[name]) for name in wanted if name in places and name not in self.spec.exclude]

    @property
    def raised(self) -> list[str]:
        """Names of the interfaces that were switched on for the probe."""
        return [ear.name for ear in self.ears if ear.raised]

    def open(self) -> None:
        """Raise what is to be raised and open the sockets; raises ProbeError, with all as it was."""
        try:
            for ear in self.ears:
                if not ear.admin_up and self.spec.raise_ports:
                    set_admin_state(ear.name, True)
                    ear.raised = True
                if ear.admin_up or ear.raised:
                    ear.handle = open_socket(ear.name)
        except OSError as exc:
            self.close()
            hint = "the module needs root (become: true)" if isinstance(exc, PermissionError) else "see ip link there"
            raise ProbeError(f"the fabric interfaces of {self.spec.node} cannot be probed: {exc}; {hint}") from exc

    def close(self) -> None:
        """Close the sockets and switch off again what was switched on."""
        for ear in self.ears:
            if ear.handle is not None:
                ear.handle.close()
            if ear.raised:
                with contextlib.suppress(OSError):
                    set_admin_state(ear.name, False)

    def probe(self, finish: t.Callable[[], Finish | None]) -> dict[str, t.Any]:
        """Send and listen until ``finish`` says so, or the window is over; return the fact ``fabric_neighbours``."""
        began = time.monotonic()
        until = began + min(self.spec.window, LONGEST_WINDOW)
        told_at: float | None = None
        told: Finish | None = None
        turn = 0
        with selectors.DefaultSelector() as selector:
            for ear in self.ears:
                if ear.handle is not None:
                    selector.register(ear.handle, selectors.EVENT_READ, ear)
            while True:
                now = time.monotonic()
                for ear in self.ears:
                    ear.look(now)
                if told is None:
                    told = finish()
                    told_at = now if told else None
                if now >= until or (told is not None and told_at is not None and self._enough(told, told_at, now)):
                    break
                destination = (probe_frame.BROADCAST, probe_frame.NEAREST_BRIDGE)[turn % 2]
                turn += 1
                for ear in self.ears:
                    ear.send(self._frame(ear, destination))
                self._listen(selector, min(until, now + INTERVAL))
        witness, reason = lldp_neighbours.ask(self._run)
        return {
            "node": self.spec.node, "complete": told is not None, "seconds": round(time.monotonic() - began, 2),
            "interfaces": {ear.name: ear.document() for ear in self.ears},
            "lldp": witness, "lldp_unavailable": reason or None}

    def _enough(self, told: Finish, told_at: float, now: float) -> bool:
        """Tell whether everybody has had the time to be heard."""
        if now - told_at < told.settle:
            return False
        if not told.raised or now - told_at >= TRAINING:
            return True
        # Somebody raised a port: its link, and so the one here, may only now come up.
        return all(ear.carrier_since is not None and now - ear.carrier_since >= SETTLE for ear in self.ears if ear.handle is not None)

    def _frame(self, ear: Ear, destination: bytes) -> bytes:
        hello = probe_frame.Hello(self._digest, self.spec.cluster, self.spec.node, ear.name, ear.place[0], ear.place[1])
        return probe_frame.encode(hello, probe_frame.mac_bytes(ear.mac), destination)

    def _listen(self, selector: selectors.BaseSelector, until: float) -> None:
        while (left := until - time.monotonic()) > 0:
            if not selector.get_map():
                time.sleep(left)
                return
            for key, _events in selector.select(left):
                key.data.listen(self._digest, self.spec.cluster)
