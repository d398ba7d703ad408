"""The changes of a set of rows, as numbered events. Pure.

    rows now ──► difference to the rows before ──► events n+1, n+2, … ──► whoever has seen up to n
                                                   └─ the last so many are kept

Who has seen an event that is not kept any more, or of another process, begins anew with all rows.
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
    """`id` comes back as Last-Event-ID (WHATWG HTML, section 9.2)."""

    id: str
    kind: Literal["snapshot", "changed", "gone"]
    data: Row


class Timeline:
    """`epoch` tells this process's numbers from another's."""

    def __init__(self, epoch: str, *, kept: int = _KEPT) -> None:
        self._epoch = epoch
        self._last = 0
        self._versions: dict[str, str] = {}
        self._rows: dict[str, Row] = {}
        self._events: deque[Event] = deque(maxlen=kept)

    def changed(self, versions: Mapping[str, str]) -> list[str]:
        """The keys whose rows have to be read, to `advance`."""
        return [key for key, version in versions.items() if self._versions.get(key) != version]

    def advance(self, versions: Mapping[str, str], read: Mapping[str, Row]) -> None:
        """`read` has the rows that have changed; one that is not there any more is gone."""
        for key in [key for key in self._rows if key not in versions]:
            self._forget(key)
        for key in self.changed(versions):
            if key not in read:
                self._forget(key)
                continue
            self._versions[key] = versions[key]
            # The cause of the new version need not be visible.
            if self._rows.get(key) != read[key]:
                self._rows[key] = read[key]
                self._append("changed", {"key": key, "row": read[key]})

    def since(self, seen: str | None) -> Sequence[Event]:
        """The events after the event of that id; everything as one event where those are unknown."""
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
