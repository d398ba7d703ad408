"""One call to the daemon, and how a failure of it ends the command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn, TypeAlias, TypeVar

import grpc
import grpc.aio
import typer
from culvert_proto import Reason, local_pb2_grpc
from culvert_proto.grpc_errors import from_rpc_error

from culvert_client.cli.language import _
from culvert_client.cli.words import say_error

# Our tunable, in seconds: somebody types.
PATIENCE = 1.0

EXIT_FAULT = 1
EXIT_REFUSED = 3
EXIT_NO_DAEMON = 4

# Faults are ours or the network's; every other reason is a refusal.
_FAULTS = frozenset({Reason.INTERNAL, Reason.TIMEOUT, Reason.DATAPATH_FAILED})

Answer = TypeVar("Answer")
# As a string: the stub's asynchronous face is known to type checkers alone.
Question: TypeAlias = "Callable[[local_pb2_grpc.LocalServiceAsyncStub], Awaitable[Answer]]"


class DaemonLink:
    """The local API of the daemon behind `socket`."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def ask(self, question: Question[Answer]) -> Answer:
        """Ends the command with an exit code when the daemon refuses, fails or does not run."""
        try:
            return asyncio.run(self._ask(question))
        except grpc.aio.AioRpcError as error:
            self._fail(error)

    def peek(self, question: Question[Answer]) -> Answer | None:
        """None when there is no answer at once: nobody is told why."""
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
            say_error(told, _("Start culvertd as root."))
            raise typer.Exit(EXIT_NO_DAEMON)
        refusal = from_rpc_error(error, peer="the Culvert daemon")
        say_error(refusal.message, refusal.remedy)
        raise typer.Exit(EXIT_FAULT if refusal.reason in _FAULTS else EXIT_REFUSED)
