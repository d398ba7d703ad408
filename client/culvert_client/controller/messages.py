"""Converts the agent API's messages to the core's values, and refuses invalid ones with CulvertError.

CONTROLLER_INVALID: malformed, or beyond a limit. ADDRESS_COLLISION: it would cut this computer off. ORGANISATIONS_COLLIDE:
another organisation has the claim. CONSENT_NEEDED: the person has not agreed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace
from ipaddress import ip_address, ip_network
from typing import Protocol, TypeVar

from culvert_proto import CulvertError, Reason, agent_pb2
from culvert_proto.contract import FIRST_SPI, Suite
from culvert_proto.dns_name import WILDCARD, canonical, is_wildcard
from culvert_proto.phrases import Phrase
from culvert_proto.sa import Limits, check_allowed

from culvert_client.controller.agent import Agent
from culvert_client.controller.zones import check_zones
from culvert_client.core import grant, profile
from culvert_client.core.claims import (
    Surroundings,
    apart,
    check_collisions,
    check_host,
    check_prefixes,
    check_public_space,
    overlap,
)
from culvert_client.core.consent import Consent
from culvert_client.core.neighbours import (
    NOBODY,
    Beside,
    check_pair,
    check_profile,
    check_tunnel,
    without_taken_addresses,
)
from culvert_client.core.tunnel import events as tunnel

NOWHERE = Surroundings()

Value = TypeVar("Value")


class Neighbourhood(Protocol):
    """An organisation's surroundings: the other organisations, the name servers, and the person's consent."""

    consent: Consent

    async def look_around(self) -> None:
        """Resolve the addresses of the other organisations' controllers that are not known yet."""
        ...

    async def surroundings(self, controller: str) -> Surroundings:
        """As moves.py."""
        ...

    def beside(self) -> Beside: ...

    def name_servers(self) -> frozenset[grant.Address]:
        """The name servers that the network gave this computer."""
        ...


def profile_from(message: agent_pb2.Profile) -> profile.Profile:
    made = _build_checked(
        Phrase("a profile that this version does not understand"),
        lambda: profile.Profile(
            user=message.user,
            device_name=message.device_name,
            managed_zones=tuple(map(canonical, message.managed_zones)),
            protected_prefixes=tuple(map(ip_network, message.protected_prefixes)),
            gateways=tuple(map(_gateway, message.gateways)),
            resources=tuple(map(_resource, message.resources)),
            code_valid_until=message.code_valid_until,
            denial_page_zones=tuple(filter(None, map(canonical, message.denial_page_zones))),
        ),
    )
    check_prefixes(made.protected_prefixes)
    for zone in made.managed_zones:
        if not zone:
            raise CulvertError(Reason.CONTROLLER_INVALID, why=Phrase("it claims every name there is"))
    for gateway in made.gateways:
        for address in (ip_address(gateway.address), *gateway.inner_addresses):
            check_host(address)
        if any(ip_address(gateway.address) in prefix for prefix in made.protected_prefixes):
            why = Phrase(
                "the gateway {gateway} has an address that tunnels alone may reach", gateway=gateway.name
            )
            raise CulvertError(Reason.CONTROLLER_INVALID, why=why)
    return made


async def accepted_profile(
    message: agent_pb2.Profile, agent: Agent, known: profile.Profile, neighbourhood: Neighbourhood
) -> profile.Profile:
    """As `profile_from`, with the person's consent applied. Additions to the `known` profile are checked against the other
    organisations, and prefixes that this computer needs here are left out as collisions."""
    made = profile_from(message)
    wildcards = {it.fqdn.removeprefix(WILDCARD) for it in made.resources if is_wildcard(it.fqdn)}
    await asyncio.to_thread(check_zones, sorted({*made.managed_zones, *wildcards}))
    await _check_neighbours(neighbourhood.consent.apply(made), agent, known, neighbourhood)
    # Apply the consent again: the person may have answered meanwhile.
    made = _beside(neighbourhood.consent.apply(made), known, agent.surroundings)
    return without_taken_addresses(made, agent.surroundings, neighbourhood.beside())


