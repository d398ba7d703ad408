"""The agent API over mutual TLS: one channel, the Watch stream with reconnection, and the calls."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

import grpc
import grpc.aio
from culvert_proto import CulvertError, Reason, agent_pb2, agent_pb2_grpc, error_pb2
from culvert_proto.backoff import Backoff
from culvert_proto.contract import POSTURE_VALUE_MAX
from culvert_proto.grpc_errors import from_rpc_error

from culvert_client.core.claims import Surroundings
from culvert_client.platform.interfaces import Posture
from culvert_client.state_dir import Identity

Answer = TypeVar("Answer")

# Our tunables, in seconds.
CALL_TIMEOUT = 10.0
FIRST_EVENT_TIMEOUT = 5.0
# Longer than a controller waits for a gateway, shorter than a DNS answer is held.
SILENT_AFTER = 2.0
LEAVE_TIMEOUT = 3.0  # a person waits, and can leave without the controller
SECOND_TRY_TIMEOUT = 1.5  # of opening; longer than gRPC's own backoff, shorter than a DNS answer is held
POSTURE_EVERY = 60.0
RECONNECT = Backoff(0.5, 20.0)

_OPTIONS = (
    ("grpc.enable_http_proxy", 0),
    # gRPC's own reconnection backs off up to two minutes; ours decides instead.
    ("grpc.initial_reconnect_backoff_ms", 200),
    # Also the time limit of an attempt with its TLS handshake; a satellite's round trip takes 600 ms.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # By default gRPC servers close connections with pings more often than every 5 minutes.
    ("grpc.keepalive_time_ms", 310_000),
    ("grpc.keepalive_timeout_ms", 5_000),
)


class Agent:
    """An enrolled device's connection. `close` ends all running calls."""

    def __init__(
        self, identity: Identity, version: str, system: Posture, reach: Callable[[str], str] = str
    ) -> None:
        self.address, self.reach = identity.agent_address, reach
        self.surroundings = Surroundings()
        self._version, self._system = version, system
        self._credentials = grpc.ssl_channel_credentials(
            identity.ca_pem, identity.key_pem, identity.certificate_pem
        )
        self._left: set[asyncio.Task[None]] = set()
        self._watching: grpc.aio.UnaryStreamCall[agent_pb2.WatchRequest, agent_pb2.WatchResponse] | None = (
            None
        )
        # The number of calls that wait for an answer, apart from Watch.
        self._waiting = 0
        self._moved = asyncio.Event()
        self._is_closed = False
        self._open()

    def _open(self) -> None:
        # Without its own pool, the channel would share the sockets of the previous channel to the same address.
        host, _, port = self.address.rpartition(":")
        named = host.strip("[]")
        reached = self.reach(named)
        options = (
            *_OPTIONS,
            ("grpc.use_local_subchannel_pool", 1),
            # The certificate is of the named address, also if another address stands for it here.
            *([("grpc.ssl_target_name_override", named)] if reached != named else ()),
        )
        address = self.address if reached == named else f"[{reached}]:{port}"
        self._channel = grpc.aio.secure_channel(address, self._credentials, options=options)
        self._stub = agent_pb2_grpc.AgentServiceStub(self._channel)

    def reconnect(self, patience: float = CALL_TIMEOUT) -> None:
        """Open a new connection, because the computer has moved and the old connection may be dead.

        Running calls end after `patience` seconds with CONTROLLER_UNREACHABLE; OpenTunnel is then repeated.
        """
        self._replace_channel(patience)
        self._moved.set()
        if self._watching is not None:
            self._watching.cancel()

    def _replace_channel(self, patience: float) -> None:
        leaving = asyncio.create_task(self._channel.close(patience))
        self._left.add(leaving)
        leaving.add_done_callback(self._left.discard)
        self._open()

    def _leave(self, channel: grpc.aio.Channel) -> None:
        """Open a new connection in place of a silent one, unless another call has done so."""
        if channel is self._channel and not self._is_closed:
            self.reconnect()

    async def close(self, patience: float = 0) -> None:
        """Take no new calls, and end running calls after `patience` seconds."""
        self._is_closed = True
        await self._channel.close(patience)

    async def watch(self) -> AsyncIterator[agent_pb2.WatchResponse | CulvertError]:
        """Yield every event, and an error each time the stream fails; reconnect with back-off and jitter, for ever.

        Without an error, the stream is replaced when this computer's posture has changed or the computer has moved.
        """
        failures = 0
        while True:
            said = posture(self._system)
            self._moved.clear()
            call = self._watching = self._stub.Watch(
                agent_pb2.WatchRequest(client_version=self._version, posture=said)
            )
            news = asyncio.create_task(self._posture_changed(said), name="posture")
            news.add_done_callback(lambda _, call=call: call.cancel())
            lost = CulvertError(Reason.CONTROLLER_UNREACHABLE, controller=self.address)
            try:
                async with asyncio.timeout(FIRST_EVENT_TIMEOUT) as patience:
                    async for event in call:
                        patience.reschedule(None)
                        failures = 0
                        yield event
            except grpc.aio.AioRpcError as error:
                lost = from_rpc_error(error, peer=self.address)
            except TimeoutError:
                pass
            except asyncio.CancelledError:
                task = asyncio.current_task()
                told = self._moved.is_set() or (news.done() and not news.cancelled())
                if (task and task.cancelling()) or not told:
                    raise
                continue
            finally:
                news.cancel()
                call.cancel()
                self._watching = None
                del call
            yield lost
            if (
                lost.reason is Reason.CONTROLLER_UNREACHABLE
                and not self._waiting
                and not self._moved.is_set()
            ):
                # gRPC would go on connecting each second: all devices at a controller that comes back.
                self._replace_channel(0)
            failures += 1
            pause = RECONNECT.spread(failures, random.random())  # noqa: S311 (spreads load, hides nothing)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._moved.wait()
                    failures = 0

    async def _posture_changed(self, said: dict[str, str]) -> None:
        """Returns when this computer's posture has changed."""
        while posture(self._system) == said:  # noqa: ASYNC110  nothing tells of it
            await asyncio.sleep(POSTURE_EVERY)

    async def prove_code(self, code: str) -> agent_pb2.ProveCodeResponse:
        """Raises CulvertError."""
        return await self._begin(self._stub.ProveCode, agent_pb2.ProveCodeRequest(code=code))

    def open_tunnel(
        self, request: agent_pb2.OpenTunnelRequest
    ) -> Coroutine[Any, Any, agent_pb2.OpenTunnelResponse]:
        """Begin the call before returning. The coroutine returns the answer, or raises CulvertError.

        Because a person waits, a failure of the connection is followed by a second try. So is silence: it goes over a new
        connection, which leads to the name's next address if this one's controller does not answer at all.
        """
        return self._answer_or_retry(request, self._begin(self._stub.OpenTunnel, request), self._channel)

    async def _answer_or_retry(
        self,
        request: agent_pb2.OpenTunnelRequest,
        first: Coroutine[Any, Any, agent_pb2.OpenTunnelResponse],
        channel: grpc.aio.Channel,
    ) -> agent_pb2.OpenTunnelResponse:
        try:
            return await self._answer_in_time(request, first, channel)
        except CulvertError as error:
            if error.reason is not Reason.CONTROLLER_UNREACHABLE:
                raise
            unreachable = error
        try:
            return await self._try_again(request, SECOND_TRY_TIMEOUT)
        except CulvertError as error:
            raise (unreachable if error.reason is Reason.TIMEOUT else error) from None

    async def _answer_in_time(
        self,
        request: agent_pb2.OpenTunnelRequest,
        first: Coroutine[Any, Any, agent_pb2.OpenTunnelResponse],
        channel: grpc.aio.Channel,
    ) -> agent_pb2.OpenTunnelResponse:
        """The answer, or, if the connection is silent, the first of its own and a new connection's."""
        tries = [asyncio.ensure_future(first)]
        try:
            done, _ = await asyncio.wait(tries, timeout=SILENT_AFTER)
            if not done:
                self._leave(channel)
                tries.append(asyncio.ensure_future(self._try_again(request, CALL_TIMEOUT - SILENT_AFTER)))
                done, _ = await asyncio.wait(tries, return_when=asyncio.FIRST_COMPLETED)
            answered = next((it for it in done if it.exception() is None), tries[-1])
            return await answered
        finally:
            for each in tries:
                each.cancel()

    async def _try_again(
        self, request: agent_pb2.OpenTunnelRequest, seconds: float
    ) -> agent_pb2.OpenTunnelResponse:
        return await self._begin(self._stub.OpenTunnel, request, seconds, wait_for_ready=True)

    async def renew_sa(self, tunnel_id: str, generation: int) -> agent_pb2.RenewSaResponse:
        request = agent_pb2.RenewSaRequest(tunnel_id=tunnel_id, generation=generation)
        return await self._begin(self._stub.RenewSa, request)

    async def activate_sa(self, tunnel_id: str, generation: int) -> None:
        request = agent_pb2.ActivateSaRequest(tunnel_id=tunnel_id, generation=generation)
        await self._begin(self._stub.ActivateSa, request)

    async def set_path_mtu(self, tunnel_id: str, mtu: int) -> None:
        request = agent_pb2.SetPathMtuRequest(tunnel_id=tunnel_id, mtu=mtu)
        await self._begin(self._stub.SetPathMtu, request)

    async def close_tunnel(self, tunnel_id: str, reason: Reason) -> None:
        """`reason`: CLOSED_BY_USER, CLOSED_IDLE, DAEMON_STOPPED, or why this computer does not use the tunnel."""
        request = agent_pb2.CloseTunnelRequest(tunnel_id=tunnel_id, reason=error_pb2.REASON_CLOSED_BY_USER)
        if reason in (Reason.CLOSED_BY_USER, Reason.CLOSED_IDLE, Reason.DAEMON_STOPPED):
            request.reason = error_pb2.Reason.ValueType(reason)
        elif reason in (Reason.ADDRESS_COLLISION, Reason.CONSENT_NEEDED):
            request.refused = error_pb2.Reason.ValueType(reason)
        else:
            request.refused = error_pb2.REASON_DATAPATH_FAILED
        await self._begin(self._stub.CloseTunnel, request)

    async def renew_certificate(self, csr_pem: str) -> agent_pb2.RenewCertificateResponse:
        request = agent_pb2.RenewCertificateRequest(csr_pem=csr_pem)
        return await self._begin(self._stub.RenewCertificate, request)

    async def leave(self) -> None:
        await self._begin(self._stub.Leave, agent_pb2.LeaveRequest(), LEAVE_TIMEOUT)

    def _begin(
        self,
        method: grpc.aio.UnaryUnaryMultiCallable[Any, Answer],
        request: object,
        seconds: float = CALL_TIMEOUT,
        *,
        wait_for_ready: bool = False,
    ) -> Coroutine[Any, Any, Answer]:
        """Begin the call before returning. The coroutine returns the answer, or raises CulvertError."""
        try:
            return self._answer(method(request, timeout=seconds, wait_for_ready=wait_for_ready))
        except grpc.aio.UsageError:
            # The connection is closed, because this computer leaves or enrols again, or has a new certificate.
            return self._unreachable()

    async def _unreachable(self) -> NoReturn:
        raise CulvertError(Reason.CONTROLLER_UNREACHABLE, controller=self.address)

    async def _answer(self, call: Awaitable[Answer]) -> Answer:
        """The answer. Raises CulvertError, whose traceback does not refer to the call.

        A closed channel goes on connecting as long as anything refers to one of its calls, and errors are kept.
        """
        channel = self._channel
        self._waiting += 1
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            told = from_rpc_error(error, peer=self.address)
        except asyncio.CancelledError:
            # gRPC cancels the calls of a closing channel. Only a cancellation of the task itself is passed on.
            task = asyncio.current_task()
            if task and task.cancelling():
                raise
            told = CulvertError(Reason.CONTROLLER_UNREACHABLE, controller=self.address)
        finally:
            self._waiting -= 1
            del call
        if told.reason is Reason.TIMEOUT:
            self._leave(channel)
        raise told


def posture(system: Posture) -> dict[str, str]:
    """The posture: this computer's report on itself, for the list of devices and for policies."""
    # The controller refuses longer values (proto/culvert/agent/v1).
    return {
        name: value[:POSTURE_VALUE_MAX]
        for name, value in system.posture().items()
        if value and value.isprintable()
    }
