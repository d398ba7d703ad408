"""Backoff: bounds and growth."""

from __future__ import annotations

from culvert_proto.backoff import Backoff
from hypothesis import given
from hypothesis import strategies as st

RETRY = Backoff(0.5, 20.0)


def test_the_wait_doubles_up_to_the_longest() -> None:
    assert [RETRY.after(failures) for failures in range(8)] == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 20.0]


@given(st.integers(0, 10**9), st.floats(0, 1, exclude_max=True))
def test_a_spread_wait_is_in_the_upper_half(failures: int, chance: float) -> None:
    whole = RETRY.after(failures)
    assert whole / 2 <= RETRY.spread(failures, chance) <= whole <= 20.0
