# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What two nodes say to each other while they measure: one JSON object a line.

The protocol carries states, not events. Each end tells where it stands in every test it shares with the
other, and tells it again on every new connection; a repeated or an older line changes nothing, so a
connection may be lost and made again at any moment.

``hello``  who speaks, to whom, of which run; first line both ways.
``state``  numbered; stage and outcome of each shared test.
``beat``   nothing new, still here.
``bye``    this end is through with all tests.
"""

from __future__ import annotations

import dataclasses
import hmac
import json
from typing import Any

PROTOCOL = 1
#: A state of all tests that two nodes may share is far below this; more is somebody else's traffic.
LINE_LIMIT = 128 * 1024
MESSAGE_LIMIT = 400

#: Stages of a test at one end, in their order.
STAGES = ("absent", "arrived", "listening", "running", "finished")


class ProtocolError(ValueError):
    """The other side does not speak this protocol, or is not whom we expect."""


@dataclasses.dataclass(frozen=True, slots=True)
class EndState:
    """Where one end stands in one attempt at a test.

    ``status``, ``error`` and ``message`` are its outcome once ``stage`` is "finished". ``changed`` tells that
    addresses or GIDs changed while the test ran, which makes it void at both ends.
    """

    stage: str = "absent"
    status: str | None = None
    error: str | None = None
    message: str | None = None
    changed: bool = False

    def reached(self, stage: str) -> bool:
        """Tell whether the end is at ``stage`` or beyond."""
        return STAGES.index(self.stage) >= STAGES.index(stage)


def hello(run: str, sender: str, to: str) -> bytes:
    """Return the first line of a connection."""
    return _line({"type": "hello", "protocol": PROTOCOL, "run": run, "from": sender, "to": to})


def state(number: int, tests: dict[str, EndState]) -> bytes:
    """Return the line that tells where the sender stands in ``tests`` (by test key)."""
    return _line({"type": "state", "number": number, "tests": {key: _trim(dataclasses.asdict(value)) for key, value in tests.items()}})


def beat() -> bytes:
    """Return the sign of life."""
    return _line({"type": "beat"})


def bye() -> bytes:
    """Return the last line of a connection that ends on purpose."""
    return _line({"type": "bye"})


def decode(line: bytes) -> dict[str, Any]:
    """Return the message of one line; raises ProtocolError when it is none."""
    try:
        message = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not a line of this protocol: {line[:40]!r}") from error
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ProtocolError(f"not a message of this protocol: {line[:40]!r}")
    return message


def check_hello(message: dict[str, Any], run: str, own_name: str) -> str:
    """Return the name of the sender of a hello that belongs to ``run`` and is meant for ``own_name``.

    Raises ProtocolError otherwise. The run's nonce is compared in constant time: it is what keeps
    strangers, and the remains of other runs, out.
    """
    if message.get("type") != "hello" or message.get("protocol") != PROTOCOL:
        raise ProtocolError("the first line is no hello of this protocol")
    values = [message.get(key) for key in ("run", "from", "to")]
    if not all(isinstance(value, str) and len(value) <= 256 for value in values):
        raise ProtocolError("the hello lacks run, from or to")
    if not hmac.compare_digest(values[0].encode("utf-8", "replace"), run.encode("utf-8")):
        raise ProtocolError(f"{values[1]!r} speaks of another run")
    if values[2] != own_name:
        raise ProtocolError(f"{values[1]!r} wanted to speak to {values[2]!r}")
    return str(values[1])


def read_state(message: dict[str, Any]) -> tuple[int, dict[str, EndState]]:
    """Return number and test states of a ``state`` message; raises ProtocolError when malformed."""
    number, tests = message.get("number"), message.get("tests")
    if not isinstance(number, int) or isinstance(number, bool) or not isinstance(tests, dict):
        raise ProtocolError("a state without number or tests")
    found = {}
    for key, value in tests.items():
        if not isinstance(value, dict) or value.get("stage") not in STAGES:
            raise ProtocolError(f"no state of a test: {key!r}")
        words = {name: value.get(name) for name in ("status", "error", "message")}
        if not all(word is None or isinstance(word, str) for word in words.values()):
            raise ProtocolError(f"the outcome of {key!r} is not text")
        found[str(key)] = EndState(stage=value["stage"], changed=value.get("changed") is True, **words)
    return number, found


class LineBuffer:
    """Cuts received bytes into lines; raises ProtocolError when a line grows beyond any message."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, received: bytes) -> list[bytes]:
        """Return the lines that ``received`` completes."""
        *lines, self._rest = (self._rest + received).split(b"\n")
        if len(self._rest) > LINE_LIMIT or any(len(line) > LINE_LIMIT for line in lines):
            raise ProtocolError("a line longer than any message")
        return lines


def _trim(value: dict[str, Any]) -> dict[str, Any]:
    return {key: item[:MESSAGE_LIMIT] if isinstance(item, str) else item for key, item in value.items() if item not in (None, False)}


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode("utf-8") + b"\n"
