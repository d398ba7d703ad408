"""A request's source address, its times, and the mark of answers that must not be stored."""

from __future__ import annotations

import datetime
from typing import Annotated

from culvert_proto.phrases import Phrase
from fastapi import Request
from pydantic import AfterValidator, AwareDatetime


def _utc(value: datetime.datetime) -> datetime.datetime:
    try:
        return value.astimezone(datetime.UTC)
    except OverflowError:
        raise ValueError(Phrase("must be within the years 1 to 9999 of UTC")) from None


Moment = Annotated[AwareDatetime, AfterValidator(_utc)]


def source(request: Request) -> str | None:
    """The caller's address: the connection's, or the one that a proxy of `trusted_proxies` reports. The front decides."""
    return request.client.host if request.client else None


async def mark_given_once(request: Request) -> None:
    """A FastAPI dependency: the answer contains secrets and is not stored for its Idempotency-Key."""
    request.state.given_once = True
