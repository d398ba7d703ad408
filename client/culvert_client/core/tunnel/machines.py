"""Questions to all tunnels of an organisation. `machines` by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from culvert_client.core.grant import TunnelId
from culvert_client.core.tunnel.machine import Machine
from culvert_client.core.tunnel.states import Carried, Closing, Opening


def list_carried(machines: Mapping[str, Machine]) -> Iterator[Carried]:
    """The tunnels that are up, with what they carry."""
    for machine in machines.values():
        if machine.is_up and machine.carried is not None:
            yield machine.carried


def tunnels_up(machines: Mapping[str, Machine]) -> tuple[TunnelId, ...]:
    return tuple(it.tunnel.tunnel_id for it in list_carried(machines))


def gateways_in_use(machines: Mapping[str, Machine]) -> frozenset[str]:
    """By tunnels that are up."""
    return frozenset(it.tunnel.gateway for it in list_carried(machines))


def list_held(machines: Mapping[str, Machine]) -> dict[str, TunnelId]:
    """The tunnels that the controller may count as open, by name."""
    found: dict[str, TunnelId] = {}
    for fqdn, machine in machines.items():
        if isinstance(machine.state, Closing):
            found[fqdn] = machine.state.tunnel_id
        elif isinstance(machine.state, Opening) and machine.state.moved is not None:
            found[fqdn] = machine.state.moved
        elif machine.carried is not None:
            found[fqdn] = machine.carried.tunnel.tunnel_id
    return found


def name_of(machines: Mapping[str, Machine], tunnel_id: TunnelId) -> str | None:
    return next((fqdn for fqdn, found in list_held(machines).items() if found == tunnel_id), None)
