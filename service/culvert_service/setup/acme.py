"""Set-up's part about a certificate by ACME: the flags, the server and its terms, and the wait for the certificate."""

from __future__ import annotations

import asyncio
import stat
import time
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from culvert_service.acme.faults import AcmeFaultError
from culvert_service.acme.server import AcmeServer
from culvert_service.config import ConfigurationError, Settings
from culvert_service.operation.doctor import Finding
from culvert_service.operation.rest_client import CallRefusedError, call
from culvert_service.setup import answers
from culvert_service.setup.answers import Acme, AnswerError
from culvert_service.setup.examination import may_read

_LOOK_SECONDS = 1.0
# Longer than a validation and an issuance take.
_CERTIFICATE_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class AcmeFlags:
    """As they were given. Each but `wanted` includes it."""

    wanted: bool = False
    directory: str | None = None
    contact: str | None = None
    agrees: bool = False
    profile: str | None = None
    eab_key_id: str | None = None
    eab_key_file: Path | None = None
    ca_file: Path | None = None

    def answer(self, before: Acme | None) -> Acme | None:
        """With what was before. Raises AnswerError."""
        if (self.eab_key_id is None) != (self.eab_key_file is None):
            raise AnswerError("--acme-eab-key-id and --acme-eab-key-file go together")
        given = {
            "directory": self.directory,
            "agrees": self.agrees or None,
            "contact": None if self.contact is None else answers.parse_contact(self.contact),
            "profile": self.profile,
            "eab_key_id": self.eab_key_id,
            "eab_key_file": _absolute(self.eab_key_file),
            "ca_file": _absolute(self.ca_file),
        }
        changed = {name: value for name, value in given.items() if value is not None}
        if not self.wanted and not changed:
            return before
        made = replace(before or Acme(), **changed)
        if before is not None and made.directory != before.directory:
            # Terms are those of one authority.
            made = replace(made, agrees=self.agrees)
        if urlsplit(made.directory).scheme != "https":
            raise AnswerError(f"--acme-directory: {made.directory} is no https address")
        return made


def examine(asked: Acme, user: tuple[int, int] | None) -> tuple[Finding, str]:
    """Look at the files and the server's directory. Without a fault, the URL of the terms of service, or empty."""
    what = f"ACME server {urlsplit(asked.directory).netloc}"
    for name in (asked.ca_file, asked.eab_key_file):
        if name is None:
            continue
        file = Path(name)
        if not file.is_file():
            return Finding(what, f"{file} is not there", "Name a file that is there."), ""
        if user is not None and not may_read(file, *user):
            remedy = f"Copy it: install -o root -g culvert-controller -m 640 {file} /etc/culvert/, and name the copy."
            return Finding(what, f"the user culvert-controller cannot read {file}", remedy), ""
    if (key := asked.eab_key_file) is not None and Path(key).stat().st_mode & stat.S_IROTH:
        return Finding(what, f"every user of this host can read {key}", f"chmod o-rwx {key}"), ""
    try:
        server = AcmeServer(asked.directory, None if asked.ca_file is None else Path(asked.ca_file))
        asyncio.run(server.connect())
    except AcmeFaultError as error:
        return Finding(what, error.why, error.remedy), ""
    if server.needs_binding and asked.eab_key_id is None:
        wrong = "it makes accounts only for customers that it knows (external account binding)"
        remedy = "Get a key there: --acme-eab-key-id ID --acme-eab-key-file FILE"
        return Finding(what, wrong, remedy), ""
    return Finding(what), server.terms


def wait_for_certificate(settings: Settings) -> None:
    """Print how it went. A fault takes nothing back: the controller works, and goes on trying."""
    print(f"Waiting for the certificate of {settings.public_name} …", flush=True)
    deadline, why = time.monotonic() + _CERTIFICATE_SECONDS, "none has come yet"
    while time.monotonic() < deadline:
        try:
            told = asyncio.run(call(settings, "GET", "/controller"))
        except (ConfigurationError, CallRefusedError) as error:
            why = str(error)
        else:
            if told["public_certificate_fault"]:
                why = told["public_certificate_fault"]
                break
            ends = [it["expires_at"] for it in told["certificates"] if it["name"] == "public"]
            if ends:
                print(f"Browsers get it, until {ends[0][:10]}; the controller renews it.")
                return
        time.sleep(_LOOK_SECONDS)
    print(f"There is no certificate for browsers: {why}")
    print(
        "Until it is there, they get one of Culvert's CA, and warn. culvert-controller doctor tells how it is.\n"
    )


def _absolute(file: Path | None) -> str | None:
    return None if file is None else str(file.absolute())
