"""When a certificate is renewed, and how long an attempt that has failed is not repeated. Pure."""

from __future__ import annotations

import datetime

_HOUR = datetime.timedelta(hours=1)
_MINUTE = datetime.timedelta(minutes=1)
# The share of the lifetime after which a certificate is renewed; up to this share earlier, so that not all renew at once.
_RENEWED_AFTER, _SPREAD = 2 / 3, 1 / 30
# The same at the latest, whatever the server suggests.
_RENEWED_AT_LATEST = 5 / 6
# Bounds of a server's wish for the next question (RFC 9773, section 4.3.2).
_ASK_LEAST, _ASK_MOST = _MINUTE, datetime.timedelta(days=1)
# Waits after the first, second … failure. Let's Encrypt allows five failed validations of a name in an hour.
_AFTER_REFUSAL = tuple(minutes * _MINUTE for minutes in (5, 15, 30, 60, 120, 240, 480, 720))
_AFTER_FAULT = tuple(minutes * _MINUTE for minutes in (1, 2, 4, 8, 15, 30, 60))
_WISH_MOST = datetime.timedelta(days=7)


def renewal(begins: datetime.datetime, ends: datetime.datetime, draw: float) -> datetime.datetime:
    """Without a server's suggestion. `draw`: from 0 to 1."""
    return begins + (ends - begins) * (_RENEWED_AFTER - draw * _SPREAD)


def suggested_renewal(
    suggested: datetime.datetime,
    begins: datetime.datetime,
    ends: datetime.datetime,
    issued_at: datetime.datetime,
) -> datetime.datetime:
    """The server's suggestion, within bounds: a server that always says `now` is not asked without end."""
    lifetime = ends - begins
    earliest = issued_at + min(_HOUR, lifetime / 10)
    return max(earliest, min(suggested, begins + lifetime * _RENEWED_AT_LATEST))


def next_question(wish: datetime.timedelta) -> datetime.timedelta:
    """Until the server is asked for its suggestion again."""
    return max(_ASK_LEAST, min(wish, _ASK_MOST))


def wait(failures: int, *, is_refusal: bool, wish_seconds: float, draw: float) -> datetime.timedelta:
    """After `failures` failures in a row, of which the last one is judged. `draw`: from 0 to 1."""
    waits = _AFTER_REFUSAL if is_refusal else _AFTER_FAULT
    own = waits[min(failures, len(waits)) - 1] * (1 + draw / 5)
    return max(own, min(datetime.timedelta(seconds=wish_seconds), _WISH_MOST))
