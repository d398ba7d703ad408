"""A real gRPC server on a Unix socket that serves the statuses it is given. The true daemon joins in tests/e2e."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any, NoReturn

import grpc
from culvert_proto import CulvertError, Reason, local_pb2, local_pb2_grpc
from culvert_proto.phrases import Phrase
from google.protobuf import any_pb2
from google.rpc import status_pb2

RIGHT_CODE = "492039"
RECOVERY_CODES = [f"abcd-efgh-ijkl-mn{number}{digit}" for digit in "23" for number in "23456"]


class CannedDaemon(local_pb2_grpc.LocalServiceServicer):
    """`asked` holds each request in order; `show` sends a status to whoever watches. `granted`: tunnels by their names;
    others are refused."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.asked: list[Any] = []
        self.granted: dict[str, local_pb2.Tunnel] = {}
        self._status = local_pb2.Status()
        self._watchers: list[queue.Queue[local_pb2.Status | None]] = []
        self.activities: list[local_pb2.Activity] = []
        self._followers: list[queue.Queue[local_pb2.Activity | None]] = []
        self._lock = threading.Lock()
        self._server: grpc.Server | None = None

    def start(self) -> None:
        # A watcher that has gone keeps its thread until the next status.
        self._server = grpc.server(futures.ThreadPoolExecutor(32))
        local_pb2_grpc.add_LocalServiceServicer_to_server(self, self._server)
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()

    def stop(self) -> None:
        with self._lock:
            for waiting in (*self._watchers, *self._followers):
                waiting.put(None)
        if self._server is not None:
            self._server.stop(grace=0.2).wait()
            self._server = None

    def show(self, status: local_pb2.Status) -> None:
        with self._lock:
            self._status = status
            for watcher in self._watchers:
                watcher.put(status)

    def WatchStatus(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:  # noqa: N802
        watcher: queue.Queue[local_pb2.Status | None] = queue.Queue()
        with self._lock:
            watcher.put(self._status)
            self._watchers.append(watcher)
        while (status := watcher.get()) is not None:
            yield local_pb2.WatchStatusResponse(status=status)

    def GetStatus(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        return local_pb2.GetStatusResponse(status=self._status)

    def WatchActivity(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:  # noqa: N802
        for activity in self.activities:
            yield local_pb2.WatchActivityResponse(activity=activity)
        watcher: queue.Queue[local_pb2.Activity | None] = queue.Queue()
        with self._lock:
            self._followers.append(watcher)
        while request.follow and (activity := watcher.get()) is not None:
            yield local_pb2.WatchActivityResponse(activity=activity)

    def happen(self, activity: local_pb2.Activity) -> None:
        with self._lock:
            self.activities.append(activity)
            for follower in self._followers:
                follower.put(activity)

    def ShowInvitation(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self.asked.append(request)
        if "token=used" in request.link:
            _abort(context, CulvertError(Reason.INVITATION_INVALID))
        return local_pb2.ShowInvitationResponse(user="alice", user_display_name="Alice Liddell")

    def Enroll(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self.asked.append(request)
        return local_pb2.EnrollResponse(
            user="alice",
            totp_uri="otpauth://totp/Culvert:alice?secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP&issuer=Culvert",
            recovery_codes=RECOVERY_CODES,
            zones=["corp.example", "lab.corp.example"],
            prefixes=["10.20.0.0/16", "fd00:20::/32"],
        )

    def Leave(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self.asked.append(request)
        return local_pb2.LeaveResponse(organisation=request.organisation)

    def SubmitCode(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self.asked.append(request)
        if request.code in RECOVERY_CODES:
            return local_pb2.SubmitCodeResponse(code_valid_until=2**32, recovery_codes_left=1)
        if request.code != RIGHT_CODE:
            _abort(context, CulvertError(Reason.CODE_WRONG))
        return local_pb2.SubmitCodeResponse(code_valid_until=2**32)

    def OpenTunnel(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self.asked.append(request)
        if (tunnel := self.granted.get(request.name)) is not None:
            return local_pb2.OpenTunnelResponse(tunnel=tunnel)
        _abort(
            context,
            CulvertError(Reason.NO_POLICY, user="alice", name=request.name, owner="bob@corp.example"),
        )

    def CloseTunnel(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self.asked.append(request)
        return local_pb2.CloseTunnelResponse(closed=1)

    def TimeHops(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self.asked.append(request)
        return local_pb2.TimeHopsResponse(hop_times=local_pb2.HopTimes(fqdn=request.name))

    def SelectGateway(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self.asked.append(request)
        return local_pb2.SelectGatewayResponse()

    def Pause(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self.asked.append(request)
        return local_pb2.PauseResponse()

    def Resume(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self.asked.append(request)
        return local_pb2.ResumeResponse()

    def AnswerClaims(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self.asked.append(request)
        if "17.0.0.0/8" in request.prefixes and request.agreed:
            what = Phrase("this computer's own network {network}", network="17.1.0.0/16")
            taken = CulvertError(Reason.ADDRESS_COLLISION, prefix="17.0.0.0/8", what=what)
            _abort(context, taken)
        return local_pb2.AnswerClaimsResponse()

    def Examine(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        self.asked.append(request)
        return local_pb2.ExamineResponse()


def _abort(context: grpc.ServicerContext, error: CulvertError) -> NoReturn:
    detail = any_pb2.Any()
    detail.Pack(error.to_proto())
    status = status_pb2.Status(code=error.entry.grpc.value[0], message=error.message, details=[detail])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(error.entry.grpc, error.message)
    raise AssertionError("abort returned")
