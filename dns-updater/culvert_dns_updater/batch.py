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

# Our tunable: so many refused in a row, none accepted, and the zone refuses us, not a name.
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
    """What is still to be sent: `next` gives it, `accepted` and `refused` take the answer to it."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._waiting = deque(batches(changes))
        self._refused_in_row = 0

    def next(self) -> Batch | None:
        return self._waiting.popleft() if self._waiting else None

    def accepted(self) -> None:
        self._refused_in_row = 0

    def refused(self, batch: Batch) -> Batch:
        """The changes that will not be sent again: of a longer message none yet, because its halves are tried."""
        if len(batch) > 1:
            middle = len(batch) // 2
            self._waiting.extendleft((batch[middle:], batch[:middle]))
            return ()
        self._refused_in_row += 1
        if self._refused_in_row < _HOPELESS:
            return batch
        given_up = (*batch, *(change for left in self._waiting for change in left))
        self._waiting.clear()
        return given_up


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
