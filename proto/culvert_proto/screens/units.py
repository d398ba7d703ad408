"""Times, sizes, round trips and dropped packets in words: the same in the tray and on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from culvert_proto import local_pb2
from culvert_proto.language import words as _
from culvert_proto.phrases import DAYS, MONTHS

# Our tunable, in seconds, from which a tunnel without an answer is told.
_ANSWER_DUE = 5.0
# "Tomorrow", chosen late in the evening, does not mean midnight.
_MORNING = 6


def clock(unix: float, now: float, *, seconds: bool = False) -> str:
    """In local time: '14:05', with the day when that is not today's."""
    at, today = datetime.fromtimestamp(unix).astimezone(), datetime.fromtimestamp(now).astimezone()
    time = f"{at:%H:%M:%S}" if seconds else f"{at:%H:%M}"
    if at.date() == today.date():
        return time
    day, month = DAYS[at.weekday()].localise(), MONTHS[at.month - 1].localise()
    return _("{day:.3} {number} {month:.3}, {time}").format(day=day, number=at.day, month=month, time=time)


def tomorrow(now: datetime) -> datetime:
    """When it begins: at 6 in the morning."""
    return (now + timedelta(days=1)).replace(hour=_MORNING, minute=0, second=0, microsecond=0)


def round_trip(gateway: local_pb2.Gateway) -> str:
    """'12 ms'; empty when it is not known."""
    if not (gateway.online and gateway.rtt_us):
        return ""
    return took(gateway.rtt_us / 1e6)


def took(seconds: float) -> str:
    """'0.4 ms', '12 ms', '2.4 s'."""
    if seconds >= 1:
        return f"{decimal(seconds, 1)} s"
    milliseconds = seconds * 1e3
    return f"{decimal(milliseconds, 0 if milliseconds >= 10 else 1)} ms"


def health(tunnel: local_pb2.Tunnel, now: float) -> str:
    """The state of a tunnel as its packets prove it, in words. `now`: Unix seconds."""
    match tunnel.state:
        case local_pb2.TUNNEL_STATE_OPENING:
            return _("opening")
        case local_pb2.TUNNEL_STATE_CLOSING:
            return _("closing")
        case local_pb2.TUNNEL_STATE_SILENT:
            return _("the gateway does not answer")
        case local_pb2.TUNNEL_STATE_NARROW:
            return _("only small packets pass")
        case local_pb2.TUNNEL_STATE_UP | local_pb2.TUNNEL_STATE_REKEYING if not tunnel.packets_in:
            is_owed = tunnel.packets_out and now - tunnel.since_ms / 1e3 > _ANSWER_DUE
            return _("sends, and nothing comes back") if is_owed else _("not used yet")
        case local_pb2.TUNNEL_STATE_UP:
            return _("carries packets")
        case local_pb2.TUNNEL_STATE_REKEYING:
            return _("carries packets, changing keys")
        case _:
            return _("unknown")


def drops(counted: Mapping[str, int]) -> str:
    """'3 replayed, 1 without a tunnel'; empty when nothing was dropped. By the causes of `culvert_ipsec.Counters`."""
    causes = {
        "malformed": _("malformed"),
        "unknown_spi": _("with unknown keys"),
        "replay": _("replayed"),
        "icv": _("not authentic"),
        "selector": _("outside the tunnel's policy"),
        "dummy": _("padding"),
        "hard_limit": _("with used-up keys"),
        "ecn": _("with an impossible ECN mark"),
        "no_policy": _("without a tunnel"),
        "send_failed": _("refused by the system"),
    }
    return ", ".join(f"{count} {causes.get(it, it)}" for it, count in sorted(counted.items()) if count)


def size(octets: int) -> str:
    """'812 B', '88.1 kB', '1.2 MB': powers of 1000, as usual for networks."""
    amount = float(octets)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{decimal(amount, 0 if unit == 'B' else 1)} {unit}"
        amount /= 1000
    return f"{decimal(amount, 1)} GB"


def decimal(number: float, digits: int) -> str:
    """With the language's decimal sign."""
    return f"{number:.{digits}f}".replace(".", _("."))