async def check_claims(
    made: profile.Profile, agent: Agent, known: profile.Profile, neighbourhood: Neighbourhood
) -> None:
    """Check additions of `made` to the `known` profile against this computer's networks and the other organisations."""
    await _check_neighbours(made, agent, known, neighbourhood)
    check_collisions(set(made.protected_prefixes) - set(known.protected_prefixes), agent.surroundings)


async def _check_neighbours(
    made: profile.Profile, agent: Agent, known: profile.Profile, neighbourhood: Neighbourhood
) -> None:
    here = await neighbourhood.surroundings(agent.address)
    agent.surroundings = replace(here, name_servers=neighbourhood.name_servers())
    if not set(made.protected_prefixes) <= set(known.protected_prefixes):
        await neighbourhood.look_around()
    beside = neighbourhood.beside()
    check_public_space(
        [*made.offered, *(it for other in beside.others for it in other.profile.protected_prefixes)]
    )
    check_profile(made, known, beside)


def _beside(made: profile.Profile, known: profile.Profile, here: Surroundings) -> profile.Profile:
    """Protected networks of the known profile stay protected wherever this computer is."""
    agreed = set(known.protected_prefixes)
    new = [it for it in made.protected_prefixes if it not in agreed]
    kept = [it for it in made.protected_prefixes if it in agreed]
    around = ((it, [prefix for prefix in new if overlap(it, prefix)]) for it in here.needed)
    collisions = (
        profile.Collision(it, min(prefixes, key=lambda prefix: prefix.prefixlen))
        for it, prefixes in around
        if prefixes
    )
    protected = (*kept, *apart(new, here.needed))
    return replace(made, protected_prefixes=protected, collisions=tuple(collisions))


def kept_profile(kept: agent_pb2.Profile | None) -> profile.Profile:
    """The stored profile, without code and inner addresses: the controller sends them again, and in this network the
    controller or a name server may have such an address. Raises CulvertError CONTROLLER_INVALID.
    """
    if kept is None:
        return profile.Profile()
    return profile_from(kept).with_code(0).with_inner_addresses(lambda _: False)


def event_from(
    message: agent_pb2.WatchResponse,
) -> tunnel.ClosedByController | tunnel.GatewayMoved | tunnel.SoftLimit | None:
    match message.WhichOneof("event"):
        case "tunnel_closed":
            lost = message.tunnel_closed
            why = CulvertError.from_proto(lost.why)
            return tunnel.ClosedByController(grant.TunnelId(lost.tunnel_id), why, lost.last_generation)
        case "sa_expiring":
            expiring = message.sa_expiring
            return tunnel.SoftLimit(grant.TunnelId(expiring.tunnel_id), expiring.generation)
        case "gateway_moved":
            return tunnel.GatewayMoved(grant.TunnelId(message.gateway_moved.tunnel_id))
        case _:
            return None


