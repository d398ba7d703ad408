"""Trust on an invitation: the link names the CA by its SHA-256, and nothing secret is sent before the server proves it.

1  connect without trust, read the chain that the server shows, take the certificate with that fingerprint, hang up
2  connect again with that CA as the only trust anchor; the usual checks of chain and name decide
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from typing import Any

from culvert_proto import CulvertError, Reason

from culvert_client.core.invitation import Invitation

CONNECT_TIMEOUT = 5.0
"""Seconds."""
# In seconds (RFC 8305, section 8): after so long without an answer the name's next address is tried as well.
NEXT_ADDRESS = 0.25


async def trust(invitation: Invitation, reached: str) -> tuple[ssl.SSLContext, bytes]:
    """A context that trusts the invitation's CA alone, and the CA's DER. `reached` stands for the controller's host here.

    Raises CulvertError: CONTROLLER_UNREACHABLE, or CONTROLLER_UNTRUSTED when the server does not show that CA.
    """
    for der in await _shown_chain(invitation, reached):
        if hashlib.sha256(der).digest() == invitation.ca_sha256:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.load_verify_locations(cadata=der)
            return context, der
    raise untrusted(invitation)


def untrusted(invitation: Invitation) -> CulvertError:
    return CulvertError(Reason.CONTROLLER_UNTRUSTED, controller=invitation.controller)


async def _shown_chain(invitation: Invitation, reached: str) -> list[bytes]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            _, writer = await asyncio.open_connection(
                reached,
                invitation.port,
                ssl=context,
                server_hostname=invitation.host,
                happy_eyeballs_delay=NEXT_ADDRESS,
            )
    except (OSError, TimeoutError) as error:
        raise CulvertError(Reason.CONTROLLER_UNREACHABLE, controller=invitation.controller) from error
    try:
        return _unverified_chain(writer.get_extra_info("ssl_object"))
    finally:
        writer.close()


def _unverified_chain(connection: Any) -> list[bytes]:
    if hasattr(connection, "get_unverified_chain"):
        return list(connection.get_unverified_chain())
    # Python 3.13 made it public; before, the same method sits on the inner object and returns certificates, not bytes.
    chain = connection._sslobj.get_unverified_chain()
    return [ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in chain]
