"""The desired states sent to the datapath, each as a whole, and the tunnels that wait until one is applied.

tunnels, blocked ─► Desired ─► differs, or a tunnel waits, or a retry is due: Apply(number)
                                                                 │
Installed, Failed to waiting tunnels ◄─ Applied(number, error) ◄─┘
"""

from __future__ import annotations

from culvert_proto import CulvertError

from culvert_client.core.client_events import Apply, Desired
from culvert_client.core.tunnel import events as tunnel

APPLY_RETRY = 5.0
"""Seconds after which a state that the datapath refused is tried again."""


class Applies:
    def __init__(self) -> None:
        # Tunnels that wait for an Apply: its number, the tunnel's name, the call.
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
        """Answer `call` once the next state, which has this tunnel, is applied."""
        self._installs.append((self._told + 1, fqdn, call))

    def tell(self, desired: Desired, now: float) -> list[Apply]:
        awaited = any(number > self._told for number, _, _ in self._installs)
        due = self._again_at is not None and self._again_at <= now
        if desired == self._desired and not awaited and not due:
            return []
        self._desired, self._again_at = desired, None
        self._told += 1
        return [Apply(self._told, desired)]

    def take_answer(
        self, number: int, error: CulvertError | None, now: float
    ) -> list[tuple[str, tunnel.Installed | tunnel.Failed]]:
        """The event for each tunnel that waited for this Apply, by name."""
        self._done = number
        done = [(fqdn, call) for asked, fqdn, call in self._installs if asked <= number]
        self._installs = [install for install in self._installs if install[0] > number]
        if error is not None:
            self._again_at = now + APPLY_RETRY
        return [
            (fqdn, tunnel.Failed(call, error) if error else tunnel.Installed(call)) for fqdn, call in done
        ]
