"""Where a REST call comes from."""

from __future__ import annotations

from fastapi import Request


def source(request: Request) -> str | None:
    """The connection's address. Headers of proxies are not believed: anyone can send them."""
    return request.client.host if request.client else None
