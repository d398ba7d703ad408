"""The rate limits of the REST API: by caller, and by address for unknown callers."""

from __future__ import annotations

import time

from culvert_db import ActorKind
from culvert_proto import CulvertError, Reason
from culvert_proto.token_bucket import TokenBucket
from fastapi import Request

from culvert_service.audit.caller import set_actor
from culvert_service.audit.log import Actor
from culvert_service.rest.rate import AddressLimiter, Limiter
from culvert_service.rest.request import source

_BURST_SECONDS = 10


class Rates:
    def __init__(self, callers_per_second: float, strangers_per_second: float) -> None:
        self._callers = per_caller(callers_per_second)
        self._strangers = AddressLimiter(_bucket_of_ten_seconds(strangers_per_second))

    def caller(self, actor: Actor) -> None:
        """For a caller with an account. Raises CulvertError RATE_LIMITED."""
        _refuse(self._callers.take(f"{actor.kind} {actor.name}", time.monotonic()))

    def stranger(self, request: Request) -> None:
        """Raises CulvertError RATE_LIMITED."""
        _refuse(self._strangers.take(source(request), time.monotonic()))

    async def anyone(self, request: Request) -> None:
        """A FastAPI dependency for routes without an account. Counts a request once, as an act of an invited person."""
        if getattr(request.state, "counted", False):
            return
        request.state.counted = True
        set_actor(request, Actor(ActorKind.INVITATION, "unknown", source(request)))
        self.stranger(request)


def per_caller(per_second: float) -> Limiter:
    """Allows a burst of ten seconds' calls."""
    return Limiter(_bucket_of_ten_seconds(per_second))


def _bucket_of_ten_seconds(per_second: float) -> TokenBucket:
    return TokenBucket(per_second, max(1, per_second * _BURST_SECONDS))


def _refuse(seconds: int) -> None:
    if seconds:
        raise CulvertError(Reason.RATE_LIMITED, seconds=seconds)
