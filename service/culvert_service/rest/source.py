"""Where a REST call comes from."""

from __future__ import annotations

from fastapi import Request


def source(request: Request) -> str | None:
    """The caller's address: the connection's, or the one that a proxy of `trusted_proxies` reports. The front decides."""
    return request.client.host if request.client else None
