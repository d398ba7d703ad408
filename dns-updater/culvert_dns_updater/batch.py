"""Changes into as few UPDATE messages as the limits allow, and out of a refused message the change that was to blame. Pure.

[1 2 3 4 5 6]   refused: a message is carried out whole or not at all (RFC 2136 §3.4.2.7)
[1 2 3] [4 5 6]
  done  [4] [5 6]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from culvert_dns_updater.diff import Add, Change, DeleteRecord, RrsetIs

# RFC 1035 §4.2.2: the length before a message over TCP has 16 bits.
MESSAGE_BYTES = 65_535
# Our tunable. Header, zone section and TSIG (RFC 8945 §4.2) take less than the rest.
_CHANGES_BYTES = 60_000
# RFC 1035 §3.2.1: type, class, TTL and RDATA's length. With what a name is longer by on the wire than in text.
_RECORD_BYTES = 10 + 2

# Our tunable: so many refused and none accepted, and the rest is left for the next time.
_HOPELESS = 8

Batch = tuple[Change, ...]


def batches(changes: Iterable[Change]) -> list[Batch]:
    """In order. Lengths are reckoned without name compression, so that a message is never longer than reckoned."""
    filled: list[list[Change]] = []
    room = 0
    for change in changes:
        size = _bytes(change)
        if size > room:
            filled.append([])
            room = _CHANGES_BYTES
        filled[-1].append(change)
        room -= size
    return [tuple(batch) for batch in filled]


class Dispatch:
    """The changes still to be sent: `next` gives the first, `accepted` and `refused` take the answer to it."""

    def __init__(self, changes: Iterable[Change], *, is_welcome: bool = False) -> None:
        """`is_welcome`: the server has accepted an update of this key before."""
        self._waiting = deque(batches(changes))
        self._is_welcome = is_welcome
        self._refused = 0

    def next(self) -> Batch | None:
        return self._waiting.popleft() if self._waiting and not self.is_hopeless else None

    def accepted(self) -> None:
        self._is_welcome = True

    def refused(self, batch: Batch) -> bool:
        """Whether the change is found that is to blame: of a longer message the halves are tried."""
        if len(batch) > 1:
            middle = len(batch) // 2
            self._waiting.extendleft((batch[middle:], batch[:middle]))
            return False
        self._refused += 1
        return True

    @property
    def is_hopeless(self) -> bool:
        """The zone refuses us, and not a name."""
        return self._refused >= _HOPELESS and not self._is_welcome

    def untried(self) -> Batch:
        """The changes given up for now."""
        return tuple(change for left in self._waiting for change in left) if self.is_hopeless else ()


def _bytes(change: Change) -> int:
    size = 0
    for part in (*change.prerequisites, *change.edits):
        size += len(part.name) + _RECORD_BYTES
        if isinstance(part, RrsetIs):
            size += sum(len(part.name) + _RECORD_BYTES + len(text) for text in part.rdata)
        if isinstance(part, Add | DeleteRecord):
            # An address's text is never shorter than its half: four bytes of A have seven characters, sixteen of AAAA two.
            size += max(len(part.rdata), 16)
    return size
