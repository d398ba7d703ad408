"""Calls the methods of generated gRPC code for requests on the connections that Rust holds."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, Protocol

import grpc
from google.protobuf.message import DecodeError

from culvert_agent_server import _native

_log = logging.getLogger(__name__)

_DETAILS_KEY: Final = "grpc-status-details-bin"


@dataclass(frozen=True, slots=True)
class Shown:
    """PEM: the server's certificate chain, its key, and the CAs of the peers' certificates."""

    chain: bytes
    key: bytes
    peers: bytes


Ends = tuple[int, str, bytes]
"""The front's refusal of a call without Python: a gRPC code, a text, and a serialized google.rpc.Status."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """`files` is RLIMIT_NOFILE, from which the limits of connections follow. `calls_per_second` is for each device."""

    files: int
    calls_per_second: float
    too_large: Ends
    too_often: Ends


class Context:
    """A call's context: the part of gRPC's that its methods use, and the connection's device."""

    __slots__ = ("_metadata", "address", "fingerprint")

    def __init__(self, address: str, fingerprint: bytes) -> None:
        self.address = address
        """The source IP address of the connection; an IPv4-mapped address is given as IPv4."""
        self.fingerprint = fingerprint
        """SHA-256 of the DER of the device's certificate."""
        self._metadata: Sequence[tuple[str, str | bytes]] = ()

    def set_trailing_metadata(self, trailing_metadata: Sequence[tuple[str, str | bytes]]) -> None:
        """Only the details of the status are sent."""
        self._metadata = trailing_metadata

    def trailing_metadata(self) -> Sequence[tuple[str, str | bytes]]:
        return self._metadata

    async def abort(self, code: grpc.StatusCode, details: str) -> NoReturn:
        raise _AbortedError(code, details)


class _Method(Protocol):
    """The attributes of `grpc.RpcMethodHandler` that generated code sets."""

    request_deserializer: Callable[[bytes], Any]
    response_serializer: Callable[[Any], bytes]
    unary_unary: Callable[[Any, Context], Awaitable[Any]] | None
    unary_stream: Callable[[Any, Context], AsyncGenerator[Any]]


class _AbortedError(Exception):
    def __init__(self, code: grpc.StatusCode, said: str) -> None:
        super().__init__(code, said)
        self.code = code
        self.said = said


Limited = Callable[[bytes, str, int], Coroutine[Any, Any, None]]
"""Gets a certificate's fingerprint, its source address, and how many of its calls exceeded the rate."""


async def _unheard(_fingerprint: bytes, _address: str, _count: int) -> None:
    pass


GatewayChanged = Callable[[str, Path, bool], None]
"""Gets a gateway's name, the Unix socket of its connection, and whether that has begun or ended."""


def _no_gateway(_name: str, _path: Path, _connected: bool) -> None:
    pass


Around = Callable[[str, Context], AbstractContextManager[None]]
"""Gets the method as "package.Service/Method", and is entered around its one answer."""


