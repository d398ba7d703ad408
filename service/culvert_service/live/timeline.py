"""The changes of a set of rows, as numbered events. Pure.

    rows now ──► difference to the rows before ──► events n+1, n+2, … ──► watchers that have seen up to n
                                                   └─ the last `kept` ones are stored

A watcher whose last event is no longer stored, or is another process's, starts again with all rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

_KEPT = 4096

# A row as JSON.
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """The client sends `id` back as Last-Event-ID (WHATWG HTML, section 9.2)."""

    id: str
    kind: Literal["snapshot", "changed", "gone"]
    data: Row


class RowTimeline:
    """`epoch` distinguishes this process's event numbers from another's."""

    def __init__(self, epoch: str, *, kept: int = _KEPT) -> None:
        self._epoch = epoch
        self._last = 0
        self._versions: dict[str, str] = {}
        self._rows: dict[str, Row] = {}
        self._events: deque[Event] = deque(maxlen=kept)

    def find_changed(self, versions: Mapping[str, str]) -> list[str]:
        """The keys whose rows `advance` needs."""
        return [key for key, version in versions.items() if self._versions.get(key) != version]

    def advance(self, versions: Mapping[str, str], read: Mapping[str, Row]) -> None:
        """`read`: the changed rows; a changed key that is missing there is gone."""
        for key in [key for key in self._rows if key not in versions]:
            self._forget(key)
        for key in self.find_changed(versions):
            if key not in read:
                self._forget(key)
                continue
            self._versions[key] = versions[key]
            # A new version may come from a column that the row does not show.
            if self._rows.get(key) != read[key]:
                self._rows[key] = read[key]
                self._append("changed", {"key": key, "row": read[key]})

    def since(self, seen: str | None) -> Sequence[Event]:
        """The events after the event with the id `seen`; one snapshot if that event is unknown."""
        epoch, _, number = (seen or "").rpartition("-")
        known = epoch == self._epoch and number.isascii() and number.isdigit() and len(number) < len("9" * 19)
        behind = self._last - int(number) if known else -1
        if not 0 <= behind <= len(self._events):
            return [Event(self._id(), "snapshot", {"rows": dict(self._rows)})]
        return [self._events[index] for index in range(len(self._events) - behind, len(self._events))]

    def _forget(self, key: str) -> None:
        self._versions.pop(key, None)
        if self._rows.pop(key, None) is not None:
            self._append("gone", {"key": key})

    def _append(self, kind: Literal["changed", "gone"], data: Row) -> None:
        self._last += 1
        self._events.append(Event(self._id(), kind, data))

    def _id(self) -> str:
        return f"{self._epoch}-{self._last}"
