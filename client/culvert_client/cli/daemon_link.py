"""Calls to the daemon, and the end of the command if a call fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn, TypeAlias, TypeVar

import grpc
import grpc.aio
from culvert_proto import Reason, local_pb2, local_pb2_grpc
from culvert_proto.grpc_errors import DAEMON, from_rpc_error

from culvert_client.cli.failure import EXIT_FAULT, EXIT_NO_DAEMON, EXIT_REFUSED, FailureError
from culvert_client.cli.language import _
from culvert_client.cli.words import page_of

# Our tunable, in seconds: short, because a person is typing.
PATIENCE = 1.0

# Faults of Culvert or the network; all other reasons are refusals.
_FAULTS = frozenset({Reason.INTERNAL, Reason.TIMEOUT, Reason.DATAPATH_FAILED})

Answer = TypeVar("Answer")
# A string, because the asynchronous stub class exists only for type checkers.
Question: TypeAlias = "Callable[[local_pb2_grpc.LocalServiceAsyncStub], Awaitable[Answer]]"


class DaemonLink:
    """The local API of the daemon behind `socket`."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def ask(self, question: Question[Answer]) -> Answer:
        """Raises FailureError when the daemon refuses, fails or does not run."""
        try:
            return asyncio.run(self._ask(question))
        except grpc.aio.AioRpcError as error:
            self._fail(error)

    def peek(self, question: Question[Answer]) -> Answer | None:
        """The answer, or None without one within PATIENCE; errors are ignored."""
        try:
            return asyncio.run(asyncio.wait_for(self._ask(question), PATIENCE))
        except (grpc.aio.AioRpcError, TimeoutError):
            return None

    async def _ask(self, question: Question[Answer]) -> Answer:
        async with grpc.aio.insecure_channel(f"unix:{self._socket.absolute()}") as channel:
            return await question(local_pb2_grpc.LocalServiceStub(channel))

    def _fail(self, error: grpc.aio.AioRpcError) -> NoReturn:
        if error.code() is grpc.StatusCode.UNAVAILABLE and not error.trailing_metadata():
            told = _("The daemon does not answer at {socket}.").format(socket=self._socket)
            shell = _("Run: sudo systemctl start culvertd. If it ends again, see why: journalctl -u culvertd")
            raise FailureError("DAEMON_DOWN", told, _("Start it."), EXIT_NO_DAEMON, shell=shell) from None
        refusal = from_rpc_error(error, peer=DAEMON)
        code = EXIT_FAULT if refusal.reason in _FAULTS else EXIT_REFUSED
        answer = self.peek(lambda daemon: daemon.GetStatus(local_pb2.GetStatusRequest()))
        page = page_of(refusal, answer.status.controller if answer is not None else "")
        raise FailureError(
            refusal.reason.name, refusal.message, refusal.remedy, code, refusal.fields, page, refusal.shell
        ) from None
