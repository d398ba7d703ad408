"""The invitation link: an https page of the controller, which leads to the desktop's own form of the same link.

    https://vpn.corp.example:8443/enroll#TOKEN.FINGERPRINT[.CONTROLLER]
    culvert://enroll?controller=https://vpn.corp.example:8443&token=…&ca=sha256:…

The part after `#` stays in the browser: no proxy's log and no mail scanner's request has the token. The token does not
come last, because mail programs leave out punctuation at the end of a link, and a token may end in `-` or `_`. In a shell,
the form of the page needs no quotes. CONTROLLER, host and port, is there if a proxy that ends TLS serves the page: devices
trust the controller's own CA alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qs, urlsplit

from culvert_proto.phrases import Phrase
from culvert_proto.reasons import CulvertError, Reason

PAGE_PATH = "/enroll"
# Real links have less than 300 characters.
LONGEST = 2048
# Only ASCII: names in other scripts must be in their xn-- form, so that look-alike letters cannot deceive.
_HOST = re.compile(r"[A-Za-z0-9.-]+|[0-9A-Fa-f:]+")
_FINGERPRINT = re.compile(r"sha256:([0-9a-f]{64})", re.IGNORECASE)
_FRAGMENT = re.compile(r"([\w-]+)\.([0-9a-f]{64})(?:\.(.+))?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Invitation:
    """`ca_sha256`: SHA-256 of the DER of the controller's CA certificate. The token is secret and works once."""

    controller: str
    host: str
    port: int
    token: str = field(repr=False)
    ca_sha256: bytes


def make_page_link(page: str, controller: str, token: str, ca_sha256: bytes) -> str:
    """The link for a mail. `page`, `controller`: URLs without a path, for browsers and for devices."""
    link = f"{page.rstrip('/')}{PAGE_PATH}#{token}.{ca_sha256.hex()}"
    return link if controller == page else f"{link}.{urlsplit(controller).netloc}"


def parse_invitation(link: str) -> Invitation:
    """Read either form. Raises CulvertError INVITATION_UNREADABLE, whose text never contains the link."""
    link = link.strip()
    if len(link) > LONGEST:
        raise _invalid(Phrase("it is too long"))
    if not link.isascii() or not link.isprintable():
        raise _invalid(Phrase("it holds characters that no link has"))
    try:
        parts = urlsplit(link)
    except ValueError:
        raise _invalid(Phrase("it is not a link")) from None
    if parts.scheme == "https":
        controller, token, ca = _read_page(parts)
    elif (parts.scheme, parts.netloc, parts.path.strip("/")) == ("culvert", "enroll", ""):
        controller, token, ca = _read_query(parts.query)
    else:
        raise _invalid(Phrase("it begins neither with https:// nor with culvert://enroll"))
    host, port = _endpoint(controller)
    shown = f"[{host}]" if ":" in host else host
    return Invitation(f"https://{shown}:{port}", host, port, token, bytes.fromhex(ca))


def _read_page(parts: SplitResult) -> tuple[str, str, str]:
    """Controller, token and fingerprint."""
    if parts.path.rstrip("/") != PAGE_PATH or parts.query:
        # A mail filter may have wrapped the link in one of its own.
        raise _invalid(
            Phrase("it is not a controller's page: open it, and copy the address that the browser then shows")
        )
    found = _FRAGMENT.fullmatch(parts.fragment)
    if found is None:
        raise _invalid(Phrase("the part after # is missing or cut"))
    return f"https://{found[3] or parts.netloc}", found[1], found[2]


def _read_query(query: str) -> tuple[str, str, str]:
    """Controller, token and fingerprint."""
    try:
        values = parse_qs(query, strict_parsing=True, max_num_fields=8)
    except ValueError:
        raise _invalid(Phrase("it is not a link")) from None
    names = ("controller", "token", "ca")
    if any(len(values.get(name, ())) != 1 for name in names):
        raise _invalid(Phrase("it must name a controller, a token and a CA, each once"))
    controller, token, ca = (values[name][0] for name in names)
    found = _FINGERPRINT.fullmatch(ca)
    if found is None:
        raise _invalid(Phrase("its CA is not a SHA-256 fingerprint"))
    return controller, token, found[1]


def _endpoint(controller: str) -> tuple[str, int]:
    try:
        parts = urlsplit(controller)
        host, port = parts.hostname or "", parts.port or 443
    except ValueError:
        raise _invalid(Phrase("its controller is not a URL")) from None
    plain = "@" not in parts.netloc and parts.path in ("", "/") and not parts.query and not parts.fragment
    if parts.scheme != "https" or not plain or not _HOST.fullmatch(host):
        raise _invalid(Phrase("its controller is not an https URL"))
    return host, port


def _invalid(why: Phrase) -> CulvertError:
    return CulvertError(Reason.INVITATION_UNREADABLE, why=why)
