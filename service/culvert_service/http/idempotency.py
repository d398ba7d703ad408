"""Idempotency-Key on POST: the answer is kept for a day, and given again to whoever repeats the request.

claim the key ─► run the request, keep its answer          another request under the key:  IDEMPOTENCY_KEY_REUSED
           └──► it has an answer: give that                the first is still under way:   IDEMPOTENCY_KEY_BUSY
                                                           its controller died after that: IDEMPOTENCY_ANSWER_LOST

What the request changes is committed together with a mark on its claim, so that a change is made once whenever a controller
dies, and a request that somebody else has taken over changes nothing.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

from culvert_db import Database, IdempotencyKey
from culvert_proto import CulvertError, Reason
from sqlalchemy import and_, delete, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from culvert_service.admins.access import Access
from culvert_service.audit.caller import actor, set_claim
from culvert_service.pki.master_key import MasterKey
from culvert_service.rest.problem import problem

KEPT = datetime.timedelta(hours=24)
# A request that has not ended by then has died with its controller, and its key may be used again.
_UNDER_WAY = datetime.timedelta(minutes=1)
_KEY_MAX = 128
# These statuses depend on the caller or the moment, not on the request.
_NOT_KEPT = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)

Now = Callable[[], datetime.datetime]


_UNANSWERED = IdempotencyKey.status.is_(None)


@dataclass(frozen=True, slots=True)
class _Claim:
    caller: str
    key: str
    at: datetime.datetime

    async def carry_out(self, session: AsyncSession) -> None:
        """In the transaction of what is changed. Raises CulvertError IDEMPOTENCY_KEY_BUSY when it is another's now."""
        mine = (*_is(self.caller, self.key), IdempotencyKey.claimed_at == self.at)
        marked = update(IdempotencyKey).where(*mine).values(effect=True).returning(IdempotencyKey.key)
        if await session.scalar(marked) is None:
            raise CulvertError(Reason.IDEMPOTENCY_KEY_BUSY)


class Idempotency:
    """ASGI middleware."""

    def __init__(
        self, app: ASGIApp, *, database: Database, access: Access, master_key: MasterKey, now: Now
    ) -> None:
        self._app = app
        self._database = database
        self._access = access
        self._master_key = master_key
        self._now = now

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        key = request.headers.get("Idempotency-Key")
        # A call without an account can be repeated without harm.
        if key is None or not self._access.is_claimed(request):
            await self._app(scope, receive, send)
            return
        try:
            answer = await self._answer(request, key)
        except CulvertError as error:
            answer = problem(error)
        await answer(scope, receive, send)

    async def _answer(self, request: Request, key: str) -> Response:
        if not (0 < len(key) <= _KEY_MAX and key.isascii() and key.isprintable()):
            why = f"Idempotency-Key is not 1 to {_KEY_MAX} printable ASCII characters"
            raise CulvertError(Reason.REQUEST_INVALID, why=why)
        # The answer is for who may ask for it now, whatever they could when they asked first.
        await self._access.admit(request)
        by = actor(request)
        caller = f"{by.kind} {by.name}"
        # Admission has limited the body's size.
        body = await request.body()
        asked = f"{request.url.path}?{request.url.query}\n".encode()
        claim = await self._claim(caller, key, hashlib.sha256(asked + body).digest())
        if isinstance(claim, Response):
            return claim
        set_claim(request, claim)
        try:
            answer = await _run(self._app, request.scope, body)
        except BaseException:
            await self._release(caller, key)
            raise
        faulty = answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
        if faulty or answer.status_code in _NOT_KEPT or getattr(request.state, "given_once", False):
            await self._release(caller, key)
        else:
            await self._keep(caller, key, answer)
        return answer

    async def _claim(self, caller: str, key: str, fingerprint: bytes) -> Response | _Claim:
        """A claim when the request is to be run."""
        now = self._now()
        fresh = insert(IdempotencyKey).values(caller=caller, key=key, fingerprint=fingerprint, claimed_at=now)
        over = or_(
            IdempotencyKey.claimed_at <= now - KEPT,
            and_(_UNANSWERED, ~IdempotencyKey.effect, IdempotencyKey.claimed_at <= now - _UNDER_WAY),
        )
        async with self._database.begin() as session:
            await session.execute(delete(IdempotencyKey).where(over))
            claimed = await session.scalar(fresh.on_conflict_do_nothing().returning(IdempotencyKey.key))
            if claimed is not None:
                return _Claim(caller, key, now)
            row = await session.scalar(select(IdempotencyKey).where(*_is(caller, key)))
        if row is not None and row.fingerprint != fingerprint:
            raise CulvertError(Reason.IDEMPOTENCY_KEY_REUSED)
        if row is None or row.status is None or row.body_ciphertext is None:
            lost = row is not None and row.effect and row.claimed_at <= now - _UNDER_WAY
            raise CulvertError(Reason.IDEMPOTENCY_ANSWER_LOST if lost else Reason.IDEMPOTENCY_KEY_BUSY)
        content = self._master_key.open(row.body_ciphertext, _context(caller, key))
        headers = {"Idempotency-Replayed": "true"}
        return Response(content, row.status, headers, row.media_type)

    async def _keep(self, caller: str, key: str, answer: Response) -> None:
        sealed = self._master_key.seal(bytes(answer.body), _context(caller, key))
        async with self._database.begin() as session:
            await session.execute(
                update(IdempotencyKey)
                .where(*_is(caller, key))
                .values(
                    status=answer.status_code,
                    media_type=answer.headers.get("content-type"),
                    body_ciphertext=sealed,
                )
            )

    async def _release(self, caller: str, key: str) -> None:
        """Unless something has been changed."""
        async with self._database.begin() as session:
            await session.execute(delete(IdempotencyKey).where(*_is(caller, key), ~IdempotencyKey.effect))


async def _run(app: ASGIApp, scope: Scope, body: bytes) -> Response:
    """The application's whole answer."""
    started: Message = {}
    content = bytearray()

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            started.update(message)
        else:
            content.extend(cast("bytes", message.get("body", b"")))

    await app(scope, receive, send)
    answer = Response(bytes(content), started["status"])
    answer.raw_headers = list(started["headers"])
    return answer


def _is(caller: str, key: str):
    return IdempotencyKey.caller == caller, IdempotencyKey.key == key


def _context(caller: str, key: str) -> str:
    return f"idempotency {caller} {key}"
