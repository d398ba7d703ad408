"""Trust in an invitation's controller: the link has the CA's SHA-256, and no secret is sent before the server proves it.

1  connect without verification, read the server's chain, take the certificate with that fingerprint, disconnect
2  connect again with that CA as the only trust anchor, with the usual checks of chain and name
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from typing import Any

from culvert_proto import CulvertError, Reason
from culvert_proto.invitation_link import Invitation
from culvert_proto.own_ca import ask_for_own_ca

CONNECT_TIMEOUT = 5.0
"""Seconds."""
# In seconds (RFC 8305, section 8): after this time without an answer the name's next address is tried as well.
NEXT_ADDRESS = 0.25


async def trust(invitation: Invitation, reached: str) -> tuple[ssl.SSLContext, bytes]:
    """A context that trusts only the invitation's CA, and the CA's DER. `reached`: the controller's address here.

    Raises CulvertError CONTROLLER_UNREACHABLE, or CONTROLLER_UNTRUSTED if the server's chain lacks that CA.
    """
    for der in await _fetch_chain(invitation, reached):
        if hashlib.sha256(der).digest() == invitation.ca_sha256:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.load_verify_locations(cadata=der)
            ask_for_own_ca(context)
            return context, der
    raise untrusted_error(invitation)


def untrusted_error(invitation: Invitation) -> CulvertError:
    return CulvertError(Reason.CONTROLLER_UNTRUSTED, controller=invitation.controller)


async def _fetch_chain(invitation: Invitation, reached: str) -> list[bytes]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    ask_for_own_ca(context)
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
    # Public since Python 3.13. Before, the inner object has this method, which returns certificates instead of bytes.
    chain = connection._sslobj.get_unverified_chain()
    return [ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in chain]
