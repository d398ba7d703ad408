"""Asks the REST API's port for the certificate of the controller's own CA, which browsers may not get (decision 66)."""

from __future__ import annotations

import ssl

# Never chosen by the server; it stands in service/agent_server/src/tls.rs as well.
_PROTOCOL = "culvert-ca"


def ask_for_own_ca(context: ssl.SSLContext) -> None:
    """Offers the protocol of Culvert's programs beside HTTP/1.1 (RFC 7301)."""
    context.set_alpn_protocols([_PROTOCOL, "http/1.1"])
