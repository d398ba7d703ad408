"""What is so at the moment of the scrape: read from the database and from this controller's links."""

from __future__ import annotations

from collections.abc import Iterable

from culvert_db import Device, Gateway, Sessions, SiteTunnel, Tunnel
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import func, select

from culvert_service.gateways.fleet import Fleet
from culvert_service.pki.authority import Authority
from culvert_service.watch.hub import Hub


class _Read(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


class State:
    def __init__(self, sessions: Sessions, fleet: Fleet, hub: Hub, authorities: dict[str, Authority]) -> None:
        self._sessions = sessions
        self._fleet = fleet
        self._hub = hub
        self._authorities = authorities

    async def read(self) -> CollectorRegistry:
        async with self._sessions() as session:
            tunnels = await session.execute(
                select(Gateway.name, Tunnel.state, func.count())
                .join_from(Tunnel, Gateway, Tunnel.gateway_id == Gateway.id)
                .group_by(Gateway.name, Tunnel.state)
            )
            between = await session.execute(select(SiteTunnel.state, func.count()).group_by(SiteTunnel.state))
            devices = await session.execute(select(Device.state, func.count()).group_by(Device.state))
        registry = CollectorRegistry()
        registry.register(
            _Read(
                [
                    _gauge(
                        "culvert_tunnels",
                        "Tunnels by gateway and state, of all controllers",
                        ("gateway", "state"),
                        (((name, state.value), count) for name, state, count in tunnels),
                    ),
                    _gauge(
                        "culvert_site_tunnels",
                        "Tunnels between gateways by state, of all controllers",
                        ("state",),
                        (((state.value,), count) for state, count in between),
                    ),
                    _gauge(
                        "culvert_devices",
                        "Enrolled devices by state",
                        ("state",),
                        (((state.value,), count) for state, count in devices),
                    ),
                    _gauge(
                        "culvert_devices_watching",
                        "Devices whose stream is open at this controller",
                        (),
                        [((), len(self._hub))],
                    ),
                    _gauge(
                        "culvert_gateway_online",
                        "1 while this controller reaches the gateway and it holds its desired state",
                        ("gateway",),
                        (((link.name,), int(link.online)) for link in self._fleet),
                    ),
                    _gauge(
                        "culvert_ca_expires_timestamp_seconds",
                        "When a CA's certificate ends, Unix time",
                        ("ca",),
                        (((name,), ca.expires_at.timestamp()) for name, ca in self._authorities.items()),
                    ),
                ]
            )
        )
        return registry


def _gauge(
    name: str, what: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    family = GaugeMetricFamily(name, what, labels=labels)
    for named, value in values:
        family.add_metric(named, value)
    return family