class Server:
    """Listens as soon as it is made, and answers calls between `start` and `stop`. `port` is the actual port.

    Raises OSError, and ValueError for certificates that do not fit.
    """

    def __init__(
        self,
        host: str,
        port: int,
        shown: Shown,
        limits: CallLimits,
        *,
        handshake_seconds: float,
        around: Sequence[Around] = (),
        to_gateways: Shown | None = None,
        sockets: Path = Path(),
        balancers: Sequence[str] = (),
    ) -> None:
        """`to_gateways`: shown to gateways that connect; without it none may. `sockets`: a directory of this process alone
        for their connections.
        """
        self._native = _native.Server(
            host,
            port,
            handshake_seconds,
            limits.files,
            limits.calls_per_second,
            limits.too_large,
            limits.too_often,
            _credentials(shown),
            to_gateways and _credentials(to_gateways),
            sockets,
            list(balancers),
        )
        self.port = self._native.port
        self._around = around
        self._limited: Limited = _unheard
        self._gateway_changed: GatewayChanged = _no_gateway
        self._telling: set[asyncio.Task[None]] = set()
        self._methods: dict[str, _Method] = {}
        self._calls: dict[int, _Call] = {}
        self._ended = asyncio.Event()

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Ignored: generated code also calls `add_registered_method_handlers`, with the same methods."""

    def add_registered_method_handlers(
        self, service_name: str, method_handlers: Mapping[str, _Method]
    ) -> None:
        for name, method in method_handlers.items():
            self._methods[f"/{service_name}/{name}"] = method

    def show(self, shown: Shown, to_gateways: Shown | None = None) -> None:
        """Shows these certificates to devices and gateways that connect from now on. Raises ValueError, and keeps the
        previous ones.
        """
        self._native.show(_credentials(shown), to_gateways and _credentials(to_gateways))

    def register(self, gateways: Mapping[str, int]) -> None:
        """Lets these gateways connect, and ends the connections of all others.

        `gateways`: the Unix time of each one's registration, by name. An older certificate is refused.
        """
        self._native.register(dict(gateways))

    def deny(self, fingerprints: Sequence[bytes]) -> None:
        """Refuses these certificates in the handshake from now on.

        One handshake in two seconds still succeeds, so that the device's call can be told the reason.
        """
        self._native.deny(list(fingerprints))

    def start(self, limited: Limited | None = None, gateway_changed: GatewayChanged = _no_gateway) -> None:
        self._limited = limited or _unheard
        self._gateway_changed = gateway_changed
        asyncio.get_running_loop().add_reader(self._native.fileno(), self._look)

    async def stop(self, grace_seconds: float) -> None:
        """Ends, and gives the calls under way `grace_seconds` to finish."""
        await self.end_calls(grace_seconds)
        self.close()

    async def end_calls(self, grace_seconds: float) -> None:
        """Accepts no new connection, and ends those of devices. Those of gateways last until `close`."""
        self._native.end()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await self._ended.wait()
        tasks = [call.task for call in self._calls.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            # A call that resists its cancellation must not keep the server from stopping.
            _, left = await asyncio.wait(tasks, timeout=grace_seconds)
            if left:
                _log.error("calls did not end", extra={"count": len(left)})

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._native.fileno())
        self._native.close()

    def _look(self) -> None:
        for number, news in self._native.take():
            if isinstance(news, _native.Call):
                call = self._calls[number] = _Call(self, news, self._methods.get(news.path), self._around)
                call.task.add_done_callback(lambda _, number=number: self._calls.pop(number))
            elif news is None:
                self._ended.set()
            elif isinstance(news, _native.Limited):
                task = asyncio.create_task(self._limited(news.fingerprint, news.address, news.count))
                self._telling.add(task)
                task.add_done_callback(self._telling.discard)
            elif isinstance(news, _native.Condition):
                log_condition("agent", news)
            elif isinstance(news, _native.Gateway):
                self._gateway_changed(news.name, news.path, news.connected)
            elif call := self._calls.get(number):
                call.taken() if news else call.task.cancel()


def _credentials(shown: Shown) -> tuple[bytes, bytes, bytes]:
    return shown.chain, shown.key, shown.peers


class _Call:
    __slots__ = ("_around", "_call", "_method", "_server", "_taken", "task")

    def __init__(
        self, server: Server, call: _native.Call, method: _Method | None, around: Sequence[Around]
    ) -> None:
        self._server = server
        self._call = call
        self._method = method
        self._around = around
        self._taken: asyncio.Future[None] | None = None
        self.task = asyncio.create_task(self._run())

    def taken(self) -> None:
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)

    async def _run(self) -> None:
        context = Context(self._call.address, self._call.fingerprint)
        # A cancelled call has ended.
        code, said = grpc.StatusCode.UNAVAILABLE, ""
        try:
            await self._answer(context)
            code = grpc.StatusCode.OK
        except _AbortedError as aborted:
            code, said = aborted.code, aborted.said
            if code is grpc.StatusCode.UNAUTHENTICATED:
                # Our CA signed this certificate, but no device has it: its device was deleted.
                self._server.deny([context.fingerprint])
        except Exception as error:
            _log.exception("a call failed", exc_info=error)
            code = grpc.StatusCode.INTERNAL
        finally:
            details = dict(context.trailing_metadata()).get(_DETAILS_KEY, b"")
            self._call.end(code.value[0], said, details if isinstance(details, bytes) else b"")

    async def _answer(self, context: Context) -> None:
        method, path = self._method, self._call.path
        if method is None:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, f"there is no {path}")
        try:
            request = method.request_deserializer(self._call.message)
        except DecodeError:
            await context.abort(grpc.StatusCode.INTERNAL, "the request is no message of its kind")
        if method.unary_unary is not None:
            with ExitStack() as stack:
                for around in self._around:
                    stack.enter_context(around(path.lstrip("/"), context))
                answer = await method.unary_unary(request, context)
            self._call.send(method.response_serializer(answer))
            return
        stream = method.unary_stream(request, context)
        # Thousands of streams wait here: keep no message for them.
        del request
        async with contextlib.aclosing(stream) as answers:
            async for answer in answers:
                self._taken = asyncio.get_running_loop().create_future()
                self._call.send(method.response_serializer(answer))
                # The name would keep the message until the connection takes the next one.
                del answer
                await self._taken


def log_condition(port: str, condition: _native.Condition) -> None:
    """Logs a line when the condition begins, one a minute while it lasts, and one when it has ended."""
    _log.warning(
        "%s%s",
        condition.name,
        ", which has ended" if condition.ended else "",
        extra={"port": port, "count": condition.count},
    )
