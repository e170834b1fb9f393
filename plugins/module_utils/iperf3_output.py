# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read what ``iperf3 -J`` prints. iperf3 3.12 exits 0 on "connection refused": the key ``error`` is the only witness.

Units: ``_gbps`` 10^9 bit/s, ``_us`` microseconds, ``_bytes`` bytes.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
import typing as t

TEXT_LIMIT = 64 * 2**20


class Iperf3OutputError(ValueError):
    """The text is not JSON of iperf3."""


@dataclasses.dataclass(frozen=True, slots=True)
class Iperf3Output:
    """One run. ``received_gbps`` is None where nothing was measured: that is a failure, whatever the exit status."""

    version: str | None
    remote_host: str | None
    streams: int | None
    protocol: str | None
    reverse: bool
    sent_gbps: float | None
    received_gbps: float | None
    retransmits: int | None
    path_mtu_bytes: int | None
    mean_rtt_us: float | None
    error: str | None

    @property
    def one_thread(self) -> bool:
        """Tell whether this version serves all streams in one thread (before 3.16): a low figure may be the tool's."""
        return one_thread(self.version or "")


def one_thread(version: str) -> bool:
    """Tell whether this version of iperf3 serves all streams in one thread, as all before 3.16 do."""
    parts = tuple(int(part) for part in version.split(".")[:2] if part.isascii() and part.isdigit())
    return len(parts) == 2 and parts < (3, 16)


def looks_like(document: t.Any) -> bool:
    """Tell whether parsed JSON is a document of iperf3."""
    return isinstance(document, dict) and isinstance(document.get("start"), dict) and "intervals" in document and "end" in document


def parse(text: str) -> Iperf3Output:
    """Return what one run says.

    Raises Iperf3OutputError when the text is no JSON of iperf3.
    """
    if not isinstance(text, str):
        raise Iperf3OutputError(f"expected text, got {type(text).__name__}")
    if len(text) > TEXT_LIMIT:
        raise Iperf3OutputError(f"{len(text)} characters are more than iperf3 prints ({TEXT_LIMIT})")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise Iperf3OutputError("the text is not JSON: iperf3 was not started with -J, or was ended before it wrote") from exc
    return read(document)


def read(document: t.Any) -> Iperf3Output:
    """Return what a parsed document says.

    Raises Iperf3OutputError when it is none of iperf3.
    """
    if not looks_like(document):
        raise Iperf3OutputError("the JSON is not one of iperf3: it needs start, intervals and end")
    start, end = document["start"], _mapping(document["end"])
    test = _mapping(start.get("test_start"))
    connected = start.get("connected")
    connected = connected if isinstance(connected, list) else []
    remote = next((entry.get("remote_host") for entry in connected if isinstance(entry, dict)), None) or _mapping(start.get("connecting_to")).get("host")
    version = re.search(r"\d{1,3}\.\d{1,3}(?:\.\d{1,3})?", str(start.get("version"))[:200], re.ASCII)
    sent, received = _mapping(end.get("sum_sent")), _mapping(end.get("sum_received") or end.get("sum"))
    error = document.get("error")
    return Iperf3Output(
        version=version[0] if version else None,
        remote_host=str(remote) if remote else None,
        streams=_whole(test.get("num_streams")),
        protocol=str(test["protocol"]) if isinstance(test.get("protocol"), str) else None,
        reverse=bool(test.get("reverse")),
        sent_gbps=_gbps(sent.get("bits_per_second")),
        received_gbps=_gbps(received.get("bits_per_second")),
        retransmits=_whole(sent.get("retransmits")),
        path_mtu_bytes=_least(document, "pmtu"),
        mean_rtt_us=_mean_rtt(end),
        error=str(error)[:400] if error else None,
    )


def _mapping(value: t.Any) -> dict[str, t.Any]:
    return value if isinstance(value, dict) else {}


def _finite(value: t.Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _whole(value: t.Any) -> int | None:
    number = _finite(value)
    return int(number) if number is not None else None


def _gbps(value: t.Any) -> float | None:
    number = _finite(value)
    return number / 10**9 if number is not None and number > 0 else None


def _streams(document: dict[str, t.Any]) -> t.Iterator[dict[str, t.Any]]:
    intervals = document.get("intervals")
    for interval in intervals if isinstance(intervals, list) else []:
        streams = _mapping(interval).get("streams")
        yield from (stream for stream in (streams if isinstance(streams, list) else []) if isinstance(stream, dict))


def _least(document: dict[str, t.Any], key: str) -> int | None:
    values = [number for stream in _streams(document) if (number := _whole(stream.get(key)))]
    return min(values, default=None)


def _mean_rtt(end: dict[str, t.Any]) -> float | None:
    streams = end.get("streams")
    senders = [_mapping(stream.get("sender")) for stream in (streams if isinstance(streams, list) else []) if isinstance(stream, dict)]
    values = [number for sender in senders if (number := _finite(sender.get("mean_rtt"))) is not None]
    return sum(values) / len(values) if values else None
