"""What every answer says to a browser, unless it says more itself."""

from __future__ import annotations

import ipaddress

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# For pages too: each of them is of this origin and embeds nothing of another.
_SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# An answer that is no page runs, loads and frames nothing, whatever somebody gets into its text.
_NO_PAGE = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_API = "/api/"
# A year. Without includeSubDomains: a controller may have the name of a zone, in which there are pages over HTTP.
_STRICT_TRANSPORT = "max-age=31536000"


class SafeHeaders:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        defaults = {**_SAFE, "Content-Security-Policy": _NO_PAGE}
        if str(scope["path"]).startswith(_API):
            # Tokens, links and keys are shown once, and in no browser's cache afterwards.
            defaults["Cache-Control"] = "no-store"
        if is_name(Headers(scope=scope).get("host", "")):
            defaults["Strict-Transport-Security"] = _STRICT_TRANSPORT

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in defaults.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, named)


def is_name(host: str) -> bool:
    """Whether a Host header names a host that can promise TLS for all of its ports (RFC 6797 section 8.1.1): no address,
    and not the computer itself, where anything may listen.
    """
    before, _, port = host.rpartition(":")
    name = (before if port.isdigit() else host).rstrip(".").lower()
    if not name or name.startswith("[") or name == "localhost" or name.endswith(".localhost"):
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return True
    return False
