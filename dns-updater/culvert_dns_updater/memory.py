"""The results of a zone's earlier passes for the next one: the server to ask, the changes to postpone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from culvert_db.published import Address
from culvert_proto import CulvertError

from culvert_dns_updater import schedule
from culvert_dns_updater.batch import Batch
from culvert_dns_updater.diff import Change
from culvert_dns_updater.states import RecordState

# Our tunable, in seconds: the interval of queries for each unchanged name.
ASK_AGAIN_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Refusal:
    """The refusal of a change, the number of consecutive refusals, and the time of the next try."""

    error: CulvertError
    count: int
    due: float


@dataclass(slots=True)
class Memory:
    """`server`: the address that answered last; `is_welcome`: it has accepted an update with our key; `limits`: types that
    the key may not write, if known; `served`: the addresses in the server's answer for a name, and its time; `unserved`:
    names in the zone that the server did not serve.
    """

    server: str | None = None
    is_welcome: bool = False
    knows_limits: bool = False
    limits: CulvertError | None = None
    served: dict[str, tuple[frozenset[Address], float]] = field(default_factory=dict)
    unserved: Mapping[str, RecordState] = field(default_factory=dict[str, RecordState])
    _refusals: dict[Change, Refusal] = field(default_factory=dict)
    _unfinished: int = 0
    _unfinished_due: float | None = None

    def forget(self) -> None:
        """Forget refusals, because a person has changed something or asks for a check."""
        self.is_welcome = self.knows_limits = False
        self.served.clear()
        self._refusals.clear()
        self._unfinished, self._unfinished_due = 0, None

    def list_waiting(self, now: float) -> Mapping[Change, CulvertError]:
        """The changes that are not due yet. A change with other values is a new one, and due at once."""
        return {change: it.error for change, it in self._refusals.items() if it.due > now}

    def note(
        self,
        planned: Batch,
        refused: Mapping[Change, CulvertError],
        is_unfinished: bool,
        now: float,
        chance: float,
    ) -> None:
        """Record a pass. `planned`: all necessary changes; `is_unfinished`: another pass may succeed without a change of
        the zone. `chance`: as in `schedule.wait`.
        """
        kept = {change: it for change in planned if (it := self._refusals.get(change)) is not None}
        for change, error in refused.items():
            count = kept[change].count + 1 if change in kept else 1
            kept[change] = Refusal(error, count, now + schedule.RETRY.spread(count, chance))
        # A due change that was not refused again is done, or has been replaced.
        self._refusals = {change: it for change, it in kept.items() if it.due > now}
        self._unfinished = self._unfinished + 1 if is_unfinished else 0
        self._unfinished_due = (
            now + schedule.RETRY.spread(self._unfinished, chance) if is_unfinished else None
        )

    def is_served(self, name: str, addresses: frozenset[Address], now: float) -> bool:
        known = self.served.get(name)
        return known is not None and known[0] == addresses and now < known[1] + ASK_AGAIN_SECONDS

    def due(self) -> float | None:
        """The time of the next postponed change."""
        dues = [it.due for it in self._refusals.values()]
        return min(dues if self._unfinished_due is None else [*dues, self._unfinished_due], default=None)
