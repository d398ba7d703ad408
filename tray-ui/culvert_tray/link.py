"""Checks an invitation link that a browser passes.

Any web page can have such a link: it is only shown with its controller until the person agrees.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

# Real links have less than 300 characters.
LONGEST = 2048
# Only ASCII: names in other scripts must be in their xn-- form, so that look-alike letters cannot deceive.
_HOST = re.compile(r"[A-Za-z0-9.-]+|[0-9A-Fa-f:]+")


@dataclass(frozen=True, slots=True)
class Invitation:
    """`host`: the controller that would be trusted. The link contains a secret."""

    link: str = field(repr=False)
    host: str


def invitation(link: str) -> Invitation | CulvertError:
    """Parse a link. The refusal never contains the link."""
    link = link.strip()
    if len(link) > LONGEST:
        return _refusal_error(Phrase("it is too long"))
    if not link.isascii() or not link.isprintable():
        return _refusal_error(Phrase("it holds characters that no link has"))
    try:
        parts = urlsplit(link)
        query = parse_qs(parts.query, strict_parsing=True)
    except ValueError:
        return _refusal_error(Phrase("it is not a link"))
    if (parts.scheme, parts.netloc, parts.path.strip("/")) != ("culvert", "enroll", ""):
        return _refusal_error(Phrase("it does not begin with culvert://enroll"))
    if any(len(query.get(name, ())) != 1 for name in ("controller", "token", "ca")):
        return _refusal_error(Phrase("it must name a controller, a token and a CA, each once"))
    try:
        controller = urlsplit(query["controller"][0])
        host = controller.hostname or ""
    except ValueError:
        return _refusal_error(Phrase("its controller is not a URL"))
    if controller.scheme != "https" or controller.username is not None or not _HOST.fullmatch(host):
        return _refusal_error(Phrase("its controller is not an https URL"))
    return Invitation(link, host)


def _refusal_error(why: Phrase) -> CulvertError:
    return CulvertError(
        Reason.REQUEST_INVALID, why=Phrase("the invitation link cannot be read, {why}", why=why)
    )
