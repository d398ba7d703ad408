"""One request over HTTPS. What is made once in a device's life is not worth the memory of an HTTP library in the daemon."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
from dataclasses import dataclass

TIMEOUT = 15.0
"""Seconds, for all of it."""
LONGEST_ANSWER = 1 << 20
"""Bytes: the rest is not read."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class HttpsConnection(http.client.HTTPSConnection):
    """`reached` stands for `host` on this network (ways.py); the certificate is still the host's."""

    def __init__(
        self, host: str, port: int | None, reached: str, context: ssl.SSLContext, timeout: float
    ) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._reached, self._trust = reached, context

    def connect(self) -> None:
        plain = socket.create_connection((self._reached, self.port), self.timeout)
        self.sock = self._trust.wrap_socket(plain, server_hostname=self.host)


async def post_json(connection: HttpsConnection, path: str, body: dict[str, str]) -> Answer:
    """And hang up. Raises ssl.SSLCertVerificationError, TimeoutError, OSError, http.client.HTTPException."""
    async with asyncio.timeout(TIMEOUT):
        return await asyncio.to_thread(_post, connection, path, json.dumps(body))


def _post(connection: HttpsConnection, path: str, body: str) -> Answer:
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return Answer(response.status, response.read(LONGEST_ANSWER))
    finally:
        connection.close()
