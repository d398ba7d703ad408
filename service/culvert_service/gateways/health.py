"""A gateway's health, as its link reports it. Pure."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

NOT_CONNECTED_YET = Phrase("not connected yet")
"""The reason of a gateway that is offline because its owner has yet to reach it for the first time."""
RECONNECTING = Phrase("its connection has ended, and is opened again")
"""The reason of a gateway that has just been online, as while its switch is handed over to a new version."""


def not_connected(gateway: str, since: datetime.datetime) -> str:
    """The reason of a gateway that connects to the controllers itself, and does not."""
    shown = since.astimezone(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    error = CulvertError(Reason.GATEWAY_NOT_CONNECTED, gateway=gateway, since=shown)
    return f"{error.message} {error.remedy}"


@dataclass(frozen=True, slots=True)
class Drift:
    """Entries that a reconciliation repaired: missing ones, foreign ones, and changed ones."""

    missing: int = 0
    foreign: int = 0
    changed: int = 0

    def __bool__(self) -> bool:
        return bool(self.missing or self.foreign or self.changed)


@dataclass(frozen=True, slots=True)
class Report:
    """A report of one epoch. `reconciled` and `drifts` count since the link began; `last` is the newest drift; `software`
    the version of the switch's program, if it tells it.
    """

    epoch: int
    online: bool
    reason: str
    reconciled: int = 0
    drifts: int = 0
    last: Drift = field(default_factory=Drift)
    software: str | None = None
