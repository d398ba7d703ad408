"""Counters and histograms of this process, in a registry of its own. No label is text that a caller sends."""

from __future__ import annotations

from culvert_proto import Reason
from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, ProcessCollector

# Seconds. A click waits for two of them at most (DESIGN: the life of one click).
_BUCKETS = (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Instruments:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.agent_calls = Counter(
            "culvert_agent_calls",
            "Calls of devices by how they ended: OK, a reason of the error catalogue, or FAULT",
            ("method", "outcome"),
            registry=self.registry,
        )
        self.agent_seconds = Histogram(
            "culvert_agent_call_seconds",
            "From a device's call to its answer",
            ("method",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.denials = Counter(
            "culvert_denials",
            "Refusals of devices' calls, of which the audit log is told, by action and reason",
            ("action", "reason"),
            registry=self.registry,
        )
        self.rest_calls = Counter(
            "culvert_rest_calls",
            "Calls of the REST API by route and status",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self.rest_seconds = Histogram(
            "culvert_rest_call_seconds",
            "From a call of the REST API to the begin of its answer",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self.registry,
        )

    def denied(self, action: str, reason: Reason) -> None:
        self.denials.labels(action, reason.name).inc()
