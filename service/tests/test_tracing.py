"""Traces as a collector gets them: what belongs to what, and no secret."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from culvert_lab.free_port import free_port
from culvert_proto import Reason
from culvert_service.tracing import span as tracing
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from .conftest import World, refused, running, serving, settings_in
from .log_watch import LogWatch
from .switch import Switch

pytestmark = pytest.mark.slow


class Collector:
    """Takes OTLP over HTTP."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert (scope["method"], scope["path"]) == ("POST", "/v1/traces")
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message["body"], message["more_body"]
        self.bodies.append(body)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    def spans(self) -> list[Span]:
        requests = [_parsed(body) for body in self.bodies]
        return [
            span
            for request in requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


def _parsed(body: bytes) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)


@asynccontextmanager
async def collecting() -> AsyncGenerator[tuple[Collector, str]]:
    collector, port = Collector(), free_port()
    config = uvicorn.Config(collector, port=port, log_config=None, lifespan="off", ws="none")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server._serve())
    while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
        await asyncio.sleep(0.01)
    try:
        yield collector, f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


def attributes(span: Span) -> dict[str, str | int]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def below(spans: Sequence[Span], top: Span) -> list[Span]:
    return [span for span in spans if span.parent_span_id == top.span_id]


async def test_an_opening_is_one_trace_down_to_its_writes(
    tmp_path: Path, database_url: str, no_secret_is_logged: LogWatch
) -> None:
    async with collecting() as (collector, endpoint):
        settings = settings_in(tmp_path, database_url=database_url, otlp_endpoint=endpoint)
        async with running(settings) as world:
            await world.rest("POST", "/users", {"name": "alice", "email": "alice@corp.example"})
            port = free_port()
            await world.add_gateway("gw-berlin", port)
            async with serving(world, Switch(), "gw-berlin", port):
                await world.online("gw-berlin")
                await world.add_wiki(["gw-berlin"])
                device = await world.enrol()
                assert (await refused(device.open())).reason is Reason.CODE_NEEDED
                await device.prove()
                await device.open()
            admin_token = (settings.state_dir / "admin-token").read_text().strip()
        spans = collector.spans()

    service = "culvert.agent.v1.AgentService"
    denied, opened = [span for span in spans if span.name == f"{service}/OpenTunnel"]
    assert attributes(denied)["error.type"] == "CODE_NEEDED"
    assert "error.type" not in attributes(opened)
    steps = below(spans, opened)
    assert {step.trace_id for step in steps} == {opened.trace_id}
    [write] = [step for step in steps if step.name == "P4Runtime/Write"]
    assert attributes(write) == {"culvert.gateway": "gw-berlin", "culvert.updates": 5}
    assert {"SELECT", "INSERT", "COMMIT"} <= {step.name for step in steps}
    asked = [span for span in spans if span.name == "GET /gateways/{name}"]
    assert {attributes(span)["http.response.status_code"] for span in asked} == {200}
    # Work without a request, such as the constant renewal of leases, has no trace.
    assert {
        span.name for span in spans if not span.parent_span_id and span.kind != Span.SPAN_KIND_SERVER
    } <= {"P4Runtime/Write"}

    told = "".join(str(span) for span in spans)
    assert not [secret for secret in no_secret_is_logged.secrets if secret in told]
    for secret in (admin_token, device.id, "alice", "127.0.0.1"):
        assert secret not in told


async def test_without_a_collector_it_serves_and_stops(tmp_path: Path, database_url: str) -> None:
    endpoint = f"http://127.0.0.1:{free_port()}"
    settings = settings_in(tmp_path, database_url=database_url, otlp_endpoint=endpoint)
    async with running(settings) as world:
        await world.rest("GET", "/gateways")
    assert tracing._tracer is None


async def test_traces_are_off_by_default(world: World) -> None:
    assert tracing._tracer is None
