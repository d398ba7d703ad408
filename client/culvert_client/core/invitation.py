"""The invitation link: culvert://enroll?controller=https://host:port&token=…&ca=sha256:…"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

_FINGERPRINT = re.compile(r"sha256:([0-9a-f]{64})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Invitation:
    """`ca_sha256`: SHA-256 of the DER of the controller's CA certificate. The token is secret and works once."""

    controller: str
    host: str
    port: int
    token: str = field(repr=False)
    ca_sha256: bytes


def parse_invitation(link: str) -> Invitation:
    """Raises CulvertError with REQUEST_INVALID; the text never holds the token."""
    try:
        parts = urlsplit(link.strip())
        query = parse_qs(parts.query, strict_parsing=True)
    except ValueError:
        raise _invalid(Phrase("it is not a link")) from None
    if (parts.scheme, parts.netloc) != ("culvert", "enroll"):
        raise _invalid(Phrase("it does not begin with culvert://enroll"))
    values = {name: query[name][0] for name in ("controller", "token", "ca") if len(query.get(name, ())) == 1}
    if len(values) != 3:
        raise _invalid(Phrase("it must name a controller, a token and a CA, each once"))
    try:
        controller = urlsplit(values["controller"])
        host, port = controller.hostname, controller.port or 443
    except ValueError:
        raise _invalid(Phrase("its controller is not a URL")) from None
    if controller.scheme != "https" or not host or controller.path not in ("", "/") or controller.username:
        raise _invalid(Phrase("its controller is not an https URL"))
    fingerprint = _FINGERPRINT.fullmatch(values["ca"])
    if fingerprint is None:
        raise _invalid(Phrase("its CA is not a SHA-256 fingerprint"))
    shown = f"[{host}]" if ":" in host else host
    return Invitation(f"https://{shown}:{port}", host, port, values["token"], bytes.fromhex(fingerprint[1]))


def _invalid(why: Phrase) -> CulvertError:
    return CulvertError(
        Reason.REQUEST_INVALID, why=Phrase("the invitation link cannot be read, {why}", why=why)
    )
