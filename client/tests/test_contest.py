"""Restoring settings often in a short time is a contest, and often in a long time is none."""

from __future__ import annotations

from itertools import pairwise

from culvert_client.platform.linux.system_dns.contest import AT_ONCE, CALM, REGAINED_EVERY, Contest


def test_a_fight_is_known_after_ten_times_and_goes_on_once_a_minute() -> None:
    contest = Contest()
    put_back = [now for now in range(0, 600, 2) if _puts_back(contest, 1e6 + now)]
    assert put_back[:AT_ONCE] == list(range(0, 2 * AT_ONCE, 2))
    assert contest.is_fought
    later = put_back[AT_ONCE:]
    assert {after - before for before, after in pairwise(later)} == {REGAINED_EVERY}


def test_a_fight_ends_when_the_settings_have_stood_for_a_while() -> None:
    contest = Contest()
    while _puts_back(contest, 0.0):
        pass
    contest.stand(CALM - 1)
    assert contest.is_fought
    contest.stand(CALM)
    assert not contest.is_fought


def test_a_thousand_changes_in_a_lifetime_are_no_fight() -> None:
    contest = Contest()
    assert all(_puts_back(contest, number * REGAINED_EVERY) for number in range(1000))
    assert not contest.is_fought


def test_failed_repairs_are_limited_and_are_no_contest() -> None:
    contest = Contest()
    assert sum(contest.may_put_back(0.0) for _ in range(1000)) == AT_ONCE
    assert not contest.is_fought


def _puts_back(contest: Contest, now: float) -> bool:
    may = contest.may_put_back(now)
    if may:
        contest.put_back()
    return may
