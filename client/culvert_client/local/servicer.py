"""culvert.local.v1 as a gRPC service: checks who asks, and passes on to the daemon."""

# gRPC dictates the methods' names, and calls them by position only.
# ruff: noqa: N802
# pyright: reportIncompatibleMethodOverride=false

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

import grpc.aio
from culvert_proto import CulvertError, Reason, local_pb2, local_pb2_grpc
from culvert_proto.grpc_errors import stream, unary

from culvert_client.core.activity import Entry
from culvert_client.core.roles import Act, Role, may, role_of
from culvert_client.core.status import redacted
from culvert_client.local.requests import Requests

Context = grpc.aio.ServicerContext[Any, Any]


class Daemon(Protocol):
    """What the local API needs of the daemon. Each method raises CulvertError."""

    @property
    def owner(self) -> int | None: ...
    @property
    def requests(self) -> Requests: ...
    def status(self) -> local_pb2.Status: ...
    def statuses(self) -> AsyncIterator[local_pb2.Status]: ...
    def activities(self, follow: bool) -> AsyncIterator[Entry]: ...
    async def enroll(self, link: str, device_name: str, uid: int) -> local_pb2.EnrollResponse: ...
    async def submit_code(self, code: str) -> local_pb2.SubmitCodeResponse: ...
    async def examine(self) -> local_pb2.ExamineResponse: ...


class LocalServicer(local_pb2_grpc.LocalServiceServicer):
    """`uid_of` gives the uid behind a gRPC peer, None for one that did not come through the public socket."""

    def __init__(self, daemon: Daemon, uid_of: Callable[[str], int | None]) -> None:
        self._daemon = daemon
        self._uid_of = uid_of

    def _admit(self, context: Context, act: Act) -> int:
        uid = self._uid_of(context.peer())
        if uid is None or not may(uid, act, self._daemon.owner):
            raise CulvertError(Reason.LOCAL_PERMISSION, what=act.value)
        return uid

    def _shown(self, uid: int, status: local_pb2.Status) -> local_pb2.Status:
        return status if role_of(uid, self._daemon.owner) >= Role.OWNER else redacted(status)

    @unary
    async def GetStatus(
        self, request: local_pb2.GetStatusRequest, context: Context
    ) -> local_pb2.GetStatusResponse:
        uid = self._admit(context, Act.READ)
        return local_pb2.GetStatusResponse(status=self._shown(uid, self._daemon.status()))

    @stream
    async def WatchStatus(
        self, request: local_pb2.WatchStatusRequest, context: Context
    ) -> AsyncIterator[local_pb2.WatchStatusResponse]:
        uid = self._admit(context, Act.READ)
        async for status in self._daemon.statuses():
            yield local_pb2.WatchStatusResponse(status=self._shown(uid, status))

    @stream
    async def WatchActivity(
        self, request: local_pb2.WatchActivityRequest, context: Context
    ) -> AsyncIterator[local_pb2.WatchActivityResponse]:
        self._admit(context, Act.ACTIVITY)
        async for entry in self._daemon.activities(request.follow):
            # Root may have enrolled this computer for somebody else meanwhile.
            self._admit(context, Act.ACTIVITY)
            yield local_pb2.WatchActivityResponse(activity=entry.to_proto())

    @unary
    async def Enroll(self, request: local_pb2.EnrollRequest, context: Context) -> local_pb2.EnrollResponse:
        uid = self._admit(context, Act.ENROLL)
        return await self._daemon.enroll(request.link, request.device_name, uid)

    @unary
    async def SubmitCode(
        self, request: local_pb2.SubmitCodeRequest, context: Context
    ) -> local_pb2.SubmitCodeResponse:
        self._admit(context, Act.CODE)
        return await self._daemon.submit_code(request.code)

    @unary
    async def OpenTunnel(
        self, request: local_pb2.OpenTunnelRequest, context: Context
    ) -> local_pb2.OpenTunnelResponse:
        self._admit(context, Act.OPEN)
        fqdn = await self._daemon.requests.open_tunnel(request.name)
        shown = (tunnel for tunnel in self._daemon.status().tunnels if tunnel.fqdn == fqdn)
        return local_pb2.OpenTunnelResponse(tunnel=next(shown, local_pb2.Tunnel(fqdn=fqdn)))

    @unary
    async def CloseTunnel(
        self, request: local_pb2.CloseTunnelRequest, context: Context
    ) -> local_pb2.CloseTunnelResponse:
        self._admit(context, Act.CLOSE)
        if not request.all and not request.name:
            raise CulvertError(Reason.REQUEST_INVALID, why="neither a name nor all is given")
        closed = await self._daemon.requests.close_tunnel(None if request.all else request.name)
        return local_pb2.CloseTunnelResponse(closed=closed)

    @unary
    async def SelectGateway(
        self, request: local_pb2.SelectGatewayRequest, context: Context
    ) -> local_pb2.SelectGatewayResponse:
        self._admit(context, Act.GATEWAY)
        self._daemon.requests.select_gateway(request.gateway)
        return local_pb2.SelectGatewayResponse()

    @unary
    async def Pause(self, request: local_pb2.PauseRequest, context: Context) -> local_pb2.PauseResponse:
        self._admit(context, Act.PAUSE)
        await self._daemon.requests.pause(request.until)
        return local_pb2.PauseResponse()

    @unary
    async def Resume(self, request: local_pb2.ResumeRequest, context: Context) -> local_pb2.ResumeResponse:
        self._admit(context, Act.PAUSE)
        self._daemon.requests.resume()
        return local_pb2.ResumeResponse()

    @unary
    async def Examine(self, request: local_pb2.ExamineRequest, context: Context) -> local_pb2.ExamineResponse:
        self._admit(context, Act.EXAMINE)
        return await self._daemon.examine()
