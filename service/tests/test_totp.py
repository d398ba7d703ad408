"""Codes: RFC 6238's own vectors, drift, replay, locks."""

from __future__ import annotations

import datetime

import pytest
from culvert_service.identity import totp
from culvert_service.identity.totp import (
    DRIFT_MAX,
    STEP_SECONDS,
    GuessRecord,
    Locked,
    Proven,
    Used,
    Wrong,
    judge,
)
from pyotp.totp import TOTP

SECRET = b"12345678901234567890"


def at(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC)


# RFC 6238 appendix B, SHA-1, the last six digits.
@pytest.mark.parametrize(
    ("seconds", "code"),
    [(59, "287082"), (1111111109, "081804"), (1234567890, "005924"), (2000000000, "279037")],
)
def test_vectors(seconds: int, code: str) -> None:
    assert judge(GuessRecord(), SECRET, code, at(seconds)) == Proven(
        GuessRecord(last_used_step=seconds // 30)
    )


@pytest.mark.parametrize(("off", "good"), [(-60, False), (-30, True), (0, True), (30, True), (60, False)])
def test_a_code_may_be_a_step_early_or_late(off: int, good: bool) -> None:
    code = TOTP("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ").at(1_000_000 + off)
    assert isinstance(judge(GuessRecord(), SECRET, code, at(1_000_000)), Proven) == good


def test_a_code_works_once_and_an_older_one_not_after_a_newer() -> None:
    authenticator = TOTP("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ")
    proven = judge(GuessRecord(), SECRET, authenticator.at(1_000_000), at(1_000_000))
    assert isinstance(proven, Proven)
    assert judge(proven.record, SECRET, authenticator.at(1_000_000), at(1_000_010)) == Used()
    assert judge(proven.record, SECRET, authenticator.at(999_970), at(1_000_010)) == Used()
    assert isinstance(judge(proven.record, SECRET, authenticator.at(1_000_030), at(1_000_010)), Proven)


def test_the_fifth_wrong_guess_locks_and_the_lock_ends() -> None:
    record = GuessRecord()
    for _ in range(totp.GUESSES):
        verdict = judge(record, SECRET, "000000", at(1_000_000))
        assert isinstance(verdict, Wrong)
        record = verdict.record
    right = TOTP("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ")
    assert judge(record, SECRET, right.at(1_000_000), at(1_000_000)) == Locked(60)
    assert isinstance(judge(record, SECRET, right.at(1_000_060), at(1_000_060)), Proven)


@pytest.mark.parametrize("code", ["", "28708", "2870822", "abcdef", "２８７０８２", "287082\0"])
def test_a_malformed_code_is_a_wrong_guess(code: str) -> None:
    assert isinstance(judge(GuessRecord(), SECRET, code, at(59)), Wrong)


def test_digits_may_be_grouped() -> None:
    assert isinstance(judge(GuessRecord(), SECRET, "287 082", at(59)), Proven)


def test_each_lock_is_twice_as_long_up_to_an_hour_until_a_code_is_right() -> None:
    record, now, locks = GuessRecord(), at(1_000_000), list[int]()
    for _ in range(9 * totp.GUESSES):
        verdict = judge(record, SECRET, "000000", now)
        assert isinstance(verdict, Wrong)
        record = verdict.record
        if locked := record.find_lock(now):
            locks.append(locked.seconds)
            now += datetime.timedelta(seconds=locked.seconds)
    assert locks == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    right = judge(record, SECRET, TOTP("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ").at(now), now)
    assert isinstance(right, Proven)
    assert (right.record.failures, right.record.locked_until) == (0, None)


def test_a_clock_that_drifts_is_followed_but_not_far() -> None:
    authenticator, record = TOTP("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"), GuessRecord()
    for steps in range(1, DRIFT_MAX + 2):
        now = 1_000_000 + steps * 86_400
        proven = judge(record, SECRET, authenticator.at(now + steps * STEP_SECONDS), at(now))
        assert isinstance(proven, Proven)
        record = proven.record
    assert record.drift == DRIFT_MAX
    now = 2_000_000
    too_far = authenticator.at(now + (DRIFT_MAX + 2) * STEP_SECONDS)
    assert isinstance(judge(record, SECRET, too_far, at(now)), Wrong)
    # The authenticator's clock has been set right.
    proven = judge(record, SECRET, authenticator.at(now), at(now))
    assert isinstance(proven, Proven)
    assert proven.record.drift == 0
