"""The console's first account, as the demo makes it: a password made for this once, an authenticator of the lab's own."""

from __future__ import annotations

import secrets
from pathlib import Path

from culvert_lab import laptop, parts
from culvert_lab.admin import Admin
from culvert_lab.errors import StepError
from culvert_lab.lab import Lab

NAME = "owner"


async def create(lab: Lab, admin: Admin) -> str:
    """Create the owner; return the password: 64 bits, in groups for typing. Raises StepError with the refusal."""
    token = (await parts.first_owner(lab)).partition("#token=")[2]
    password = "-".join(secrets.token_hex(2) for _ in range(4))
    made = await admin.post("/setup", {"token": token, "name": NAME, "password": password})
    _authenticator(lab.work).write_text(made["totp_uri"])
    return password


def code(work: Path) -> str:
    """The authenticator's present code; the lab's directory is `work`. Raises StepError while there is none."""
    try:
        uri = _authenticator(work).read_text()
    except FileNotFoundError:
        raise StepError("The demo makes its administrator when it stays up: wait until it says so.") from None
    return laptop.code_of(uri)


def _authenticator(work: Path) -> Path:
    return work / "administrator.totp"
