"""Calls to the controller that runs with these settings: with admin-token, over TLS with the controller's own CA."""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
import json
import socket
import ssl
from typing import Any
from urllib.parse import urlsplit

from culvert_proto.own_ca import ask_for_own_ca

from culvert_service.config import ConfigurationError, Settings, split_listen, system_words

_SECONDS = 15.0
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104


class CallRefusedError(Exception):
    """The controller's refusal, with its detail and remedy."""


async def call(settings: Settings, method: str, path: str, body: object = None, seen: str = "") -> Any:
    """The answer's JSON. `seen`: an ETag. Raises ConfigurationError when no controller answers, and CallRefusedError."""
    return (await asyncio.to_thread(_call, settings, method, path, body, seen))[0]


async def read(settings: Settings, path: str) -> tuple[Any, str]:
    """The object and its ETag. Raises as `call`."""
    return await asyncio.to_thread(_call, settings, "GET", path, None, "")


def readiness(settings: Settings) -> str:
    """Empty once the controller with these settings is ready; otherwise why it is not."""
    try:
        context = ssl.create_default_context(cafile=str(settings.state_dir / "infrastructure-ca.pem"))
        connection = _Here(settings, context)
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            said = answer.read(1 << 16).decode(errors="replace")
        finally:
            connection.close()
    except (OSError, http.client.HTTPException) as error:
        return system_words(error) if isinstance(error, OSError) else str(error)
    return "" if answer.status == http.client.OK else said


class _Here(http.client.HTTPSConnection):
    """Connects to the address that the controller listens on, and expects its public name in the certificate.

    The public name may lead to a proxy that shows another certificate, or be reachable from elsewhere alone.
    """

    def __init__(self, settings: Settings, context: ssl.SSLContext) -> None:
        url = urlsplit(settings.rest_url)
        super().__init__(url.hostname or "", url.port or 443, timeout=_SECONDS, context=context)
        host, port = split_listen(settings.rest_listen)
        self._address = _LOOPBACK.get(host, host), port
        self._trust = context
        ask_for_own_ca(context)
        # The port expects the PROXY protocol of this host, too, if a load balancer runs here.
        self._introduces = any(
            ipaddress.ip_address(self._address[0]) in ipaddress.ip_network(prefix)
            for prefix in settings.proxy_protocol
        )

    def connect(self) -> None:
        plain = socket.create_connection(self._address, self.timeout)
        if self._introduces:
            plain.sendall(b"PROXY UNKNOWN\r\n")
        self.sock = self._trust.wrap_socket(plain, server_hostname=self.host)


def _call(settings: Settings, method: str, path: str, body: object, seen: str) -> tuple[Any, str]:
    state = settings.state_dir
    try:
        token = (state / "admin-token").read_text().strip()
        context = ssl.create_default_context(cafile=str(state / "infrastructure-ca.pem"))
    except FileNotFoundError:
        raise ConfigurationError(
            f"state_dir: {state} holds no controller yet. Make one: culvert-controller init"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"{system_words(error)}. Run this as the controller's user") from None
    try:
        connection = _Here(settings, context)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        if seen:
            headers["If-Match"] = seen
        try:
            connection.request(method, f"/api/v1{path}", json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
    except ConnectionRefusedError:
        raise ConfigurationError(
            f"no controller runs at {settings.rest_url}. Start it: culvert-controller serve"
        ) from None
    except (OSError, http.client.HTTPException) as error:
        why = system_words(error) if isinstance(error, OSError) else str(error)
        raise ConfigurationError(f"no controller answers at {settings.rest_url}: {why}") from None
    found: Any = json.loads(content) if content else None
    if answer.status >= http.client.BAD_REQUEST:
        raise CallRefusedError(f"{found['detail']} {found['remedy']}")
    return found, answer.getheader("ETag", "")
