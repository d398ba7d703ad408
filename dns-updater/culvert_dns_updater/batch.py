"""Packs changes into as few UPDATE messages as possible, and finds the refused change of a refused message. Pure.

[1 2 3 4 5 6]   refused: a message is executed as a whole or not at all (RFC 2136 §3.4.2.7)
[1 2 3] [4 5 6]
  done  [4] [5 6]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from culvert_dns_updater.diff import Add, Change, DeleteRecord, RrsetIs

# RFC 1035 §4.2.2: over TCP a message has a 16-bit length.
MESSAGE_BYTES = 65_535
# Our tunable. The rest is enough for header, zone section and TSIG (RFC 8945 §4.2).
_CHANGES_BYTES = 60_000
# RFC 1035 §3.2.1: type, class, TTL and RDATA's length; plus 2 bytes by which a name on the wire is longer than its text.
_RECORD_BYTES = 10 + 2

# Our tunable: after this many refusals without an acceptance the rest is given up for this pass.
_HOPELESS = 8

Batch = tuple[Change, ...]


def batches(changes: Iterable[Change]) -> list[Batch]:
    """The batches in order. Lengths are computed without name compression, so a message is never longer than computed."""
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
    """The changes still to be sent. `next` returns the next batch; `accept` or `refuse` takes the answer to it."""

    def __init__(self, changes: Iterable[Change], *, is_welcome: bool = False) -> None:
        """`is_welcome`: the server has accepted an update of this key before."""
        self._waiting = deque(batches(changes))
        self._is_welcome = is_welcome
        self._refused = 0

    def next(self) -> Batch | None:
        return self._waiting.popleft() if self._waiting and not self.is_hopeless else None

    def accept(self) -> None:
        self._is_welcome = True

    def refuse(self, batch: Batch) -> bool:
        """True if the batch is a single change, which is refused; a longer batch is split and its halves are tried."""
        if len(batch) > 1:
            middle = len(batch) // 2
            self._waiting.extendleft((batch[middle:], batch[:middle]))
            return False
        self._refused += 1
        return True

    @property
    def is_hopeless(self) -> bool:
        """Whether the zone refuses all changes, not only some names."""
        return self._refused >= _HOPELESS and not self._is_welcome

    def list_untried(self) -> Batch:
        """The changes that are given up in this pass."""
        return tuple(change for left in self._waiting for change in left) if self.is_hopeless else ()


def _bytes(change: Change) -> int:
    size = 0
    for part in (*change.prerequisites, *change.edits):
        size += len(part.name) + _RECORD_BYTES
        if isinstance(part, RrsetIs):
            size += sum(len(part.name) + _RECORD_BYTES + len(text) for text in part.rdata)
        if isinstance(part, Add | DeleteRecord):
            # An address on the wire has at most 16 bytes, also if its text is shorter ("::").
            size += max(len(part.rdata), 16)
    return size
