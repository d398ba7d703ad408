"""A request over HTTPS to the controller's REST API, and its answer or refusal.

Uses the standard library, because an HTTP library would cost memory in the daemon for a few requests per year.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import ssl
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, cast

from culvert_proto import CulvertError, Reason, error_pb2
from culvert_proto.own_ca import ask_for_own_ca
from culvert_proto.phrases import Phrase

TIMEOUT = 15.0
"""Seconds, for all of it."""
LONGEST_ANSWER = 1 << 20
"""Bytes: the rest is not read."""


@dataclass(frozen=True, slots=True)
class HttpsAnswer:
    status: int
    body: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class HttpsConnection(http.client.HTTPSConnection):
    """Connects to `reached`, the address of `host` on this network (nat64_reach.py), and checks the name `host`."""

    def __init__(
        self, host: str, port: int | None, reached: str, context: ssl.SSLContext, timeout: float
    ) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._reached, self._trust = reached, context

    def connect(self) -> None:
        plain = socket.create_connection((self._reached, self.port), self.timeout)
        self.sock = self._trust.wrap_socket(plain, server_hostname=self.host)


def context_from_ca(ca_pem: bytes) -> ssl.SSLContext:
    """A context that trusts only the controller's CA."""
    context = ssl.create_default_context(cadata=ca_pem.decode())
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    ask_for_own_ca(context)
    return context


async def post(
    controller: str, connection: HttpsConnection, path: str, body: dict[str, str] | None
) -> dict[str, Any]:
    """The answer's JSON object. `controller`: the name in errors.

    Raises ssl.SSLCertVerificationError, and CulvertError: the controller's refusal, TIMEOUT or CONTROLLER_UNREACHABLE.
    """
    try:
        async with asyncio.timeout(TIMEOUT):
            answer = await asyncio.to_thread(
                _post, connection, path, None if body is None else json.dumps(body)
            )
    except ssl.SSLCertVerificationError:
        raise
    except TimeoutError:
        raise CulvertError(Reason.TIMEOUT, what=Phrase("The answer of {peer}", peer=controller)) from None
    except (OSError, HTTPException):
        raise CulvertError(Reason.CONTROLLER_UNREACHABLE, controller=controller) from None
    try:
        document: object = json.loads(answer.body)
    except ValueError:
        raise CulvertError(Reason.INTERNAL) from None
    if not isinstance(document, dict):
        raise CulvertError(Reason.INTERNAL)
    members = cast("dict[str, Any]", document)
    if answer.is_success:
        return members
    raise _refusal(members)


def _post(connection: HttpsConnection, path: str, body: str | None) -> HttpsAnswer:
    try:
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        return HttpsAnswer(response.status, response.read(LONGEST_ANSWER))
    finally:
        connection.close()


def _texts(value: object) -> dict[str, str]:
    """The text members of a JSON object."""
    members = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    return {name: text for name, text in members.items() if isinstance(text, str)}


def _refusal(problem: dict[str, Any]) -> CulvertError:
    """The error in an RFC 9457 problem document, whose `reason` is a name of the catalogue."""
    name = str(problem.get("reason", "")).removeprefix("REASON_")
    if name not in Reason.__members__:
        return CulvertError(Reason.INTERNAL)
    return CulvertError.from_proto(
        error_pb2.Error(
            reason=error_pb2.Reason.ValueType(Reason[name]),
            message=str(problem.get("detail") or problem.get("title") or ""),
            remedy=str(problem.get("remedy") or ""),
            fields=_texts(problem.get("fields")),
        )
    )
