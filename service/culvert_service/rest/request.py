"""A request's source address, and the mark of answers that must not be stored."""

from __future__ import annotations

from fastapi import Request


def source(request: Request) -> str | None:
    """The caller's address: the connection's, or the one that a proxy of `trusted_proxies` reports. The front decides."""
    return request.client.host if request.client else None


async def mark_given_once(request: Request) -> None:
    """A FastAPI dependency: the answer contains secrets and is not stored for its Idempotency-Key."""
    request.state.given_once = True
