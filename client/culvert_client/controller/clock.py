"""Compares this computer's clock with the controller's."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from culvert_client.controller.https import HttpsConnection, context_from_ca

# Our tunable, in seconds.
PATIENCE = 5.0
# openssl/x509_vfy.h: do not check the certificate's times, because this computer's clock may be wrong.
_NO_CHECK_TIME = 0x200000


async def clock_ahead(controller: str, ca_pem: bytes, reach: Callable[[str], str] = str) -> int | None:
    """The controller's clock minus this computer's, in seconds (RFC 9110 section 6.6.1); None without an answer.

    `reach`: a host's address on this network (nat64_reach.py).
    """
    try:
        return await asyncio.to_thread(_ask, controller, ca_pem, reach)
    except (OSError, http.client.HTTPException, ValueError, TypeError):
        return None


def _ask(controller: str, ca_pem: bytes, reach: Callable[[str], str]) -> int:
    context = context_from_ca(ca_pem)
    context.verify_flags |= _NO_CHECK_TIME
    address = urlsplit(controller)
    host = address.hostname or ""
    connection = HttpsConnection(host, address.port, reach(host), context, PATIENCE)
    try:
        connection.request("HEAD", "/healthz")
        said = connection.getresponse().headers["Date"]
        return round(parsedate_to_datetime(said).timestamp() - time.time())
    finally:
        connection.close()
