"""Hours of the week in a time zone: whether they are open, and when that ends or begins. Pure."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from culvert_proto.phrases import Phrase
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

# Days around today: a window that began yesterday may still be open. Hours repeat after a week, or after two weeks if a
# change of the clocks removes them once.
_FROM_DAY, _TO_DAY = -1, 15

_Span = tuple[datetime.datetime, datetime.datetime]

_TIME = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"


def _zone(value: str) -> str:
    try:
        ZoneInfo(value)
    except (KeyError, OSError, ValueError):
        raise ValueError(Phrase("must be a time zone such as Europe/Berlin")) from None
    return value


class Window(BaseModel):
    """From `opens` to `closes` in local time. If `closes` is not after `opens`, it is on the next day."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    days: Annotated[tuple[Day, ...], Field(min_length=1, max_length=7)]
    opens: Annotated[str, Field(pattern=_TIME)]
    closes: Annotated[str, Field(pattern=_TIME)]


class Hours(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    zone: Annotated[str, Field(max_length=64), AfterValidator(_zone)]
    windows: Annotated[tuple[Window, ...], Field(min_length=1, max_length=50)]


@dataclass(frozen=True, slots=True)
class Open:
    """Open until `until`. Adjacent windows count as one; `until` is at most about two weeks ahead."""

    until: datetime.datetime


@dataclass(frozen=True, slots=True)
class Closed:
    """`opens` is in the time zone of the hours."""

    opens: datetime.datetime


def state(hours: Hours, now: datetime.datetime) -> Open | Closed:
    """Compares times in UTC, so a change of the clocks lengthens or shortens a window, as it does the day."""
    zone = ZoneInfo(hours.zone)
    spans = _spans(hours.zone, hours.windows, now.astimezone(zone).date())
    until = now
    for start, end in spans:
        if start <= until < end:
            until = end
    if until > now:
        return Open(until)
    opens = min(start for start, _ in spans if start > now)
    return Closed(opens.astimezone(zone))


@functools.lru_cache(maxsize=1024)
def _spans(zone: str, windows: tuple[Window, ...], today: datetime.date) -> tuple[_Span, ...]:
    """The windows as spans, sorted. Cached for a day, so that OpenTunnel need not wait."""
    return tuple(sorted(_around(ZoneInfo(zone), windows, today)))


def _around(zone: ZoneInfo, windows: tuple[Window, ...], today: datetime.date) -> Iterator[_Span]:
    for ahead in range(_FROM_DAY, _TO_DAY):
        day = today + datetime.timedelta(days=ahead)
        name = _DAYS[day.weekday()]
        for window in windows:
            if name in window.days:
                next_day = window.closes <= window.opens
                last = day + datetime.timedelta(days=1) if next_day else day
                start, end = _at(day, window.opens, zone), _at(last, window.closes, zone)
                # The change of the clocks in spring may remove a window entirely.
                if start < end:
                    yield start, end


def _at(day: datetime.date, clock: str, zone: ZoneInfo) -> datetime.datetime:
    wall = datetime.datetime.combine(day, datetime.time.fromisoformat(clock), zone)
    return wall.astimezone(datetime.UTC)
