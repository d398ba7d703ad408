"""culvert.local.v1 as a gRPC service: learns who asks, and passes it on."""

# gRPC dictates the methods' names, and calls them by position only.
# ruff: noqa: N802
# pyright: reportIncompatibleMethodOverride=false

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc.aio
from culvert_proto import CulvertError, Reason, local_pb2, local_pb2_grpc
from culvert_proto.grpc_errors import stream, unary

from culvert_client.core.roles import Act
from culvert_client.local.several import Several

Context = grpc.aio.ServicerContext[Any, Any]


class LocalServicer(local_pb2_grpc.LocalServiceServicer):
    """`uid_of` gives the uid behind a gRPC peer, None for one that did not come through the public socket."""

    def __init__(self, several: Several, uid_of: Callable[[str], int | None]) -> None:
        self._several, self._uid_of = several, uid_of

    def _caller(self, context: Context, act: Act) -> int:
        uid = self._uid_of(context.peer())
        if uid is None:
            raise CulvertError(Reason.LOCAL_PERMISSION, what=act.value)
        return uid

    @unary
    async def GetStatus(
        self, request: local_pb2.GetStatusRequest, context: Context
    ) -> local_pb2.GetStatusResponse:
        uid = self._caller(context, Act.READ)
        return local_pb2.GetStatusResponse(status=self._several.status(uid))

    @stream
    async def WatchStatus(
        self, request: local_pb2.WatchStatusRequest, context: Context
    ) -> AsyncIterator[local_pb2.WatchStatusResponse]:
        uid = self._caller(context, Act.READ)
        async for status in self._several.statuses(uid):
            yield local_pb2.WatchStatusResponse(status=status)

    @stream
    async def WatchActivity(
        self, request: local_pb2.WatchActivityRequest, context: Context
    ) -> AsyncIterator[local_pb2.WatchActivityResponse]:
        uid = self._caller(context, Act.ACTIVITY)
        async for activity in self._several.activities(uid, request.follow):
            yield local_pb2.WatchActivityResponse(activity=activity)

    @unary
    async def Enroll(self, request: local_pb2.EnrollRequest, context: Context) -> local_pb2.EnrollResponse:
        uid = self._caller(context, Act.ENROLL)
        return await self._several.enroll(request.link, request.device_name, uid)

    @unary
    async def Leave(self, request: local_pb2.LeaveRequest, context: Context) -> local_pb2.LeaveResponse:
        uid = self._caller(context, Act.LEAVE)
        return local_pb2.LeaveResponse(organisation=await self._several.leave(request.organisation, uid))

    @unary
    async def SubmitCode(
        self, request: local_pb2.SubmitCodeRequest, context: Context
    ) -> local_pb2.SubmitCodeResponse:
        uid = self._caller(context, Act.CODE)
        return await self._several.submit_code(request.code, request.organisation, uid)

    @unary
    async def OpenTunnel(
        self, request: local_pb2.OpenTunnelRequest, context: Context
    ) -> local_pb2.OpenTunnelResponse:
        uid = self._caller(context, Act.OPEN)
        return local_pb2.OpenTunnelResponse(tunnel=await self._several.open_tunnel(request.name, uid))

    @unary
    async def CloseTunnel(
        self, request: local_pb2.CloseTunnelRequest, context: Context
    ) -> local_pb2.CloseTunnelResponse:
        uid = self._caller(context, Act.CLOSE)
        if not request.all and not request.name:
            raise CulvertError(Reason.REQUEST_INVALID, why="neither a name nor all is given")
        closed = await self._several.close_tunnel(None if request.all else request.name, uid)
        return local_pb2.CloseTunnelResponse(closed=closed)

    @unary
    async def SelectGateway(
        self, request: local_pb2.SelectGatewayRequest, context: Context
    ) -> local_pb2.SelectGatewayResponse:
        uid = self._caller(context, Act.GATEWAY)
        self._several.select_gateway(request.gateway, request.organisation, uid)
        return local_pb2.SelectGatewayResponse()

    @unary
    async def Pause(self, request: local_pb2.PauseRequest, context: Context) -> local_pb2.PauseResponse:
        await self._several.pause(request.until, self._caller(context, Act.PAUSE))
        return local_pb2.PauseResponse()

    @unary
    async def Resume(self, request: local_pb2.ResumeRequest, context: Context) -> local_pb2.ResumeResponse:
        self._several.resume(self._caller(context, Act.PAUSE))
        return local_pb2.ResumeResponse()

    @unary
    async def Examine(self, request: local_pb2.ExamineRequest, context: Context) -> local_pb2.ExamineResponse:
        return await self._several.examine(request.organisation, self._caller(context, Act.EXAMINE))
