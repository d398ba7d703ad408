"""The state of the datapath for an organisation, sent as a whole, and the tunnels that wait until it is applied. Pure.

machines ─► SAs, with packets no longer than their paths ─┐
names' last tunnels, while profile and gateway stay ──────┼─► Desired ─► differs, or a tunnel waits, or a retry is due:
profile ─► blocked prefixes, source addresses ────────────┘                                              Apply(number)
                                                                                                               │
                                       Installed, Failed to the waiting tunnels ◄── Applied(number, error) ◄───┘
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from culvert_proto import CulvertError
from culvert_proto.sa import inner_length

from culvert_client.core.client_events import Apply, Desired
from culvert_client.core.grant import Address, Sas, Tunnel
from culvert_client.core.profile import Profile
from culvert_client.core.source_addresses import SourceAddresses
from culvert_client.core.tunnel import events as tunnel
from culvert_client.core.tunnel.machine import Machine

APPLY_RETRY = 5.0
"""Seconds after which a state that the datapath refused is tried again."""


class DesiredTunnels:
    def __init__(self) -> None:
        # Each name's last tunnel, while the profile has the name and the gateway.
        self._last: dict[str, Tunnel] = {}
        self._sources = SourceAddresses()

    def of(
        self, machines: Mapping[str, Machine], profile: Profile, gateway: str, mtus: Mapping[Address, int]
    ) -> Desired:
        """`gateway` is the person's choice, else empty; `mtus` as PathsMeasured."""
        found = {fqdn: sas for fqdn, it in machines.items() if (sas := it.desired()) is not None}
        last = self._last | {fqdn: sas.tunnel for fqdn, sas in found.items()}
        addresses = {it.name: it.inner_addresses for it in profile.gateways}
        self._last = {
            fqdn: it
            for fqdn, it in last.items()
            if profile.knows(fqdn)
            and it.gateway in addresses
            # Not if the controller has assigned other addresses there since.
            and (not addresses[it.gateway] or set(it.inner_addresses) <= set(addresses[it.gateway]))
        }
        closed = (it for fqdn, it in self._last.items() if fqdn not in found)
        fitting = (fit_mtus(sas, mtus) for sas in found.values())
        return Desired(
            frozenset(profile.protected_prefixes),
            tuple(sorted(fitting, key=lambda sas: sas.tunnel.precedence, reverse=True)),
            tuple(sorted(closed, key=lambda it: it.precedence, reverse=True)),
            sources=self._sources.of(profile, gateway),
        )


class Applies:
    """The states sent to the datapath, and the tunnels that wait for one."""

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


def fit_mtus(sas: Sas, mtus: Mapping[Address, int]) -> Sas:
    """With no longer packets than its path lets through, which `mtus` has by outer address in bytes."""
    outer = sas.tunnel.outer_address
    if (mtu := mtus.get(outer)) is None:
        return sas
    longest = inner_length(mtu, outer.version, sas.outbound.suite)
    return replace(sas, tunnel=replace(sas.tunnel, mtu=min(sas.tunnel.mtu, longest)))
