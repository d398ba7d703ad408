"""Gauges of the state at the moment of the scrape: from the database and from this controller's links."""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from culvert_db import Database
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from culvert_service.gateways.fleet import Fleet
from culvert_service.metrics import repository
from culvert_service.pki.authority import Authority
from culvert_service.watch.hub import Hub

# A gateway without a sample within this time is left out (gateways/sampling.py).
_SAMPLED = datetime.timedelta(minutes=1)


class _Read(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


class StateGauges:
    def __init__(self, database: Database, fleet: Fleet, hub: Hub, authorities: dict[str, Authority]) -> None:
        self._database = database
        self._fleet = fleet
        self._hub = hub
        self._authorities = authorities

    async def read(self) -> CollectorRegistry:
        async with self._database() as session:
            counts = await repository.counts(session, _SAMPLED)
        registry = CollectorRegistry()
        registry.register(
            _Read(
                [
                    _gauge(
                        "culvert_tunnels",
                        "Tunnels by gateway and state, of all controllers",
                        ("gateway", "state"),
                        (((name, state.value), count) for name, state, count in counts.tunnels),
                    ),
                    _gauge(
                        "culvert_site_tunnels",
                        "Tunnels between gateways by state, of all controllers",
                        ("state",),
                        (((state.value,), count) for state, count in counts.site_tunnels),
                    ),
                    _gauge(
                        "culvert_dns_zones",
                        "DNS zones that a dns-updater has looked at, by state",
                        ("state",),
                        (((state.value,), count) for state, count in counts.zones),
                    ),
                    _gauge(
                        "culvert_dns_records",
                        "Published names by zone (empty: of none) and state",
                        ("zone", "state"),
                        (((zone, state.value), count) for zone, state, count in counts.records),
                    ),
                    _fill(
                        CounterMetricFamily(
                            "culvert_gateway_drops",
                            "Packets that a gateway has dropped since its switch began, by cause, of all controllers",
                            labels=("gateway", "cause"),
                        ),
                        (
                            ((name, cause), count)
                            for name, drops in counts.drops
                            for cause, count in drops.items()
                        ),
                    ),
                    _gauge(
                        "culvert_devices",
                        "Enrolled devices by state",
                        ("state",),
                        (((state.value,), count) for state, count in counts.devices),
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
                        "culvert_crypto_host_online",
                        "1 while the gateway that this controller reaches gives SAs to the crypto host",
                        ("gateway", "crypto_host"),
                        (
                            ((link.name, at.host.name), int(at.usable))
                            for link in self._fleet
                            for at in link.hosts.links()
                        ),
                    ),
                    _gauge(
                        "culvert_crypto_host_sas",
                        "SAs of a crypto host when its entries were last compared, and those placed since",
                        ("gateway", "crypto_host"),
                        (
                            ((link.name, at.host.name), at.load)
                            for link in self._fleet
                            for at in link.hosts.links()
                        ),
                    ),
                    _gauge(
                        "culvert_gateway_certificate_expires_timestamp_seconds",
                        "When a gateway's certificate ends, Unix time, of all controllers",
                        ("gateway",),
                        (((name,), end.timestamp()) for name, end in counts.certificates if end is not None),
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
    return _fill(GaugeMetricFamily(name, what, labels=labels), values)


def _fill(
    family: GaugeMetricFamily | CounterMetricFamily, values: Iterable[tuple[tuple[str, ...], float]]
) -> Metric:
    for named, value in values:
        family.add_metric(named, value)
    return family
