"""A span for each call of a device."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from culvert_agent_server import Context
from culvert_proto.grpc_errors import reason_of
from opentelemetry.trace import SpanKind

from culvert_service.tracing.span import fail, span


@contextmanager
def traced_agent_call(method: str, context: Context) -> Generator[None]:
    service, _, name = method.partition("/")
    named = {"rpc__system": "grpc", "rpc__service": service, "rpc__method": name}
    with span(method, SpanKind.SERVER, **named) as call:
        try:
            yield
        except BaseException:
            reason = reason_of(context.trailing_metadata())
            if call is not None and reason is not None:
                fail(call, reason.name)
            raise
