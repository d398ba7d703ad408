"""The states that the datapath was told, each a whole, and the tunnels that wait until it has applied them.

tunnels, blocked ─► Desired ─► differs, is waited for, or was refused a while ago: Apply(number)
                                                                 │
Installed, Failed to whoever waited ◄── Applied(number, error) ◄─┘
"""

from __future__ import annotations

from culvert_proto import CulvertError

from culvert_client.core.client_events import Apply, Desired
from culvert_client.core.tunnel import events as tunnel

APPLY_RETRY = 5.0
"""Seconds after which a state that the datapath refused is tried again."""


class Applies:
    def __init__(self) -> None:
        # In the next state to be told, or in one that is under way: its number, the tunnel's name, the call.
        self._installs: list[tuple[int, str, int]] = []
        self._told = 0
        self._done = 0
        self._desired = Desired()
        self._again_at: float | None = 0.0

    @property
    def are_done(self) -> bool:
        return self._done == self._told

    def deadline(self) -> float | None:
        return self._again_at

    def await_next(self, fqdn: str, call: int) -> None:
        """The next state has this tunnel; `call` is to be answered once it is applied."""
        self._installs.append((self._told + 1, fqdn, call))

    def tell(self, desired: Desired, now: float) -> list[Apply]:
        awaited = any(number > self._told for number, _, _ in self._installs)
        due = self._again_at is not None and self._again_at <= now
        if desired == self._desired and not awaited and not due:
            return []
        self._desired, self._again_at = desired, None
        self._told += 1
        return [Apply(self._told, desired)]

    def answered(
        self, number: int, error: CulvertError | None, now: float
    ) -> list[tuple[str, tunnel.Installed | tunnel.Failed]]:
        """The event for each tunnel that waited for it, by name."""
        self._done = number
        done = [(fqdn, call) for asked, fqdn, call in self._installs if asked <= number]
        self._installs = [install for install in self._installs if install[0] > number]
        if error is not None:
            self._again_at = now + APPLY_RETRY
        return [
            (fqdn, tunnel.Failed(call, error) if error else tunnel.Installed(call)) for fqdn, call in done
        ]
