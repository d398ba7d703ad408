"""The rate limits of the REST API: by caller, and by address for whoever is not known."""

from __future__ import annotations

import time

from culvert_db import ActorKind
from culvert_proto import CulvertError, Reason
from fastapi import Request

from culvert_service.audit.log import Actor, acting
from culvert_service.rest.rate import Limiter, Rate
from culvert_service.rest.source import source

_BURST_SECONDS = 10


class Rates:
    def __init__(self, callers_per_second: float, strangers_per_second: float) -> None:
        self._callers = per_caller(callers_per_second)
        self._strangers = per_caller(strangers_per_second)

    def caller(self) -> None:
        """For the one that acts. Raises CulvertError RATE_LIMITED."""
        actor = acting.get()
        _take(self._callers, f"{actor.kind} {actor.name}")

    def stranger(self, request: Request) -> None:
        """Raises CulvertError RATE_LIMITED."""
        _take(self._strangers, source(request) or "")

    async def anyone(self, request: Request) -> None:
        """A FastAPI dependency, for what needs no account: who acts is whoever has an invitation."""
        acting.set(Actor(ActorKind.INVITATION, "unknown", source(request)))
        self.stranger(request)


def per_caller(per_second: float) -> Limiter:
    """Ten seconds' worth may come at once."""
    return Limiter(Rate(per_second, max(1, per_second * _BURST_SECONDS)))


def _take(limiter: Limiter, who: str) -> None:
    if seconds := limiter.take(who, time.monotonic()):
        raise CulvertError(Reason.RATE_LIMITED, seconds=seconds)
