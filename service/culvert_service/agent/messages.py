"""Converts grants and profiles to culvert.agent.v1 messages. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence

from culvert_db import Device, Resource
from culvert_db.published import hosts
from culvert_proto import CulvertError, Reason, agent_pb2
from culvert_proto.contract import MIN_REPLAY_WINDOW, MTU_MIN, NAT_T_PORT, Suite
from culvert_proto.phrases import Phrase
from culvert_proto.sa import Limits

from culvert_service.decision.decision import Permit
from culvert_service.decision.nearness import Distance
from culvert_service.gateways.fleet import Standing
from culvert_service.gateways.sa import compute_hard
from culvert_service.gateways.selector import Selector
from culvert_service.gateways.site import Probe
from culvert_service.gateways.tunnel_entries import precedence
from culvert_service.tunnels.pool import Inner
from culvert_service.tunnels.programming import GrantedPair, GrantedTunnel

# Bytes of an IP packet, from IPv6's minimum MTU (RFC 8200 section 5).
_PATH_MTUS = range(MTU_MIN, 1 << 16)


def sa_pair(pair: GrantedPair, drain: datetime.timedelta) -> agent_pb2.SaPair:
    return agent_pb2.SaPair(
        generation=pair.generation,
        inbound=_sa(pair.to_device, pair.keys.to_device, pair.suite, pair.soft),
        outbound=_sa(pair.to_gateway, pair.keys.to_gateway, pair.suite, pair.soft),
        drain_ms=round(drain.total_seconds() * 1000),
    )


def tunnel(granted: GrantedTunnel, permit: Permit | None) -> agent_pb2.Tunnel:
    path = granted.path
    aged = permit if permit is not None and permit.code_seconds else None
    return agent_pb2.Tunnel(
        tunnel_id=str(granted.id),
        resource=granted.resource,
        fqdn=granted.fqdn,
        gateway=agent_pb2.Gateway(name=granted.gateway, address=path.public_address, online=True),
        inner_address=path.inner_address,
        selectors=map(_selector, path.carried),
        inner_address6=path.inner_address6 or "",
        remote_prefixes=path.remote_prefixes,
        outer_address=path.public_address,
        outer_port=NAT_T_PORT,
        idle_seconds=granted.idle_seconds,
        inner_mtu=path.site_mtu,
        precedence=precedence(granted.id),
        path_mtu=path.path_mtu or 0,
        probe=_probe(path.probe),
        code_until=int(aged.until.timestamp()) if aged is not None else 0,
        code_seconds=aged.code_seconds if aged is not None else 0,
    )


def distances(measured: Iterable[agent_pb2.GatewayDistance]) -> dict[str, Distance]:
    """Distances by gateway name; entries without a round-trip time are left out."""
    return {it.name: Distance(it.rtt_us / 1e6, it.in_use) for it in measured if it.rtt_us}


def path_mtus(measured: Iterable[agent_pb2.GatewayDistance]) -> dict[str, int]:
    """Known path MTUs by gateway name. Raises CulvertError REQUEST_INVALID."""
    return {it.name: path_mtu(it.path_mtu) for it in measured if it.path_mtu}


def path_mtu(mtu: int) -> int:
    """Raises CulvertError REQUEST_INVALID."""
    if mtu not in _PATH_MTUS:
        raise CulvertError(
            Reason.REQUEST_INVALID,
            why=Phrase("a path MTU is between {least} and {most}", least=_PATH_MTUS[0], most=_PATH_MTUS[-1]),
        )
    return mtu


def profile_resource(resource: Resource, gateways: Sequence[str]) -> bytes:
    """A profile of this resource alone, serialised. Joined, such bytes are a profile of all their resources."""
    told = agent_pb2.Resource(
        name=resource.name,
        fqdn=resource.fqdn,
        addresses=map(str, hosts(resource.targets)),
        gateways=gateways,
    )
    return agent_pb2.Profile(resources=[told]).SerializeToString()


def profile(
    device: Device,
    resources: bytes,
    gateways: Sequence[Standing],
    inner: Mapping[str, Inner],
    managed_zones: Sequence[str],
    protected_prefixes: Sequence[str],
    denial_page_zones: Sequence[str],
    now: datetime.datetime,
) -> agent_pb2.Profile:
    """`resources`: joined bytes of `profile_resource`. `inner`: the device's inner addresses, by gateway."""
    until = device.code_valid_until
    made = agent_pb2.Profile(
        user=device.user.name,
        device_id=str(device.id),
        device_name=device.name,
        managed_zones=managed_zones,
        protected_prefixes=protected_prefixes,
        denial_page_zones=denial_page_zones,
        gateways=[_gateway(it, inner.get(it.config.name)) for it in gateways],
        code_valid_until=int(until.timestamp()) if until is not None and until > now else 0,
    )
    made.MergeFromString(resources)
    return made


def _gateway(standing: Standing, inner: Inner | None) -> agent_pb2.Gateway:
    return agent_pb2.Gateway(
        name=standing.config.name,
        address=standing.config.site.public_address,
        online=standing.online,
        inner_address=inner.address if inner else "",
        inner_address6=(inner.address6 if inner else None) or "",
    )


def _probe(probe: Probe | None) -> agent_pb2.Probe | None:
    return agent_pb2.Probe(target=probe.target, source=probe.source) if probe is not None else None


def _selector(selector: Selector) -> agent_pb2.Selector:
    first, last = selector.ports
    return agent_pb2.Selector(
        prefix=selector.prefix, protocol=selector.protocol or 0, first_port=first, last_port=last
    )


def _sa(spi: int, key: bytes, suite: Suite, soft: Limits) -> agent_pb2.Sa:
    return agent_pb2.Sa(
        spi=spi,
        suite=agent_pb2.Suite.ValueType(suite.number),
        key=key,
        esn=True,
        replay_window=MIN_REPLAY_WINDOW,
        soft=_limits(soft),
        hard=_limits(compute_hard(soft)),
    )


def _limits(limits: Limits) -> agent_pb2.Limits:
    return agent_pb2.Limits(packets=limits.packets, bytes=limits.bytes, seconds=limits.seconds)
