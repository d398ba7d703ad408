"""For a supervisor: whether a restart would help (/healthz), and whether calls should come here (/readyz)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from culvert_db import Sessions
from fastapi import APIRouter, Depends
from pydantic import BaseModel
from sqlalchemy import text
from starlette.responses import Response

from culvert_service.database import why_away
from culvert_service.periodic import Periodic
from culvert_service.rest.rates import Rates

# Of a database that does not answer.
_PATIENCE_SECONDS = 2.0
# Strangers may ask; they do not make the database write more often than this.
_FRESH_SECONDS = 0.5
# A standby, or a primary whose disk is full, still answers questions. Nothing is changed, and the write is as any other.
_WRITE = text("""
UPDATE controllers SET ends_at = ends_at WHERE holder = (SELECT min(holder) FROM controllers)
""")


class Health(BaseModel):
    """`stuck`: work that does not go on."""

    status: str
    stuck: list[str] = []


class Readiness(BaseModel):
    """`checks`: "ok", or what is wrong."""

    ready: bool
    checks: dict[str, str]


class Writable:
    """Whether the database takes a write now, as each decision is one: its audit line."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._one_at_a_time = asyncio.Lock()
        self._asked_at = -_FRESH_SECONDS
        self._found = ""

    async def why_not(self) -> str:
        """Empty when it does. No driver's text: that may hold the address with its password."""
        async with self._one_at_a_time:
            if time.monotonic() - self._asked_at > _FRESH_SECONDS:
                self._found = await self._ask()
                self._asked_at = time.monotonic()
            return self._found

    async def _ask(self) -> str:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS), self._sessions.begin() as session:
                await session.execute(_WRITE)
        except TimeoutError:
            return f"no answer within {_PATIENCE_SECONDS:.0f} s"
        except Exception as error:
            return why_away(error) or type(error).__name__
        return ""


def router(sessions: Sessions, rates: Rates, works: Sequence[Periodic]) -> APIRouter:
    """`works`: without their rounds the controller serves nobody rightly."""
    router, database = APIRouter(tags=["health"]), Writable(sessions)

    @router.get(
        "/healthz",
        summary="Whether a restart of the controller would help",
        responses={HTTPStatus.SERVICE_UNAVAILABLE: {"model": Health}},
    )
    async def healthz(response: Response) -> Health:
        """503 when work of its own does not go on. It stays good while the database is away, which a restart would not
        bring back: an embedded one is started again by the controller."""
        if stuck := [work.name for work in works if work.is_stuck]:
            response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
            return Health(status="stuck", stuck=stuck)
        return Health(status="ok")

    @router.get(
        "/readyz",
        dependencies=[Depends(rates.anyone)],
        summary="Whether it can decide about a name now",
        responses={HTTPStatus.SERVICE_UNAVAILABLE: {"model": Readiness}},
    )
    async def readyz(response: Response) -> Readiness:
        """For a balancer of calls: the database takes a write."""
        why_not = await database.why_not()
        response.status_code = HTTPStatus.SERVICE_UNAVAILABLE if why_not else HTTPStatus.OK
        return Readiness(ready=not why_not, checks={"database": why_not or "ok"})

    _: Any = (healthz, readyz)
    return router
