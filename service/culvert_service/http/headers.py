"""The security headers of every answer. An answer's own header of the same name takes precedence."""

from __future__ import annotations

import ipaddress

from culvert_proto.dns_name import canonical
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# These suit pages, too: the console has one origin and embeds nothing from other origins.
_SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# An answer that is no page must run, load and frame nothing, even if an attacker controls its text.
_NO_PAGE = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_API = "/api/"
# A year. Without includeSubDomains: the controller's name may be that of a zone with other hosts that use plain HTTP.
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
            # Tokens, links and keys must not stay in a browser's cache.
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
    """Whether HSTS may be sent for this Host header: for a name, but for no address (RFC 6797 section 8.1.1).

    Also not for localhost: HSTS covers all ports of a name, and other programs there may use plain HTTP.
    """
    before, _, port = host.rpartition(":")
    name = canonical(before if port.isdigit() else host)
    if not name or name.startswith("[") or name == "localhost" or name.endswith(".localhost"):
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return True
    return False
