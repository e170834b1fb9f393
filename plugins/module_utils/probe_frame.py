# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Frames by which fabric interfaces find each other at layer 2, with no address configured. Pure: values in, bytes out, and back.

Each frame says who sends it: run, cluster, node, interface, port and rail. It goes to two destinations in turn:

* broadcast, which crosses a switch;
* the nearest-bridge group address of IEEE 802.1Q (table 8-1, 01-80-C2-00-00-0E, the one of LLDP), which no switch forwards: who
  hears that one is at the other end of the same cable.

The EtherType is 88B6, the second of the two that IEEE 802 leaves to experiments (the first is used by other tools for the same machines).
"""

from __future__ import annotations

import dataclasses
import hashlib
import struct

ETHERTYPE = 0x88B6
BROADCAST = bytes.fromhex("ffffffffffff")
NEAREST_BRIDGE = bytes.fromhex("0180c200000e")
MAGIC = b"DGXFABRC"
VERSION = 1
HEAD = struct.Struct("!8sB16sBc")
ETHERNET = struct.Struct("!6s6sH")
# Least payload of an Ethernet frame; drivers pad to it, so that length says nothing.
LEAST_PAYLOAD = 46
UNKNOWN_PORT = 255
TEXT_LIMIT = 255


@dataclasses.dataclass(frozen=True, slots=True)
class Hello:
    """What a frame says of its sender. ``run`` is a digest: frames of another run differ in it."""

    run: bytes
    cluster: str
    node: str
    interface: str
    port: int | None
    rail: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Received:
    """A frame that came in: its text, the sender's MAC address, and whether it came by the address that no switch forwards."""

    hello: Hello
    mac: str
    nearest: bool


def run_digest(run: str) -> bytes:
    """Return the mark of a run's frames."""
    return hashlib.sha256(run.encode("utf-8", "replace")).digest()[:16]


def mac_text(raw: bytes) -> str:
    """Return "02:00:00:00:00:01" of six bytes."""
    return ":".join(f"{byte:02x}" for byte in raw)


def mac_bytes(text: str) -> bytes:
    """Return the six bytes of a MAC address in text; raises ValueError."""
    raw = bytes.fromhex(text.replace(":", ""))
    if len(raw) != 6:
        raise ValueError(f"{text} is no MAC address")
    return raw


def encode(hello: Hello, source: bytes, destination: bytes) -> bytes:
    """Return the whole Ethernet frame."""
    port = UNKNOWN_PORT if hello.port is None else hello.port
    body = HEAD.pack(MAGIC, VERSION, hello.run, port, (hello.rail or "-").encode("ascii"))
    for text in (hello.cluster, hello.node, hello.interface):
        raw = text.encode("utf-8", "replace")[:TEXT_LIMIT]
        body += bytes([len(raw)]) + raw
    return ETHERNET.pack(destination, source, ETHERTYPE) + body.ljust(LEAST_PAYLOAD, b"\0")


def decode(frame: bytes) -> Received | None:
    """Read a frame; ``None`` for anything that is not one of ours, whatever its bytes."""
    if len(frame) < ETHERNET.size + HEAD.size:
        return None
    destination, source, kind = ETHERNET.unpack_from(frame)
    magic, version, run, port, rail = HEAD.unpack_from(frame, ETHERNET.size)
    if kind != ETHERTYPE or magic != MAGIC or version != VERSION:
        return None
    texts = []
    place = ETHERNET.size + HEAD.size
    for _each in range(3):
        if place >= len(frame):
            return None
        length = frame[place]
        raw = frame[place + 1:place + 1 + length]
        if len(raw) != length:
            return None
        text = raw.decode("utf-8", "replace")
        if not text.isprintable():
            return None
        texts.append(text)
        place += 1 + length
    hello = Hello(run, *texts, port=port if port in (0, 1) else None, rail=rail.decode("ascii") if rail in (b"a", b"b") else None)
    return Received(hello, mac_text(source), destination == NEAREST_BRIDGE)
