"""Counters and histograms of this process, in a registry of its own. No label is text that a caller sends."""

from __future__ import annotations

from dataclasses import asdict

from culvert_proto import Reason
from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, ProcessCollector

from culvert_service.gateways.health import Drift

# Seconds. The client holds a DNS answer for at most 2 s.
_BUCKETS = (0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
# A reconciliation of 100,000 entries takes seconds.
_RECONCILE_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0)


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
        self.policy_denials = Counter(
            "culvert_policy_denials",
            "Openings that were denied, by reason and the policy whose condition was in the way, if one was",
            ("policy", "reason"),
            registry=self.registry,
        )
        self.rekeys = Counter(
            "culvert_rekeys",
            "New keys of open tunnels, by what they are between: device (and gateway), or gateways",
            ("between",),
            registry=self.registry,
        )
        self.failovers = Counter(
            "culvert_failovers",
            "Tunnels of devices that went on at another gateway, by the one that they left",
            ("gateway",),
            registry=self.registry,
        )
        self.drift_repaired = Counter(
            "culvert_drift_repaired_entries",
            "Entries that a gateway lacked, had in excess or had otherwise, and that were put right",
            ("gateway", "kind"),
            registry=self.registry,
        )
        self.reconcile_seconds = Histogram(
            "culvert_reconcile_seconds",
            "From the first look at a gateway's entries until it holds what it should",
            buckets=_RECONCILE_BUCKETS,
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

    def count_denial(self, action: str, reason: Reason) -> None:
        self.denials.labels(action, reason.name).inc()

    def count_reconciliation(self, gateway: str, seconds: float, drift: Drift) -> None:
        self.reconcile_seconds.observe(seconds)
        for kind, entries in asdict(drift).items():
            self.drift_repaired.labels(gateway, kind).inc(entries)
