"""A span for each call of a device; a stream is no operation, and has none."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc
import grpc.aio
from culvert_proto.grpc_errors import reason_of
from opentelemetry.trace import SpanKind

from culvert_service.tracing.span import fail, span

_Context = grpc.aio.ServicerContext[Any, Any]


class TracedAgentCalls(grpc.aio.ServerInterceptor):
    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler
        answer = cast("Callable[[Any, _Context], Awaitable[Any]]", handler.unary_unary)
        service, _, method = handler_call_details.method.lstrip("/").partition("/")

        async def traced(request: Any, context: _Context) -> Any:
            named = {"rpc__system": "grpc", "rpc__service": service, "rpc__method": method}
            with span(f"{service}/{method}", SpanKind.SERVER, **named) as call:
                try:
                    return await answer(request, context)
                except BaseException:
                    reason = reason_of(context.trailing_metadata())
                    if call is not None and reason is not None:
                        fail(call, reason.name)
                    raise

        return grpc.unary_unary_rpc_method_handler(
            traced, handler.request_deserializer, handler.response_serializer
        )
