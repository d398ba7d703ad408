"""Who calls: the client certificate of a connection, and the address that it comes from."""

from __future__ import annotations

import hashlib
import ipaddress
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

import grpc.aio
from culvert_db import ActorKind
from culvert_proto import CulvertError, Reason

from culvert_service.audit.log import Actor, acting

Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Who:
    """The SHA-256 of a certificate's DER, and the IP address that its call comes from."""

    fingerprint: bytes
    address: str

    def actor(self) -> Actor:
        return Actor(ActorKind.DEVICE, f"sha256:{self.fingerprint.hex()}", self.address)


def who(context: Context) -> Who:
    """Raises CulvertError as `fingerprint`."""
    return Who(fingerprint(context), outer_address(context))


def fingerprint(context: Context) -> bytes:
    """SHA-256 of the DER of the peer's certificate, who is from now on the one that acts.

    Raises CulvertError CERTIFICATE_UNKNOWN, or REQUEST_INVALID when the connection does not come from IP.
    """
    properties = cast("Mapping[str, list[bytes]]", context.auth_context())
    shown = properties.get("x509_pem_cert")
    if not shown:
        raise CulvertError(Reason.CERTIFICATE_UNKNOWN)
    found = hashlib.sha256(ssl.PEM_cert_to_DER_cert(shown[0].decode())).digest()
    acting.set(Who(found, outer_address(context)).actor())
    return found


def outer_address(context: Context) -> str:
    """The IP address that the connection comes from (docs/decisions, 2). Raises CulvertError REQUEST_INVALID."""
    peer = unquote(str(context.peer()))
    scheme, _, rest = peer.partition(":")
    host = rest.rpartition(":")[0].strip("[]")
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        raise CulvertError(
            Reason.REQUEST_INVALID, why=f"the connection comes from {scheme}, not from IP"
        ) from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address)
