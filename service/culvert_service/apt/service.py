"""The repository that this controller serves, and the lines with which a laptop and a gateway install from it."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shlex
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from culvert_service.apt.archive_package import Source, write_archive_package
from culvert_service.config import Settings
from culvert_service.pki.authority import Authority

_log = logging.getLogger(__name__)

PREFIX = "/apt"
ARCHIVE = "culvert-archive.deb"
_ABOUT = "repository.json"
_KEYRING = "culvert-archive-keyring.pgp"


class Install(BaseModel):
    """`command`: a line for a shell. `systems`: as "Debian 12". `key`: the fingerprint of the release's key."""

    command: str
    systems: list[str]
    key: str


# Maintainer scripts have these values in them.
_Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+~-]*$", max_length=100)]
_Title = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9. ]*$", max_length=100)]


class _About(BaseModel):
    """repository.json, which deploy/deb/repository.py writes."""

    model_config = ConfigDict(frozen=True)

    version: _Word
    date: int
    architecture: _Word
    fingerprint: Annotated[str, StringConstraints(pattern=r"^[0-9A-F]{40,64}$")]
    systems: Annotated[dict[_Word, _Title], Field(min_length=1)]
    # Whether the repository has culvert-gateway, which those of earlier releases have not.
    gateway: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """`install`: of the client. `gateway`: of a gateway. `archive`: the package culvert-archive."""

    install: Install
    gateway: Install | None
    archive: bytes


class ReleasePackages:
    """It is read again when it has changed, so an upgrade of the package culvert-repository needs no restart."""

    def __init__(self, settings: Settings, infrastructure: Authority) -> None:
        self.folder = settings.apt_repository
        self._url = settings.rest_url
        self._host = settings.public_name
        self._shows_own_ca = settings.shows_own_ca
        self._infrastructure = infrastructure
        self._made: tuple[object, Offer] | None = None

    async def offer(self) -> Offer | None:
        """None if there is no repository, or none that this address can serve."""
        return await asyncio.to_thread(self._find)

    def _find(self) -> Offer | None:
        about = self.folder / _ABOUT
        ca_pem = self._infrastructure.trusted_pem if self._shows_own_ca else None
        # apt separates the words of its settings' names by "::".
        if ca_pem is not None and ":" in self._host:
            return None
        try:
            files = [(self.folder / name).stat() for name in (_ABOUT, _KEYRING)]
            # Files of one commit have one st_mtime, whichever key has signed them.
            state = ([(it.st_ctime_ns, it.st_ino) for it in files], ca_pem)
            if self._made is None or self._made[0] != state:
                self._made = state, self._make(_About.model_validate_json(about.read_bytes()), ca_pem)
        except FileNotFoundError:
            return None
        except (OSError, ValidationError) as error:
            _log.error("the apt repository cannot be read", extra={"file": str(about), "error": str(error)})
            return None
        return self._made[1]

    def _make(self, about: _About, ca_pem: bytes | None) -> Offer:
        source = Source(
            url=f"{self._url}{PREFIX}",
            host=self._host,
            version=about.version,
            architecture=about.architecture,
            systems=about.systems,
            keyring=(self.folder / _KEYRING).read_bytes(),
            ca_pem=ca_pem,
            published_at=about.date,
        )
        archive = write_archive_package(source)
        digest = hashlib.sha256(archive).hexdigest()
        # The page is what the person trusts, and it has the digest: so the download itself needs no trusted certificate.
        trust = "" if ca_pem is None else "--no-check-certificate "
        fetch = (
            f"wget {trust}-O {ARCHIVE} {shlex.quote(f'{self._url}{PREFIX}/{ARCHIVE}')} && "
            f"echo '{digest}  {ARCHIVE}' | sha256sum --check"
        )

        def install(package: str, sudo: str) -> Install:
            command = f"{fetch} && {sudo}dpkg --install {ARCHIVE} && {sudo}apt update && {sudo}apt install {package}"
            return Install(command=command, systems=list(about.systems.values()), key=about.fingerprint)

        # A server's administrator is root already, and a server need not have sudo.
        gateway = install("culvert-gateway", "") if about.gateway else None
        return Offer(install("culvert-tray", "sudo "), gateway, archive)
