"""Rate limits: the bucket, and what a caller who asks too often is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from culvert_service.rest.rate import Limiter, Rate
from hypothesis import given
from hypothesis import strategies as st

from .conftest import running, settings_in


@given(st.lists(st.floats(0, 3), max_size=60))
def test_no_more_is_served_than_burst_and_rate_allow_and_waiting_helps(pauses: list[float]) -> None:
    limiter, now, served = Limiter(Rate(per_second=2, burst=5)), 1000.0, 0
    for pause in pauses:
        now += pause
        wait = limiter.take("x", now)
        served += not wait
        assert served <= 5 + 2 * (now - 1000) + 0.01
        if wait:
            now += wait
            assert limiter.take("x", now) == 0
            served += 1


def test_one_does_not_take_from_another_and_who_is_silent_is_forgotten() -> None:
    limiter = Limiter(Rate(per_second=1, burst=1))
    assert [limiter.take(who, 0) for who in ("x", "x", "y")] == [0, 1, 0]
    for number in range(20_000):
        limiter.take(str(number), number * 0.01)
    assert len(limiter._full_at) < 5000


@pytest.mark.slow
async def test_who_asks_too_often_is_told_when_to_come_back(tmp_path: Path, database_url: str) -> None:
    few = settings_in(
        tmp_path, database_url=database_url, rest_calls_per_second=0.5, rest_strangers_calls_per_second=0.2
    )
    async with running(few) as world:
        for client, path, burst in ((world.admin, "/users", 5), (world.anyone, "/ca", 2)):
            answers = [await client.get(f"/api/v1{path}") for _ in range(burst + 1)]
            assert [answer.status_code for answer in answers] == [200] * burst + [429]
            assert answers[-1].json()["reason"] == "RATE_LIMITED"
            assert 1 <= int(answers[-1].headers["retry-after"]) <= 5
        # Who guesses at tokens is a stranger.
        guess = await world.anyone.get("/api/v1/users", headers={"Authorization": "Bearer guess"})
        assert guess.status_code == 429
        assert (await world.anyone.get("/healthz")).status_code == 200
