"""Limits on concurrent queries, connections and calls of each user of this computer, as places. Pure.

A user gets a place while the user holds fewer places than are left. So one user alone gets half of all places, two users
a third each, and a place is always left for the next user. Each owner and root have further, reserved places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Protocol

from culvert_client.core.roles import ROOT_UID


class Owners(Protocol):
    def owners(self) -> Collection[int]:
        """The uids of the users who enrolled this computer."""
        ...


class Places:
    """`most` places for all users together, at most `of_one` for one user; `reserved` more for each owner and for root.

    All users whose uid the kernel did not tell count as one user, None.
    """

    def __init__(self, most: int, of_one: int, reserved: int, owners: Owners) -> None:
        self._left, self._of_one, self._reserved, self._owners = most, of_one, reserved, owners
        self._held: Counter[int | None] = Counter()
        self._held_in_reserve: Counter[int | None] = Counter()

    def take(self, uid: int | None) -> bool:
        """Take a place for the user, until `give_back`. False if the user gets none."""
        if self._held_in_reserve[uid] < self._reserved and self._has_reserve(uid):
            self._held_in_reserve[uid] += 1
            return True
        held = self._held[uid]
        if held >= min(self._of_one, self._left):
            return False
        self._held[uid] = held + 1
        self._left -= 1
        return True

    def give_back(self, uid: int | None) -> None:
        if self._held[uid]:
            self._left += 1
            _decrease(self._held, uid)
        else:
            _decrease(self._held_in_reserve, uid)

    def _has_reserve(self, uid: int | None) -> bool:
        return uid is not None and (uid == ROOT_UID or uid in self._owners.owners())


def _decrease(counter: Counter[int | None], uid: int | None) -> None:
    counter[uid] -= 1
    # Delete the entry, so that the counter does not grow with each uid ever seen.
    if not counter[uid]:
        del counter[uid]
