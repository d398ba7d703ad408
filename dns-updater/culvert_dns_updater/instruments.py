"""Metrics of this updater for Prometheus. Labels have zones, which are few, but no names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector


class Instruments:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.passes = Counter(
            "culvert_dns_passes",
            "Passes over a zone by outcome: live, incomplete (foreign or occluded names), failed",
            ("zone", "outcome"),
            registry=self.registry,
        )
        self.pass_seconds = Histogram(
            "culvert_dns_pass_seconds", "From a pass's begin to its end", registry=self.registry
        )
        self.written = Counter(
            "culvert_dns_names_written",
            "Names that were added, changed or withdrawn",
            ("zone",),
            registry=self.registry,
        )
        self.zones = Gauge("culvert_dns_zones_kept", "Zones that this updater keeps", registry=self.registry)
        self.database = Gauge(
            "culvert_dns_database_up", "1 while the database answers", registry=self.registry
        )
