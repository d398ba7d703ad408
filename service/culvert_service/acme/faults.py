"""Faults of an ACME server in words: its own reason, and a remedy."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from typing import cast

from acme import messages

_SHOWN_MAX = 500
# The remedy of a validation, whatever its failure is called.
_LEAD_HERE = (
    "TCP port 443 of the name must lead to this controller from where the authority is, without a proxy that ends TLS, at "
    "each of its addresses (A and AAAA): look at DNS, firewall and NAT"
)
_CONTACT = "change acme_contact to an address of yours, as mailto:admin@corp.example, or remove it"
# By the error types of RFC 8555, section 6.7.
_REMEDIES = {
    "caa": "add this authority to the CAA records of the name or its parents, or remove these records",
    "connection": _LEAD_HERE,
    "dns": "give the name an address in the DNS that the authority asks",
    "unknownHost": "give the name an address in the DNS that the authority asks",
    "dnssec": "mend the DNSSEC signatures of the zone",
    "tls": _LEAD_HERE,
    "incorrectResponse": _LEAD_HERE,
    "unauthorized": "ask the authority what the account may do; check acme_eab_key_id and acme_eab_key_file, if set",
    "rateLimited": "none is needed: the controller waits for as long as the authority asks",
    "rejectedIdentifier": "ask the authority which names it signs; public ones sign names of public domains alone",
    "externalAccountRequired": "set acme_eab_key_id and acme_eab_key_file to the authority's key, and acme_contact",
    # Some call a wrong key for external accounts so.
    "malformed": "check acme_eab_key_id and acme_eab_key_file, if set; otherwise report a fault of Culvert",
    "invalidContact": _CONTACT,
    "unsupportedContact": _CONTACT,
    "invalidEmail": _CONTACT,
    "userActionRequired": "agree to the authority's new terms at the page that it names",
    "invalidProfile": "change acme_profile to a profile of the authority, or remove it",
    "serverInternal": "look at the authority's status page; the controller tries again by itself",
}
_REST = "ask the authority; the controller tries again by itself"


class AcmeFaultError(Exception):
    """No certificate for now. The text says why and what to do.

    `is_refusal`: the server has judged the request, and counts such attempts. `wait_seconds`: at the server's wish.
    """

    def __init__(self, why: str, remedy: str, *, is_refusal: bool = False, wait_seconds: float = 0) -> None:
        super().__init__(f"{why}. Remedy: {remedy}")
        self.why, self.remedy = why, remedy
        self.is_refusal = is_refusal
        self.wait_seconds = wait_seconds


class AccountClosedError(AcmeFaultError):
    """The server knows the account no more, or has closed it."""


def problem(
    host: str, said: messages.Error, wait_seconds: float = 0, *, validates: bool = False
) -> AcmeFaultError:
    """The fault of a problem document (RFC 7807). `validates`: it is the end of a validation."""
    kind = str(said.typ).rpartition(":")[2]
    # The library's decorator hides the field's type.
    inner = cast("tuple[messages.Error, ...]", said.subproblems or ())
    details = [str(it.detail) for it in (said, *inner[:1]) if it.detail]
    shown = printable(": ".join(details) or str(said.title or kind))
    remedy = _LEAD_HERE if validates and kind == "unauthorized" else _REMEDIES.get(kind, _REST)
    # An account that cannot be used is the controller's to replace.
    error = AccountClosedError if kind == "accountDoesNotExist" else AcmeFaultError
    return error(
        f"{host} says: {shown.rstrip('.')} ({printable(kind)})",
        remedy,
        is_refusal=kind != "serverInternal",
        wait_seconds=wait_seconds,
    )


def unreachable(host: str, error: BaseException) -> AcmeFaultError:
    """The fault of a call without an answer."""
    causes = list(_causes(error))
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return AcmeFaultError(
                f"the certificate of {host} is not trusted: {cause.verify_message}",
                "name the file of its CA in acme_ca_file, and look at this host's clock",
            )
        if isinstance(cause, socket.gaierror):
            return AcmeFaultError(
                f"{host} does not resolve on this host", "check acme_directory and this host's DNS"
            )
    known = [it.strerror for it in causes if isinstance(it, OSError) and it.strerror]
    why = known[-1] if known else "it does not answer in time"
    return AcmeFaultError(
        f"{host} cannot be reached: {printable(why)}",
        "let this host reach it by HTTPS, or set HTTPS_PROXY for the controller",
    )


def strange(host: str, why: str, wait_seconds: float = 0, *, is_refusal: bool = True) -> AcmeFaultError:
    """The fault of an answer that is none of ACME. `is_refusal`: the same request would get it again."""
    return AcmeFaultError(
        f"the answer of {host} cannot be used: {printable(why)}",
        "check that acme_directory is the URL of an ACME directory; the controller tries again by itself",
        is_refusal=is_refusal,
        wait_seconds=wait_seconds,
    )


def printable(text: str) -> str:
    """So that a stranger's text forges no line of a log and fills no screen."""
    return "".join(it if it.isprintable() else " " for it in text[:_SHOWN_MAX])


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, its causes, and what its libraries put into arguments and `reason`."""
    found: list[BaseException] = [error]
    seen: set[int] = set()
    while found:
        one = found.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        inside = [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
        found += [it for it in inside if isinstance(it, BaseException)]
