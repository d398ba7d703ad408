"""Finds the cause of a failed TLS connection to the controller: gRPC reports only that there is no connection.

A second handshake, with the same CA, certificate and key, shows which check has failed:

  certificate of the controller ──► our check:      wrong CA, wrong name, expired
  certificate of this device ─────► an alert (RFC 8446 section 6.2), which in TLS 1.3 follows the handshake

Anybody on the path can send an alert before the controller has proven its identity. Such an alert is reported only as
a failed handshake.
"""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
from collections.abc import Callable

from cryptography import x509
from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import duration

from culvert_client.controller.clock import clock_ahead
from culvert_client.platform.interfaces import Process
from culvert_client.state_dir import Identity

# Our tunables, in seconds. Certificates live for days: a clock that is wrong by less than a minute is not the cause.
PATIENCE = 3.0
CLOCK_TOLERANCE = 60

# openssl/x509_vfy.h: the certificate is not valid yet, has expired, or has another name.
_NOT_YET_VALID, _EXPIRED = 9, 10
_WRONG_NAMES = frozenset({62, 63, 64})
# RFC 9113 section 3.4: the preface and an empty SETTINGS frame, after which a server that accepts us sends its own.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


class _DeviceRefusedError(Exception):
    """The controller, after proving its identity, ended the connection with this alert."""


async def refusal(
    identity: Identity, device: str, process: Process, reach: Callable[[str], str] = str
) -> CulvertError | None:
    """The fault of the TLS connection; None without a fault, or for a fault of the network.

    `device`: this device's name. `reach`: a host's address on this network (nat64_reach.py).
    """
    try:
        return await _refusal(identity, device, process, reach)
    except (OSError, ValueError):
        return None


async def fault(
    identity: Identity, device: str, process: Process, reach: Callable[[str], str] = str
) -> CulvertError | None:
    """As `refusal`, but CONTROLLER_UNREACHABLE for a fault of the network."""
    try:
        return await _refusal(identity, device, process, reach)
    except (OSError, ValueError):
        return CulvertError(Reason.CONTROLLER_UNREACHABLE, controller=identity.agent_address)


async def _refusal(
    identity: Identity, device: str, process: Process, reach: Callable[[str], str]
) -> CulvertError | None:
    """Raises OSError for a fault of the network, ValueError for an address without a port."""
    controller = identity.agent_address
    try:
        await asyncio.to_thread(_connect, identity, process, reach)
    except ssl.SSLCertVerificationError as error:
        if is_out_of_date(error):
            return await out_of_date(controller, identity.controller, identity.ca_pem, reach)
        if error.verify_code in _WRONG_NAMES:
            return CulvertError(Reason.CONTROLLER_NAME_WRONG, controller=controller)
        return CulvertError(Reason.CONTROLLER_CA_UNKNOWN, controller=controller)
    except _DeviceRefusedError as error:
        return await _explain_alert(identity, device, str(error), reach)
    except ssl.SSLEOFError:
        raise
    except ssl.SSLError as error:
        return CulvertError(Reason.HANDSHAKE_REFUSED, controller=controller, why=_alert_text(error))
    return None


async def _explain_alert(
    identity: Identity, device: str, alert: str, reach: Callable[[str], str]
) -> CulvertError:
    if alert == "certificate revoked":
        return CulvertError(Reason.DEVICE_REVOKED, device=device)
    if alert == "certificate expired":
        # The controller's clock decides, so compare the clocks.
        wrong = (
            None if has_expired(identity) else await _wrong_clock(identity.controller, identity.ca_pem, reach)
        )
        return wrong or CulvertError(Reason.CERTIFICATE_EXPIRED)
    return CulvertError(Reason.CERTIFICATE_REFUSED, controller=identity.agent_address, why=alert)


def has_expired(identity: Identity) -> bool:
    """Whether the certificate has expired by this computer's clock. Raises ValueError without a certificate."""
    certificate = x509.load_pem_x509_certificate(identity.certificate_pem)
    return certificate.not_valid_after_utc <= datetime.datetime.now(datetime.UTC)


def is_out_of_date(error: ssl.SSLCertVerificationError) -> bool:
    return error.verify_code in (_NOT_YET_VALID, _EXPIRED)


async def out_of_date(
    shown: str, controller: str, ca_pem: bytes, reach: Callable[[str], str]
) -> CulvertError:
    """The cause for which a certificate of the right CA is not valid now. `shown`: the address that presented it."""
    wrong = await _wrong_clock(controller, ca_pem, reach)
    return wrong or CulvertError(Reason.CONTROLLER_CERTIFICATE_EXPIRED, controller=shown)


async def _wrong_clock(controller: str, ca_pem: bytes, reach: Callable[[str], str]) -> CulvertError | None:
    ahead = await clock_ahead(controller, ca_pem, reach)
    if ahead is None or abs(ahead) <= CLOCK_TOLERANCE:
        return None
    return CulvertError(Reason.CLOCK_WRONG, apart=duration(abs(ahead)))


def _connect(identity: Identity, process: Process, reach: Callable[[str], str]) -> None:
    """Returns when the controller accepts this device. Raises OSError, ssl.SSLError, ValueError, _DeviceRefusedError."""
    host, _, port = identity.agent_address.rpartition(":")
    named = host.strip("[]")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    context.load_verify_locations(cadata=identity.ca_pem.decode())
    _show(context, identity, process)
    with (
        socket.create_connection((reach(named), int(port)), PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname=named) as connection,
    ):
        try:
            connection.sendall(_PREFACE)
            connection.recv(1)
        except ssl.SSLEOFError:
            raise
        except ssl.SSLError as error:
            raise _DeviceRefusedError(_alert_text(error)) from error


def _show(context: ssl.SSLContext, identity: Identity, process: Process) -> None:
    # Python reads a key only from a file.
    with process.private_file(identity.certificate_pem + b"\n" + identity.key_pem) as path:
        context.load_cert_chain(path)


def _alert_text(error: ssl.SSLError) -> str:
    """OpenSSL's "TLSV1_ALERT_UNKNOWN_CA" as "unknown ca"."""
    return (
        error.reason.rpartition("ALERT_")[2].replace("_", " ").lower() if error.reason else "no reason given"
    )
