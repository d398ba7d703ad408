"""A gateway's health, as the link that has it sees it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

NOT_CONNECTED_YET = "not connected yet"
"""The reason of a gateway that is offline because its owner has yet to reach it for the first time."""


@dataclass(frozen=True, slots=True)
class Drift:
    """Entries that a reconciliation had to put right: missing, wanted by nobody, with other contents."""

    missing: int = 0
    foreign: int = 0
    changed: int = 0

    def __bool__(self) -> bool:
        return bool(self.missing or self.foreign or self.changed)


@dataclass(frozen=True, slots=True)
class Report:
    """In one epoch. `reconciled` and `drifts` count since the link began; `last` is the newest drift."""

    epoch: int
    online: bool
    reason: str
    reconciled: int = 0
    drifts: int = 0
    last: Drift = field(default_factory=Drift)
