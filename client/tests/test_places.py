"""Properties of users' places: one user gets a share, a place is left for the next user, and owners have reserved ones."""

from __future__ import annotations

from collections import Counter

from culvert_client.core.places import Places
from hypothesis import given
from hypothesis import strategies as st

MOST, RESERVED = 60, 4
OWNER, ROOT = 1000, 0


class OneOwner:
    def owners(self) -> set[int]:
        return {OWNER}


def some_places(of_one: int = MOST) -> Places:
    return Places(MOST, of_one, RESERVED, OneOwner())


def taken_by(places: Places, uid: int | None) -> int:
    """The number of places that the user gets."""
    return next(count for count in range(1000) if not places.take(uid))


def test_the_first_user_gets_half_and_the_next_user_at_least_one() -> None:
    places = some_places()
    assert taken_by(places, 1001) == MOST // 2
    for uid in (1002, 1003, None):
        assert taken_by(places, uid) >= 1


def test_a_user_gets_at_most_the_limit_for_one_user() -> None:
    assert taken_by(some_places(of_one=7), 1001) == 7


def test_owners_and_root_get_in_when_others_have_every_place() -> None:
    places = some_places()
    for uid in range(2000, 2000 + 2 * MOST):
        taken_by(places, uid)
    assert not places.take(3000)
    assert taken_by(places, OWNER) == taken_by(places, ROOT) == RESERVED


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([None, ROOT, OWNER, 1001, 1002])), max_size=400))
def test_places_that_are_given_back_can_be_taken_again(steps: list[tuple[bool, int | None]]) -> None:
    places, held = some_places(), Counter[int | None]()
    for takes, uid in steps:
        if takes:
            held[uid] += places.take(uid)
        elif held[uid]:
            places.give_back(uid)
            held[uid] -= 1
    for uid, count in held.items():
        for _ in range(count):
            places.give_back(uid)
    assert taken_by(places, 1001) == MOST // 2
