"""What is to be seen of every call of a device. A stream is no call with an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, cast

import grpc
import grpc.aio

Context = grpc.aio.ServicerContext[Any, Any]


class UnaryCalls(grpc.aio.ServerInterceptor):
    def __init__(self, around: Callable[[str, Context], AbstractContextManager[None]]) -> None:
        """`around` gets the method as "service/method", and is entered around the answer."""
        self._around = around

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[grpc.RpcMethodHandler[Any, Any] | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        handler = await continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler
        answer = cast("Callable[[Any, Context], Awaitable[Any]]", handler.unary_unary)
        method = handler_call_details.method.lstrip("/")

        async def seen(request: Any, context: Context) -> Any:
            with self._around(method, context):
                return await answer(request, context)

        return grpc.unary_unary_rpc_method_handler(
            seen, handler.request_deserializer, handler.response_serializer
        )
