"""The gRPC service culvert.local.v1: finds the caller's uid, and calls LocalApi."""

# gRPC prescribes the methods' names, and passes arguments by position.
# ruff: noqa: N802
# pyright: reportIncompatibleMethodOverride=false

from __future__ import annotations

import errno
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc.aio
from culvert_proto import CulvertError, Reason, local_pb2, local_pb2_grpc
from culvert_proto.grpc_errors import stream, unary
from culvert_proto.phrases import Phrase

from culvert_client.core.places import Owners, Places
from culvert_client.core.roles import Act
from culvert_client.daemon.local_api import LocalApi
from culvert_client.state_file import not_kept

Context = grpc.aio.ServicerContext[Any, Any]

# Our tunables: concurrent calls and streams of all users, of one user, and reserved for each owner and root.
MOST_CALLS, MOST_OF_ONE, RESERVED = 128, 32, 32
TRY_AGAIN = 5
"""Seconds."""
_OF_A_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO})


class LocalServicer(local_pb2_grpc.LocalServiceServicer):
    """`uid_of`: the uid of a gRPC peer; None for a peer that did not connect through the public socket."""

    def __init__(self, local_api: LocalApi, uid_of: Callable[[str], int | None], owners: Owners) -> None:
        self._local_api, self._uid_of = local_api, uid_of
        self._places = Places(MOST_CALLS, MOST_OF_ONE, RESERVED, owners)

    @contextmanager
    def _caller(self, context: Context, act: Act) -> Generator[int]:
        """Yield the caller's uid, and hold a place until the call ends.

        Raises CulvertError LOCAL_PERMISSION, RATE_LIMITED; and STATE_UNWRITABLE where the state directory is not written.
        """
        uid = self._uid_of(context.peer())
        if uid is None:
            raise CulvertError(Reason.LOCAL_PERMISSION, what=act.value)
        if not self._places.take(uid):
            raise CulvertError(Reason.RATE_LIMITED, seconds=TRY_AGAIN)
        try:
            yield uid
        except OSError as error:
            if error.errno not in _OF_A_DISK:
                raise
            raise not_kept(Path(error.filename or self._local_api.state_dir), error) from error
        finally:
            self._places.give_back(uid)

    @unary
    async def GetStatus(
        self, request: local_pb2.GetStatusRequest, context: Context
    ) -> local_pb2.GetStatusResponse:
        with self._caller(context, Act.READ) as uid:
            return local_pb2.GetStatusResponse(status=self._local_api.status(uid))

    @stream
    async def WatchStatus(
        self, request: local_pb2.WatchStatusRequest, context: Context
    ) -> AsyncIterator[local_pb2.WatchStatusResponse]:
        with self._caller(context, Act.READ) as uid:
            async for status in self._local_api.statuses(uid):
                yield local_pb2.WatchStatusResponse(status=status)

    @stream
    async def WatchActivity(
        self, request: local_pb2.WatchActivityRequest, context: Context
    ) -> AsyncIterator[local_pb2.WatchActivityResponse]:
        with self._caller(context, Act.ACTIVITY) as uid:
            async for activity in self._local_api.activities(uid, request.follow):
                yield local_pb2.WatchActivityResponse(activity=activity)

    @unary
    async def ShowInvitation(
        self, request: local_pb2.ShowInvitationRequest, context: Context
    ) -> local_pb2.ShowInvitationResponse:
        with self._caller(context, Act.ENROLL) as uid:
            return await self._local_api.show_invitation(request.link, uid)

    @unary
    async def Enroll(self, request: local_pb2.EnrollRequest, context: Context) -> local_pb2.EnrollResponse:
        with self._caller(context, Act.ENROLL) as uid:
            return await self._local_api.enroll(request.link, request.device_name, uid)

    @unary
    async def Leave(self, request: local_pb2.LeaveRequest, context: Context) -> local_pb2.LeaveResponse:
        with self._caller(context, Act.LEAVE) as uid:
            return local_pb2.LeaveResponse(
                organisation=await self._local_api.leave(request.organisation, uid)
            )

    @unary
    async def SubmitCode(
        self, request: local_pb2.SubmitCodeRequest, context: Context
    ) -> local_pb2.SubmitCodeResponse:
        with self._caller(context, Act.CODE) as uid:
            return await self._local_api.submit_code(request.code, request.organisation, uid)

    @unary
    async def OpenTunnel(
        self, request: local_pb2.OpenTunnelRequest, context: Context
    ) -> local_pb2.OpenTunnelResponse:
        with self._caller(context, Act.OPEN) as uid:
            return local_pb2.OpenTunnelResponse(tunnel=await self._local_api.open_tunnel(request.name, uid))

    @unary
    async def CloseTunnel(
        self, request: local_pb2.CloseTunnelRequest, context: Context
    ) -> local_pb2.CloseTunnelResponse:
        with self._caller(context, Act.CLOSE) as uid:
            if not request.all and not request.name:
                raise CulvertError(Reason.REQUEST_INVALID, why=Phrase("neither a name nor all is given"))
            closed = await self._local_api.close_tunnel(None if request.all else request.name, uid)
            return local_pb2.CloseTunnelResponse(closed=closed)

    @unary
    async def SelectGateway(
        self, request: local_pb2.SelectGatewayRequest, context: Context
    ) -> local_pb2.SelectGatewayResponse:
        with self._caller(context, Act.GATEWAY) as uid:
            self._local_api.select_gateway(request.gateway, request.organisation, uid)
            return local_pb2.SelectGatewayResponse()

    @unary
    async def Pause(self, request: local_pb2.PauseRequest, context: Context) -> local_pb2.PauseResponse:
        with self._caller(context, Act.PAUSE) as uid:
            await self._local_api.pause(request.until, uid)
        return local_pb2.PauseResponse()

    @unary
    async def Resume(self, request: local_pb2.ResumeRequest, context: Context) -> local_pb2.ResumeResponse:
        with self._caller(context, Act.PAUSE) as uid:
            self._local_api.resume(uid)
        return local_pb2.ResumeResponse()

    @unary
    async def Examine(self, request: local_pb2.ExamineRequest, context: Context) -> local_pb2.ExamineResponse:
        with self._caller(context, Act.EXAMINE) as uid:
            return await self._local_api.examine(request.organisation, uid)

    @unary
    async def TimeHops(
        self, request: local_pb2.TimeHopsRequest, context: Context
    ) -> local_pb2.TimeHopsResponse:
        with self._caller(context, Act.EXAMINE) as uid:
            return local_pb2.TimeHopsResponse(hop_times=await self._local_api.time_hops(request.name, uid))

    @unary
    async def AnswerClaims(
        self, request: local_pb2.AnswerClaimsRequest, context: Context
    ) -> local_pb2.AnswerClaimsResponse:
        with self._caller(context, Act.CLAIMS) as uid:
            await self._local_api.answer_claims(
                request.prefixes, request.organisation, uid, agreed=request.agreed
            )
        return local_pb2.AnswerClaimsResponse()
