"""The token bucket, beside one that counts its tokens."""

from __future__ import annotations

from culvert_proto.token_bucket import TokenBucket
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.integers(0, 12), max_size=200))
def test_it_serves_as_a_bucket_that_counts_its_tokens(quarters: list[int]) -> None:
    bucket, full_at, tokens, now = TokenBucket(per_second=2, burst=5), 0.0, 5.0, 100.0
    for pause in quarters:
        now += pause / 4
        tokens = min(5.0, tokens + pause / 4 * 2)
        assert (bucket.wait(full_at, now) == 0) == (tokens >= 1)
        if tokens >= 1:
            full_at, tokens = bucket.take(full_at, now), tokens - 1


@given(st.floats(0.01, 100), st.integers(1, 50), st.floats(0, 1e6))
def test_after_its_wait_there_is_a_token(per_second: float, burst: int, now: float) -> None:
    bucket, full_at = TokenBucket(per_second, burst), 0.0
    for _ in range(burst):
        assert bucket.wait(full_at, now) == 0
        full_at = bucket.take(full_at, now)
    wait = bucket.wait(full_at, now)
    assert wait > 0
    assert bucket.wait(full_at, now + wait) == 0
