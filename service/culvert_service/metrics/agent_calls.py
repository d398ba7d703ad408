"""Counts what devices ask. A stream is not a call with an answer: who watches is a gauge."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, cast

import grpc
import grpc.aio
from culvert_proto.grpc_errors import reason_of

from culvert_service.metrics.instruments import Instruments

_Context = grpc.aio.ServicerContext[Any, Any]


class AgentCalls(grpc.aio.ServerInterceptor):
    def __init__(self, instruments: Instruments) -> None:
        self._instruments = instruments

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler
        answer = cast("Callable[[Any, _Context], Awaitable[Any]]", handler.unary_unary)
        method = handler_call_details.method.rpartition("/")[2]

        async def counted(request: Any, context: _Context) -> Any:
            began, outcome = time.perf_counter(), "OK"
            try:
                return await answer(request, context)
            except BaseException:
                reason = reason_of(context.trailing_metadata())
                outcome = reason.name if reason else "FAULT"
                raise
            finally:
                self._instruments.agent_calls.labels(method, outcome).inc()
                self._instruments.agent_seconds.labels(method).observe(time.perf_counter() - began)

        return grpc.unary_unary_rpc_method_handler(
            counted, handler.request_deserializer, handler.response_serializer
        )
