"""The client of the daemon's Unix socket. gRPC runs in threads, and results are sent as Qt signals.

_watch:        WatchStatus ──► status ──► …        the stream ends: Down, wait, again
                   ▲                       │
                   └── backoff 0.25 … 5 s ─┘
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, cast

import grpc
import grpc.aio
from culvert_proto import CulvertError, local_pb2, local_pb2_grpc
from culvert_proto.backoff import Backoff
from culvert_proto.grpc_errors import DAEMON, from_rpc_error
from culvert_proto.shown_text import make_all_plain
from PyQt6.QtCore import QObject, pyqtSignal

from culvert_tray.signals import connect
from culvert_tray.view import Down, View, not_running

# Our tunables, in seconds.
_RETRY = Backoff(0.25, 5.0)
_ANSWER_SECONDS = 30.0

# Shorten the channel's own back-off of minutes, so that ours decides.
_OPTIONS = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 250)]

_DETAILS_KEY = "grpc-status-details-bin"

Answer = Any
Refusal = CulvertError | Down
Then = Callable[[Answer | Refusal], None]


def retry_wait(attempt: int) -> float:
    """Seconds to wait after the attempt with this number; the first is 0."""
    return _RETRY.after(attempt + 1)


class Daemon(QObject):
    viewed = pyqtSignal(object)
    """A View: at each change, and when the daemon goes away."""

    happened = pyqtSignal(object)
    """A local_pb2.Activity; None when what came before is void, because the daemon starts to tell anew."""

    _answered = pyqtSignal(object, object)

    def __init__(self, socket: str) -> None:
        super().__init__()
        self._channel = grpc.insecure_channel(f"unix:{socket}", options=_OPTIONS)
        self._stub = local_pb2_grpc.LocalServiceStub(self._channel)
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=work.__name__, daemon=True)
            for work in (self._watch, self._follow)
        ]
        connect(self._answered, self._deliver)

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._channel.close()
        for thread in self._threads:
            thread.join(_RETRY.first * 4)

    def show_invitation(self, link: str, then: Then) -> None:
        self._ask(self._stub.ShowInvitation, local_pb2.ShowInvitationRequest(link=link), then)

    def enrol(self, link: str, device_name: str, then: Then) -> None:
        request = local_pb2.EnrollRequest(link=link, device_name=device_name)
        self._ask(self._stub.Enroll, request, then)

    def submit_code(self, code: str, organisation: str, then: Then) -> None:
        request = local_pb2.SubmitCodeRequest(code=code, organisation=organisation)
        self._ask(self._stub.SubmitCode, request, then)

    def answer_claims(self, prefixes: Sequence[str], organisation: str, then: Then, *, agreed: bool) -> None:
        request = local_pb2.AnswerClaimsRequest(prefixes=prefixes, agreed=agreed, organisation=organisation)
        self._ask(self._stub.AnswerClaims, request, then)

    def open_tunnel(self, name: str, then: Then) -> None:
        self._ask(self._stub.OpenTunnel, local_pb2.OpenTunnelRequest(name=name), then)

    def close_tunnel(self, name: str, then: Then) -> None:
        self._ask(self._stub.CloseTunnel, local_pb2.CloseTunnelRequest(name=name), then)

    def time_hops(self, name: str, then: Then) -> None:
        self._ask(self._stub.TimeHops, local_pb2.TimeHopsRequest(name=name), then)

    def select_gateway(self, gateway: str, organisation: str, then: Then) -> None:
        request = local_pb2.SelectGatewayRequest(gateway=gateway, organisation=organisation)
        self._ask(self._stub.SelectGateway, request, then)

    def pause(self, end: datetime, then: Then) -> None:
        self._ask(self._stub.Pause, local_pb2.PauseRequest(until=round(end.timestamp())), then)

    def resume(self, then: Then) -> None:
        self._ask(self._stub.Resume, local_pb2.ResumeRequest(), then)

    def _ask(self, method: grpc.UnaryUnaryMultiCallable[Any, Any], request: object, then: Then) -> None:
        call = method.future(request, timeout=_ANSWER_SECONDS)

        def done(finished: grpc.Future[Any]) -> None:
            if not self._stopped.is_set():
                self._answered.emit(then, _outcome(finished))

        call.add_done_callback(done)

    def _deliver(self, then: Then, answer: Answer | Refusal) -> None:
        then(answer)

    def _watch(self) -> None:
        attempt = 0
        while not self._stopped.is_set():
            view: View = not_running()
            try:
                for response in self._stub.WatchStatus(local_pb2.WatchStatusRequest()):
                    attempt = 0
                    self.viewed.emit(make_all_plain(response.status))
            except grpc.RpcError as error:
                refusal = _refusal(error)
                view = (
                    refusal
                    if isinstance(refusal, Down)
                    else Down(refusal.message.rstrip("."), refusal.remedy)
                )
            except ValueError:
                # `stop` has closed the channel.
                return
            if not self._stopped.is_set():
                self.viewed.emit(view)
            self._stopped.wait(retry_wait(attempt))
            attempt += 1

    def _follow(self) -> None:
        attempt = 0
        while not self._stopped.is_set():
            try:
                self.happened.emit(None)
                for response in self._stub.WatchActivity(local_pb2.WatchActivityRequest(follow=True)):
                    attempt = 0
                    self.happened.emit(make_all_plain(response.activity))
            except grpc.RpcError:
                # Only repeat: the other stream reports faults of the daemon, and other users are refused here.
                attempt += 1
            except ValueError:
                return
            self._stopped.wait(retry_wait(attempt))


def _outcome(finished: grpc.Future[Any]) -> Answer | Refusal:
    try:
        return make_all_plain(finished.result())
    except grpc.RpcError as error:
        return _refusal(error)


def _refusal(error: grpc.RpcError) -> Refusal:
    # An RpcError of a call is also a Call, with the methods of the asynchronous error that the mapping uses.
    call = cast(grpc.aio.AioRpcError, error)
    has_details = any(key == _DETAILS_KEY for key, _ in call.trailing_metadata() or ())
    if call.code() is grpc.StatusCode.UNAVAILABLE and not has_details:
        return not_running()
    refusal = from_rpc_error(call, peer=DAEMON)
    return CulvertError.from_proto(make_all_plain(refusal.to_proto()))
