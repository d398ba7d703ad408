"""The owner of a resource whom a refusal names, and a mail to the owner."""

from __future__ import annotations

import re
from urllib.parse import quote

from culvert_proto import CulvertError

_E_MAIL = re.compile(r"[A-Za-z0-9._+-]{1,64}@[A-Za-z0-9.-]{1,253}")


def owner_of(error: CulvertError) -> str:
    """The owner's e-mail address; empty if the refusal names none."""
    owner = str(error.fields.get("owner", ""))
    return owner if _E_MAIL.fullmatch(owner) else ""


def mail_to(owner: str, subject: str) -> str:
    """A link that opens the person's mail program (RFC 6068)."""
    return f"mailto:{quote(owner, safe='@')}?subject={quote(subject)}"
