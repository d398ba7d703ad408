"""When the certificate ends that a gateway shows, which only its next bundle replaces."""

from __future__ import annotations

import asyncio
import datetime
import ssl

from cryptography import x509

_SECONDS = 5.0
# RFC 8305, section 8: after so long without an answer the name's next address is tried as well.
_NEXT_SECONDS = 0.25


async def ends_at(address: str, name: str, ca_pem: bytes) -> datetime.datetime:
    """The expiry of gateway `name`'s certificate for P4Runtime at `address`. Raises OSError, and of it
    ssl.SSLCertVerificationError for a certificate that is not ours or not valid now.
    """
    context = ssl.create_default_context(cadata=ca_pem.decode())
    # From this version on the gateway shows itself before it asks who we are (RFC 8446, section 2).
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    host, _, port = address.rpartition(":")
    async with asyncio.timeout(_SECONDS):
        _, writer = await asyncio.open_connection(
            host.strip("[]"), int(port), ssl=context, server_hostname=name, happy_eyeballs_delay=_NEXT_SECONDS
        )
    try:
        shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    finally:
        writer.transport.abort()
    return x509.load_der_x509_certificate(shown).not_valid_after_utc