def tunnel_from(
    message: agent_pb2.Tunnel,
    here: Surroundings = NOWHERE,
    beside: Beside = NOBODY,
    consent: Consent = Consent(),  # noqa: B008  immutable
) -> grant.Tunnel:
    made = _build_checked(
        Phrase("a tunnel that this version does not understand"),
        lambda: grant.Tunnel(
            tunnel_id=grant.TunnelId(message.tunnel_id),
            resource=message.resource,
            fqdn=canonical(message.fqdn),
            gateway=message.gateway.name,
            inner_address=ip_address(message.inner_address),
            remote_prefixes=tuple(map(ip_network, message.remote_prefixes)),
            outer_address=ip_address(message.outer_address),
            outer_port=_in(range(1, 1 << 16), message.outer_port),
            idle=float(message.idle_seconds),
            # The least packet size that the datapath takes (RFC 791).
            mtu=_in(range(576, 1 << 16), message.inner_mtu),
            inner_address6=ip_address(message.inner_address6) if message.inner_address6 else None,
            selectors=tuple(_selector(it, message.remote_prefixes) for it in message.selectors),
            precedence=message.precedence,
            probe=_probe(message.probe) if message.HasField("probe") else None,
            path_mtu=message.path_mtu,
            code_until=message.code_until,
            code_seconds=message.code_seconds,
        ),
    )
    check_prefixes(made.remote_prefixes)
    # A gateway beside its computer's kernel answers the probe from a link-local address, to which nothing is sent.
    sources = [made.probe.source] if made.probe is not None and not made.probe.source.is_link_local else []
    for address in (*made.inner_addresses, *sources, made.outer_address):
        check_host(address)
    check_collisions([*made.remote_prefixes, *map(ip_network, made.inner_addresses)], here)
    consent.check(made)
    check_tunnel(made, beside)
    return made


def pair_from(
    message: agent_pb2.SaPair, legacy_suites: Collection[Suite] = frozenset(), beside: Beside = NOBODY
) -> grant.SaPair:
    """Raises also CulvertError SUITE_LEGACY for a legacy suite that is not in `legacy_suites`."""
    pair = _build_checked(
        Phrase("keys that this version does not understand"),
        lambda: grant.SaPair(
            generation=message.generation,
            inbound=_sa(message.inbound),
            outbound=_sa(message.outbound),
            drain=message.drain_ms / 1e3,
        ),
    )
    for suite in (pair.inbound.suite, pair.outbound.suite):
        check_allowed(suite, legacy_suites, Phrase("this computer's configuration"))
    check_pair(pair, beside)
    return pair


def _gateway(message: agent_pb2.Gateway) -> profile.Gateway:
    given = filter(None, (message.inner_address, message.inner_address6))
    inner = tuple(map(ip_address, given))
    return profile.Gateway(message.name, str(ip_address(message.address)), message.online, inner)


def _resource(message: agent_pb2.Resource) -> profile.Resource:
    addresses = tuple(map(_network_text, message.addresses))
    return profile.Resource(message.name, canonical(message.fqdn), addresses, tuple(message.gateways))


def _selector(message: agent_pb2.Selector, prefixes: Collection[str]) -> grant.Selector:
    # Each selector needs a route: its prefix must be one of the tunnel's.
    if message.prefix not in prefixes or message.first_port > message.last_port:
        raise ValueError
    ports = (message.first_port, _in(range(1 << 16), message.last_port))
    return grant.Selector(ip_network(message.prefix), _in(range(1 << 8), message.protocol) or None, ports)


def _probe(message: agent_pb2.Probe) -> grant.Probe:
    target, source = ip_address(message.target), ip_address(message.source)
    if target.version != source.version:
        raise ValueError
    return grant.Probe(target, source)


def _sa(message: agent_pb2.Sa) -> grant.Sa:
    suite = Suite.numbered(message.suite)
    if len(message.key) != suite.key_material or not message.esn:
        raise ValueError
    return grant.Sa(
        spi=grant.Spi(_in(range(FIRST_SPI, 1 << 32), message.spi)),
        key=message.key,
        replay_window=message.replay_window,
        soft=_limits(message.soft),
        hard=_limits(message.hard),
        suite=suite,
    )


def _limits(message: agent_pb2.Limits) -> Limits:
    return Limits(message.packets, message.bytes, message.seconds)


def _network_text(text: str) -> str:
    """Check that the text is an address or a prefix, and return it unchanged."""
    ip_network(text, strict=False)
    return text


def _in(allowed: range, value: int) -> int:
    if value not in allowed:
        raise ValueError
    return value


def _build_checked(why: Phrase, build: Callable[[], Value]) -> Value:
    try:
        return build()
    except ValueError:
        # Without the cause, which may quote keys from the message.
        raise CulvertError(Reason.CONTROLLER_INVALID, why=why) from None
