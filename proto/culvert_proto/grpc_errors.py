"""The only mapping of CulvertError to gRPC: a google.rpc.Status with one culvert.error.v1.Error in its details."""

from __future__ import annotations

import functools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, NoReturn, Protocol, TypeVar

import grpc
import grpc.aio
from google.protobuf import any_pb2
from google.rpc import status_pb2

from culvert_proto.gen.culvert.error.v1 import error_pb2
from culvert_proto.phrases import Phrase
from culvert_proto.reasons import CulvertError, Reason

_log = logging.getLogger(__name__)

DAEMON = "the Culvert daemon"
"""As a peer, in errors that a daemon's caller shows."""

_DETAILS_KEY = "grpc-status-details-bin"


class Context(Protocol):
    """The methods of a call that a refusal needs: those of gRPC and of `culvert_agent_server`."""

    def set_trailing_metadata(self, trailing_metadata: tuple[tuple[str, str | bytes], ...]) -> None: ...

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn: ...


Request = TypeVar("Request")
Response = TypeVar("Response")
Caller = TypeVar("Caller", bound=Context)


def status(error: CulvertError) -> status_pb2.Status:
    """The google.rpc.Status of a call that is refused with this error."""
    detail = any_pb2.Any()
    detail.Pack(error.to_proto())
    return status_pb2.Status(code=error.entry.grpc.value[0], message=error.message, details=[detail])


async def abort(context: Context, error: CulvertError) -> NoReturn:
    """End the call with the error's status; its texts travel in the trailing metadata."""
    context.set_trailing_metadata(((_DETAILS_KEY, status(error).SerializeToString()),))
    await context.abort(error.entry.grpc, error.message)
    raise AssertionError("abort returned")


def from_rpc_error(error: grpc.aio.AioRpcError, *, peer: str) -> CulvertError:
    """The CulvertError that a call ended with; a transport fault becomes CONTROLLER_UNREACHABLE or TIMEOUT for `peer`."""
    if (told := _read_error(error.trailing_metadata())) is not None:
        return told
    if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        if peer == DAEMON:
            return CulvertError(Reason.TIMEOUT, what=Phrase("The answer of the Culvert daemon"))
        return CulvertError(Reason.TIMEOUT, what=Phrase("The answer of {peer}", peer=peer))
    if error.code() is grpc.StatusCode.UNAVAILABLE:
        return CulvertError(Reason.CONTROLLER_UNREACHABLE, controller=peer)
    return CulvertError(Reason.INTERNAL)


def reason_of(metadata: Iterable[tuple[str, str | bytes]] | None) -> Reason | None:
    """Why a call ended, from its trailing metadata; None if they do not tell."""
    told = _read_error(metadata)
    return told.reason if told else None


def _read_error(metadata: Iterable[tuple[str, str | bytes]] | None) -> CulvertError | None:
    for key, value in metadata or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            for detail in status_pb2.Status.FromString(value).details:
                found = error_pb2.Error()
                if detail.Unpack(found):
                    return CulvertError.from_proto(found)
    return None


def _to_culvert_error(error: Exception) -> CulvertError:
    if isinstance(error, CulvertError):
        return error
    _log.exception("a call failed", exc_info=error)
    return CulvertError(Reason.INTERNAL)


def unary(
    handler: Callable[[Any, Request, Caller], Awaitable[Response]],
) -> Callable[[Any, Request, Caller], Awaitable[Response]]:
    """Wrap a unary handler: a CulvertError that it raises becomes the call's status; any other error becomes INTERNAL."""

    @functools.wraps(handler)
    async def call(self: Any, request: Request, context: Caller) -> Response:
        try:
            return await handler(self, request, context)
        except Exception as error:
            await abort(context, _to_culvert_error(error))

    return call


def stream(
    handler: Callable[[Any, Request, Caller], AsyncIterator[Response]],
) -> Callable[[Any, Request, Caller], AsyncIterator[Response]]:
    """As `unary`, for a handler that streams its answers."""

    @functools.wraps(handler)
    async def call(self: Any, request: Request, context: Caller) -> AsyncIterator[Response]:
        try:
            responses = handler(self, request, context)
            # Keep neither the request nor a sent response while the stream waits.
            del request
            async for response in responses:
                yield response
                del response
        except Exception as error:
            await abort(context, _to_culvert_error(error))

    return call
