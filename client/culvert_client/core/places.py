"""How many things at once each user of this computer may have of the daemon, so that no user takes all of them. Pure.

A place is free for a user who holds fewer than are left: one user alone gets half of them, two a third each, and there
is always a place for the next user. Each owner and root have further places that nobody else takes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Protocol

from culvert_client.core.roles import ROOT_UID


class Owners(Protocol):
    def owners(self) -> Collection[int]:
        """The uids that enrolled this computer with an organisation."""
        ...


class Places:
    """`most` for all users together, of which one gets at most `of_one`; `reserved` more for each owner and for root.

    A uid of None stands for all users that the kernel did not name.
    """

    def __init__(self, most: int, of_one: int, reserved: int, owners: Owners) -> None:
        self._left, self._of_one, self._reserved, self._owners = most, of_one, reserved, owners
        self._held: Counter[int | None] = Counter()
        self._held_in_reserve: Counter[int | None] = Counter()

    def take(self, uid: int | None) -> bool:
        """Whether there was a place. It is the user's until `give_back`."""
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
    # A computer has many users over the years.
    if not counter[uid]:
        del counter[uid]
