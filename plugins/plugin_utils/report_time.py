# Copyright (c) 2026, dgxspark.fabric contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The times of a report: ISO 8601 texts in UTC, such as ``2026-11-30T22:15:00Z``."""

from __future__ import annotations

import datetime


def moment(text: str) -> datetime.datetime:
    """Return the time that a text names, in UTC where it names no zone.

    :raises ValueError: when it is no time
    """
    parsed = datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=datetime.timezone.utc)


def time_text(when: datetime.datetime) -> str:
    """Return a time as ISO 8601 text in UTC."""
    return when.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch_seconds(text: str) -> int:
    """Return a report's time in seconds since 1970; 0 for a text that is no time."""
    try:
        return int(moment(text).timestamp())
    except ValueError:
        return 0


def seconds_between(started: str, finished: str) -> int:
    """Return how long a run took, in seconds."""
    return max(epoch_seconds(finished) - epoch_seconds(started), 0)


def duration_text(seconds: int) -> str:
    """Return a duration as people say it."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def moment_text(text: str) -> str:
    """Return a report's time as people read it: ``2026-11-30 22:15 UTC``."""
    return f"{text[:10]} {text[11:16]} UTC" if len(text) >= 16 else text
