"""/healthz tells a supervisor whether a restart would help; /readyz tells a load balancer whether to send calls here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from culvert_db import Database, why_away
from fastapi import Depends, FastAPI
from pydantic import BaseModel
from starlette.responses import Response

from culvert_service.admins.rates import Rates
from culvert_service.http import repository
from culvert_service.tasks import Periodic

# The time for the database's answer.
_PATIENCE_SECONDS = 2.0
# Strangers may call /readyz, so the database is asked at most once in this time.
_FRESH_SECONDS = 0.5


class Health(BaseModel):
    """`stuck`: the names of periodic works that have stopped."""

    status: str
    stuck: list[str] = []


class Readiness(BaseModel):
    """`checks`: "ok" or the fault, for each check."""

    ready: bool
    checks: dict[str, str]


class Writable:
    """Whether the database takes a write now. Each decision writes its audit line."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._one_at_a_time = asyncio.Lock()
        self._asked_at = -_FRESH_SECONDS
        self._found = ""

    async def why_not(self) -> str:
        """The fault; empty when there is none. Never the driver's text, which may hold the URL with the password."""
        async with self._one_at_a_time:
            if time.monotonic() - self._asked_at > _FRESH_SECONDS:
                self._found = await self._ask()
                self._asked_at = time.monotonic()
            return self._found

    async def _ask(self) -> str:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS), self._database.begin() as session:
                await repository.write_nothing(session)
        except TimeoutError:
            return f"no answer within {_PATIENCE_SECONDS:.0f} s"
        except Exception as error:
            return why_away(error) or type(error).__name__
        return ""


def install(app: FastAPI, database: Database, rates: Rates, works: Sequence[Periodic]) -> None:
    """`works`: the periodic works that the controller needs to serve correctly."""
    writable = Writable(database)

    @app.get(
        "/healthz",
        tags=["health"],
        summary="Check whether a restart of the controller would help",
        responses={HTTPStatus.SERVICE_UNAVAILABLE: {"model": Health}},
    )
    async def healthz(response: Response) -> Health:
        """503 when a periodic work of the controller is stuck. 200 during an outage of the database: a restart would not
        help, and the controller itself restarts an embedded database."""
        if stuck := [work.name for work in works if work.is_stuck]:
            response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
            return Health(status="stuck", stuck=stuck)
        return Health(status="ok")

    @app.get(
        "/readyz",
        tags=["health"],
        dependencies=[Depends(rates.anyone)],
        summary="Check whether the controller can decide about a name now",
        responses={HTTPStatus.SERVICE_UNAVAILABLE: {"model": Readiness}},
    )
    async def readyz(response: Response) -> Readiness:
        """For a load balancer: 200 when the database takes a write."""
        why_not = await writable.why_not()
        response.status_code = HTTPStatus.SERVICE_UNAVAILABLE if why_not else HTTPStatus.OK
        return Readiness(ready=not why_not, checks={"database": why_not or "ok"})

    _: Any = (healthz, readyz)
