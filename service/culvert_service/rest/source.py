"""Where a REST call comes from."""

from __future__ import annotations

from fastapi import Request


def source(request: Request) -> str | None:
    """The connection's address, or what a proxy of `trusted_proxies` says of it: the front of the port has decided."""
    return request.client.host if request.client else None
