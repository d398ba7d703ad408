"""How times and round trips are shown to persons: the same in the tray and on the command line."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from culvert_proto import local_pb2

# Who says tomorrow late in the evening does not mean midnight.
_MORNING = 6


def clock(unix: float, now: float) -> str:
    """In local time: '14:05', with the day when that is not today's."""
    at = time.localtime(unix)
    return time.strftime("%H:%M" if at[:3] == time.localtime(now)[:3] else "%a %d %b, %H:%M", at)


def tomorrow(now: datetime) -> datetime:
    """When it begins: at 6 in the morning."""
    return (now + timedelta(days=1)).replace(hour=_MORNING, minute=0, second=0, microsecond=0)


def round_trip(gateway: local_pb2.Gateway) -> str:
    """'12 ms'; empty when it is not known."""
    milliseconds = gateway.rtt_us / 1e3
    return f"{milliseconds:.{0 if milliseconds >= 10 else 1}f} ms" if gateway.online and milliseconds else ""
