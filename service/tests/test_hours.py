"""Hours of the week: days, nights, time zones, changes of the clocks."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import pytest
from culvert_service.decision.hours import Closed, Hours, Open, state
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")


def hours(*windows: tuple[str, str, str], zone: str = "Europe/Berlin") -> Hours:
    parts = [{"days": days.split(), "opens": opens, "closes": closes} for days, opens, closes in windows]
    return Hours.model_validate({"zone": zone, "windows": parts})


def at(text: str, zone: str = "Europe/Berlin") -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(datetime.UTC)


OFFICE = hours(("mon tue wed thu fri", "08:00", "18:00"))
NIGHT = hours(("fri", "22:00", "06:00"))
ALWAYS = hours((" ".join(DAYS), "00:00", "00:00"))


@pytest.mark.parametrize(
    ("found", "now", "expected"),
    [
        (OFFICE, "2026-01-02 08:00", Open(at("2026-01-02 18:00"))),
        (OFFICE, "2026-01-02 18:00", Closed(at("2026-01-05 08:00"))),
        (OFFICE, "2026-01-02 07:59", Closed(at("2026-01-02 08:00"))),
        (NIGHT, "2026-01-03 05:59", Open(at("2026-01-03 06:00"))),
        (NIGHT, "2026-01-03 06:00", Closed(at("2026-01-09 22:00"))),
        # Adjoining hours are one period.
        (
            hours(("thu", "20:00", "00:00"), ("fri", "00:00", "02:00")),
            "2026-01-01 21:00",
            Open(at("2026-01-02 02:00")),
        ),
        # The night of 29 March 2026 has no hour from two to three.
        (hours(("sun", "01:00", "04:00")), "2026-03-29 03:30", Open(at("2026-03-29 04:00"))),
        (hours(("sun", "02:30", "03:00")), "2026-03-29 00:00", Closed(at("2026-04-05 02:30"))),
    ],
)
def test_open_until_or_closed_until(found: Hours, now: str, expected: Open | Closed) -> None:
    assert state(found, at(now)) == expected


def test_always_is_open() -> None:
    now = at("2026-10-25 02:30")
    found = state(ALWAYS, now)
    assert isinstance(found, Open)
    assert found.until - now > datetime.timedelta(days=7)


_NO_HOURS: list[dict[str, object]] = [
    {"zone": "Europe/Nowhere"},
    {"zone": "../../etc/passwd"},
    {"zone": "Europe"},
    {"zone": ""},
    {"windows": []},
    {"windows": [{"days": ["mon"], "opens": "24:00", "closes": "01:00"}]},
    {"windows": [{"days": [], "opens": "08:00", "closes": "09:00"}]},
]


@pytest.mark.parametrize("change", _NO_HOURS)
def test_invalid_hours_are_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Hours.model_validate(OFFICE.model_dump() | change)


_CLOCK = st.times().map(lambda clock: f"{clock:%H:%M}")
_WINDOWS = st.lists(st.tuples(st.sampled_from(DAYS), _CLOCK, _CLOCK), min_size=1, max_size=4)


@given(
    windows=_WINDOWS,
    zone=st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Auckland"]),
    minute=st.integers(0, 366 * 24 * 60),
)
def test_the_next_change_of_hours_happens_as_predicted(
    windows: list[tuple[str, str, str]], zone: str, minute: int
) -> None:
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(minutes=minute)
    week, moment = hours(*windows, zone=zone), datetime.timedelta(seconds=1)
    match state(week, now):
        case Open(until):
            assert until > now
            assert isinstance(state(week, until - moment), Open)
            if until - now < datetime.timedelta(days=13):
                assert isinstance(state(week, until), Closed)
        case Closed(opens):
            assert opens > now
            assert isinstance(state(week, opens - moment), Closed)
            assert isinstance(state(week, opens), Open)
