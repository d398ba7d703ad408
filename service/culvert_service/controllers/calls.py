"""Calls from one controller to another, by NOTIFY, for work that only a gateway's owner can do.

 ask ── sealed call ──► channel of the holder ──► serve
  ▲                                                 │
  └──────────── channel of the caller ◄── sealed answer

A lost call or answer shows as a timeout: the caller may ask again.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from culvert_db import Database, notify
from culvert_proto import CulvertError, error_pb2

from culvert_service.controllers import envelope
from culvert_service.controllers.envelope import Answer, Caller, EnvelopeError, PeerCall
from culvert_service.controllers.identity import ControllerId
from culvert_service.controllers.replay import Replay
from culvert_service.pki.master_key import MasterKey

_log = logging.getLogger(__name__)

# Short, because a person waits; but the owner must have time to write to its gateway.
_ANSWER_SECONDS = 1.5

# From the body of a call to the body of its answer. A CulvertError is returned to the caller.
Serve = Callable[[bytes], Awaitable[bytes]]


class CallServer(Protocol):
    """Serves calls of other controllers."""

    def serving(self) -> Mapping[str, Serve]:
        """The handlers by method."""
        ...


class NoAnswerError(Exception):
    """The other controller has not answered in time, or does not run."""


class Calls:
    def __init__(self, database: Database, me: ControllerId, master_key: MasterKey) -> None:
        self._database = database
        self._me = me
        self._master_key = master_key
        self._methods: dict[str, Serve] = {}
        self._asked: dict[bytes, asyncio.Future[Answer]] = {}
        self._numbers = itertools.count(1)
        self._replay = Replay()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def channel(self) -> str:
        return _channel(self._me.holder)

    def serve(self, *servers: CallServer) -> None:
        """Add handlers. Must be called before the listener starts."""
        for one in servers:
            self._methods |= one.serving()

    async def start(self) -> None:
        """Nothing to do: the listener delivers calls."""

    async def ask(self, holder: str, method: str, body: bytes) -> bytes:
        """Raises NoAnswerError, or the CulvertError in the answer."""
        caller = Caller()
        answered = self._asked[caller.id] = asyncio.get_running_loop().create_future()
        try:
            await self._send(holder, caller.call(self._me.holder, next(self._numbers), method, body))
            async with asyncio.timeout(_ANSWER_SECONDS):
                answer = await answered
        except TimeoutError:
            raise NoAnswerError(f"no answer to {method} within {_ANSWER_SECONDS} s") from None
        finally:
            del self._asked[caller.id]
        opened = caller.open(answer)
        if answer.done:
            return opened
        raise CulvertError.from_proto(error_pb2.Error.FromString(opened))

    def hear(self, payload: str | None) -> None:
        """Called by the database listener."""
        if payload is None:
            return
        try:
            message = envelope.unpack(payload, self._me.holder, self._master_key)
        except EnvelopeError as error:
            _log.warning("a call was refused", extra={"why": str(error)})
            return
        if isinstance(message, PeerCall):
            if not self._replay.take(message.holder, message.number):
                _log.warning("a repeated call was ignored", extra={"method": message.method})
                return
            task = asyncio.create_task(self._answer(message), name=f"call {message.method}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif (asked := self._asked.get(message.id)) and not asked.done():
            asked.set_result(message)

    async def stop(self) -> None:
        """Let running calls finish."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer(self, call: PeerCall) -> None:
        try:
            answer = envelope.answer(call, True, await self._methods[call.method](call.body))
        except CulvertError as error:
            answer = envelope.answer(call, False, error.to_proto().SerializeToString())
        except Exception:
            # No answer is sent: the caller's timeout ends its call.
            _log.exception("a call failed", extra={"method": call.method})
            return
        await self._send(call.holder, answer)

    async def _send(self, holder: str, message: PeerCall | Answer) -> None:
        payload = envelope.pack(message, holder, self._master_key)
        async with self._database.begin() as session:
            await notify(session, _channel(holder), payload)


def _channel(holder: str) -> str:
    return f"culvert_to_{holder}"
