"""Sends spans to a collector (OTLP over HTTP) in batches, from a thread of its own.

If the collector is unreachable, only spans are lost: the queue is bounded, and spans that do not fit are dropped.
"""

from __future__ import annotations

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

_EXPORT_SECONDS = 3.0


def provider(endpoint: str, ratio: float, controller: str) -> TracerProvider:
    """`endpoint`: the collector's address without a path; `ratio`: the share of operations that are traced."""
    made = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(ratio)),
        resource=Resource.create({"service.name": "culvert-controller", "service.instance.id": controller}),
        shutdown_on_exit=False,
    )
    exporter = OTLPSpanExporter(f"{endpoint.rstrip('/')}/v1/traces", timeout=_EXPORT_SECONDS)
    made.add_span_processor(BatchSpanProcessor(exporter))
    return made
