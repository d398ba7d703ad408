"""The state of the datapath for an organisation: open tunnels, addresses of closed ones, blocked prefixes. Pure.

machines ─► SAs, with packets no longer than their paths ─┐
names' last tunnels, while profile and gateway stay ──────┼─► Desired
profile ─► blocked prefixes, source addresses ────────────┘
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from culvert_proto.sa import inner_length

from culvert_client.core.client_events import Desired
from culvert_client.core.grant import Address, Sas, Tunnel
from culvert_client.core.profile import Profile
from culvert_client.core.source_addresses import SourceAddresses
from culvert_client.core.tunnel.machine import Machine


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


def fit_mtus(sas: Sas, mtus: Mapping[Address, int]) -> Sas:
    """With no longer packets than its path lets through, which `mtus` has by outer address in bytes."""
    outer = sas.tunnel.outer_address
    if (mtu := mtus.get(outer)) is None:
        return sas
    longest = inner_length(mtu, outer.version, sas.outbound.suite)
    return replace(sas, tunnel=replace(sas.tunnel, mtu=min(sas.tunnel.mtu, longest)))
