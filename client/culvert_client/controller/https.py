"""One request over HTTPS. What is made once in a device's life is not worth the memory of an HTTP library in the daemon."""

from __future__ import annotations

import asyncio
import http.client
import json
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


async def post_json(host: str, port: int, path: str, body: dict[str, str], context: ssl.SSLContext) -> Answer:
    """Raises ssl.SSLCertVerificationError, TimeoutError, OSError, http.client.HTTPException."""
    async with asyncio.timeout(TIMEOUT):
        return await asyncio.to_thread(_post, host, port, path, json.dumps(body), context)


def _post(host: str, port: int, path: str, body: str, context: ssl.SSLContext) -> Answer:
    connection = http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=context)
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return Answer(response.status, response.read(LONGEST_ANSWER))
    finally:
        connection.close()
