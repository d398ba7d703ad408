"""A request's source address, and whether its answer may be kept."""

from __future__ import annotations

from fastapi import Request


def source(request: Request) -> str | None:
    """The caller's address: the connection's, or the one that a proxy of `trusted_proxies` reports. The front decides."""
    return request.client.host if request.client else None


async def given_once(request: Request) -> None:
    """A FastAPI dependency: the answer holds secrets that are kept nowhere, so a repetition is told that it is lost."""
    request.state.given_once = True
