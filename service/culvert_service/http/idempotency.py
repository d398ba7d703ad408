"""Idempotency-Key on POST: the answer is stored for 24 h, and returned when the caller repeats the request.

claim the key ─► run the request, store its answer         another request with the key:  IDEMPOTENCY_KEY_REUSED
           └──► it has an answer: return it                the first is still running:    IDEMPOTENCY_KEY_BUSY
                                                           its controller has died:       IDEMPOTENCY_ANSWER_LOST

A request's changes commit together with a mark on its claim. So a change is made at most once even if a controller dies,
and a request whose claim another one has taken over changes nothing.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

from culvert_db import Database
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from culvert_service.admins.access import Access
from culvert_service.audit.caller import actor, set_claim
from culvert_service.http import repository
from culvert_service.pki.master_key import MasterKey
from culvert_service.rest.problem import asked_language, problem

KEPT = datetime.timedelta(hours=24)
# After this time an unfinished request counts as dead, and its key may be used again.
_UNDER_WAY = datetime.timedelta(minutes=1)
_KEY_MAX = 128
# These statuses depend on the caller or the moment, not on the request.
_NOT_KEPT = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)

Now = Callable[[], datetime.datetime]


@dataclass(frozen=True, slots=True)
class _Claim:
    caller: str
    key: str
    at: datetime.datetime

    async def carry_out(self, session: AsyncSession) -> None:
        """Mark the claim in the transaction of the changes. Raises CulvertError IDEMPOTENCY_KEY_BUSY for a lost claim."""
        if not await repository.mark_effect(session, self.caller, self.key, self.at):
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
        # Calls without an account can be repeated without harm.
        if key is None or not self._access.is_claimed(request):
            await self._app(scope, receive, send)
            return
        try:
            answer = await self._answer(request, key)
        except CulvertError as error:
            answer = problem(error, language=asked_language(request))
        await answer(scope, receive, send)

    async def _answer(self, request: Request, key: str) -> Response:
        if not (0 < len(key) <= _KEY_MAX and key.isascii() and key.isprintable()):
            why = Phrase("Idempotency-Key is not 1 to {number} printable ASCII characters", number=_KEY_MAX)
            raise CulvertError(Reason.REQUEST_INVALID, why=why)
        # Also a stored answer needs a present permission.
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
            await self._release(claim)
            raise
        faulty = answer.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR
        if faulty or answer.status_code in _NOT_KEPT or getattr(request.state, "given_once", False):
            await self._release(claim)
        else:
            await self._keep(claim, answer)
        return answer

    async def _claim(self, caller: str, key: str, fingerprint: bytes) -> Response | _Claim:
        """The stored answer, or a claim for a request to run."""
        now = self._now()
        async with self._database.begin() as session:
            await repository.delete_ended(session, now - KEPT, now - _UNDER_WAY)
            if await repository.claim(session, caller, key, fingerprint, now):
                return _Claim(caller, key, now)
            row = await repository.find_claimed(session, caller, key)
        if row is not None and row.fingerprint != fingerprint:
            raise CulvertError(Reason.IDEMPOTENCY_KEY_REUSED)
        if row is None or row.status is None or row.body_ciphertext is None:
            lost = row is not None and row.effect and row.claimed_at <= now - _UNDER_WAY
            raise CulvertError(Reason.IDEMPOTENCY_ANSWER_LOST if lost else Reason.IDEMPOTENCY_KEY_BUSY)
        content = self._master_key.open(row.body_ciphertext, _context(caller, key))
        headers = {"Idempotency-Replayed": "true"}
        return Response(content, row.status, headers, row.media_type)

    async def _keep(self, claim: _Claim, answer: Response) -> None:
        async with self._database.begin() as session:
            await repository.keep_answer(
                session,
                claim.caller,
                claim.key,
                claim.at,
                status=answer.status_code,
                media_type=answer.headers.get("content-type"),
                ciphertext=self._master_key.seal(bytes(answer.body), _context(claim.caller, claim.key)),
            )

    async def _release(self, claim: _Claim) -> None:
        """Delete the claim, unless the request has changed something."""
        async with self._database.begin() as session:
            await repository.release(session, claim.caller, claim.key, claim.at)


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


def _context(caller: str, key: str) -> str:
    return f"idempotency {caller} {key}"
