"""The client's packages as the controller serves them: the repository's files, and the line that a laptop runs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
from culvert_service.apt.endpoints import public_router
from culvert_service.apt.service import Offer, ReleasePackages
from culvert_service.pki.authority import Authority, make_authority
from culvert_service.rest.api import Api
from fastapi import FastAPI

from .conftest import settings_in

ABOUT: dict[str, Any] = {
    "version": "0.1.0+612",
    "date": 1_795_746_439,
    "architecture": "amd64",
    "fingerprint": "A93241A6F8284672697AC07AC4B3889AE2978210",
    "systems": {"bookworm": "Debian 12", "noble": "Ubuntu 24.04"},
}
PUBLIC = {"public_rest_url": "https://vpn.corp.example:8443"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    (folder / "pool").mkdir(parents=True)
    (folder / "pool/culvert-client_1+2~deb12_amd64.deb").write_bytes(b"0123456789")
    (folder / "culvert-archive-keyring.pgp").write_bytes(b"keys")
    (folder / "repository.json").write_text(json.dumps(ABOUT))
    (folder / "link").symlink_to(tmp_path / "secret")
    (tmp_path / "secret").write_text("secret")
    return folder


@pytest.fixture(scope="session")
def infrastructure() -> Authority:
    return Authority(make_authority("infrastructure"))


def serving(folder: Path, infrastructure: Authority, **fields: Any) -> ReleasePackages:
    return ReleasePackages(
        settings_in(folder.parent, apt_repository=folder, **(PUBLIC | fields)), infrastructure
    )


async def asked(packages: ReleasePackages, path: str, method: str = "GET", **headers: str) -> httpx.Response:
    async def anyone() -> None: ...

    app = FastAPI(routes=public_router(Api(anyone), packages).routes)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="https://vpn.corp.example"
    ) as client:
        return await client.request(method, f"/apt/{path}", headers=headers)


async def offered(packages: ReleasePackages) -> Offer:
    found = await packages.offer()
    assert found is not None
    return found


async def test_a_file_is_read_whole_in_part_or_only_if_it_has_changed(
    repository: Path, infrastructure: Authority
) -> None:
    packages, name = serving(repository, infrastructure), "pool/culvert-client_1+2~deb12_amd64.deb"
    whole = await asked(packages, name)
    assert (whole.status_code, whole.content, whole.headers["Cache-Control"]) == (
        200,
        b"0123456789",
        "no-cache",
    )
    # apt writes these characters so.
    assert (await asked(packages, name.replace("+", "%2b").replace("~", "%7e"))).content == whole.content
    part = await asked(packages, name, Range="bytes=4-6", **{"If-Range": whole.headers["Last-Modified"]})
    assert (part.status_code, part.content) == (206, b"456")
    assert (await asked(packages, name, Range="bytes=10-")).status_code == 416
    same = await asked(packages, name, **{"If-Modified-Since": whole.headers["Last-Modified"]})
    assert (same.status_code, same.content) == (304, b"")
    head = await asked(packages, name, "HEAD")
    assert (head.content, head.headers["Content-Length"]) == (b"", "10")


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        "%2e%2e/secret",
        "..%2fsecret",
        "pool/../../secret",
        "link",
        "%2fetc/passwd",
        "pool",
        "",
        "%00",
    ],
)
async def test_no_other_file_is_served(repository: Path, infrastructure: Authority, path: str) -> None:
    answer = await asked(serving(repository, infrastructure), path)
    assert (answer.status_code, "secret" in answer.text) == (404, False)


async def test_the_repository_comes_changes_and_goes_without_a_restart(
    repository: Path, infrastructure: Authority
) -> None:
    packages = serving(repository, infrastructure)
    away = move(repository, repository.with_name("away"))
    assert await packages.offer() is None
    assert (await asked(packages, "repository.json")).status_code == 404
    assert (await asked(packages, "culvert-archive.deb")).status_code == 404
    move(away, repository)
    first = await offered(packages)
    fresh = repository / "fresh"
    fresh.write_text(json.dumps(ABOUT | {"version": "0.2.0+700"}))
    move(fresh, repository / "repository.json")
    assert (await offered(packages)).archive != first.archive


async def test_a_repository_of_the_same_commit_with_another_key_is_another(
    repository: Path, infrastructure: Authority
) -> None:
    packages = serving(repository, infrastructure)
    first = await offered(packages)
    keyring = repository / "culvert-archive-keyring.pgp"
    before = keyring.stat()
    keyring.write_bytes(b"next")
    os.utime(keyring, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (await offered(packages)).archive != first.archive


@pytest.mark.parametrize(
    "damaged",
    [
        "",
        "{}",
        json.dumps(ABOUT | {"systems": {}}),
        json.dumps(ABOUT | {"systems": {"bookworm; reboot": "Debian 12"}}),
        json.dumps(ABOUT | {"systems": {"bookworm": "Debian 12$(reboot)"}}),
        json.dumps(ABOUT | {"version": "1\nDepends: other"}),
    ],
)
async def test_a_damaged_repository_is_none(
    repository: Path, infrastructure: Authority, damaged: str
) -> None:
    (repository / "repository.json").write_text(damaged)
    assert await serving(repository, infrastructure).offer() is None


async def test_the_line_names_the_digest_of_the_package_that_it_downloads(
    repository: Path, infrastructure: Authority, tmp_path: Path
) -> None:
    offer = await offered(serving(repository, infrastructure))
    assert hashlib.sha256(offer.archive).hexdigest() in offer.install.command
    assert "--no-check-certificate" in offer.install.command
    assert offer.install.systems == ["Debian 12", "Ubuntu 24.04"]
    # A repository of an earlier release has no gateway.
    assert offer.gateway is None
    (repository / "repository.json").write_text(json.dumps(ABOUT | {"gateway": True}))
    gateway = (await offered(serving(repository, infrastructure))).gateway
    assert gateway is not None
    assert gateway.command == offer.install.command.replace("sudo ", "").replace(
        "culvert-tray", "culvert-gateway"
    )
    # Each controller of one name gives the same bytes.
    assert (await offered(serving(repository, infrastructure))).archive == offer.archive
    files = unpack(offer.archive, tmp_path)
    assert files["usr/share/culvert-archive/ca.pem"].encode() == infrastructure.trusted_pem
    assert files["usr/share/keyrings/culvert-archive-keyring.pgp"] == "keys"
    assert files["etc/apt/apt.conf.d/50culvert-archive"].startswith(
        "Acquire::https::vpn.corp.example::CAInfo "
    )
    assert "URIs: https://vpn.corp.example:8443/apt\n" in files["usr/share/culvert-archive/culvert.sources"]
    assert "culvert-gateway" in files["etc/apt/preferences.d/culvert-archive.pref"]
    assert (
        'Pin: origin "vpn.corp.example"\nPin-Priority: -1'
        in files["etc/apt/preferences.d/culvert-archive.pref"]
    )


@pytest.mark.parametrize(
    "fields",
    [
        {"public_certificate_file": "/pem", "public_key_file": "/key"},
        {"acme_directory": "https://authority.example/directory", "acme_terms_agreed": True},
        {"public_enrolment_url": "https://enrol.corp.example"},
    ],
    ids=["files", "ACME", "proxy"],
)
async def test_a_certificate_that_laptops_trust_is_checked(
    fields: dict[str, object], repository: Path, infrastructure: Authority, tmp_path: Path
) -> None:
    offer = await offered(serving(repository, infrastructure, **fields))
    assert "--no-check-certificate" not in offer.install.command
    assert [it for it in unpack(offer.archive, tmp_path) if "apt.conf" in it or "ca.pem" in it] == []


async def test_the_public_address_is_a_word_of_the_line(repository: Path, infrastructure: Authority) -> None:
    offer = await offered(serving(repository, infrastructure, public_rest_url="https://a$(reboot)b"))
    assert "'https://a$(reboot)b/apt/culvert-archive.deb'" in offer.install.command


async def test_an_ipv6_address_with_culverts_own_ca_has_no_line(
    repository: Path, infrastructure: Authority
) -> None:
    packages = serving(repository, infrastructure, public_rest_url="https://[2001:db8::1]:8443")
    assert await packages.offer() is None


def move(entry: Path, target: Path) -> Path:
    return entry.rename(target)


def unpack(package: bytes, folder: Path) -> dict[str, str]:
    """The files, as dpkg reads the package."""
    (folder / "archive.deb").write_bytes(package)
    root = folder / "root"
    subprocess.run(["dpkg-deb", "--raw-extract", folder / "archive.deb", root], check=True)
    for script in ("preinst", "postinst", "postrm"):
        subprocess.run(["sh", "-n", root / "DEBIAN" / script], check=True)
    assert re.search(r"^Version: 0\.1\.0\+612$", (root / "DEBIAN/control").read_text(), re.MULTILINE)
    return {str(it.relative_to(root)): it.read_text() for it in root.rglob("*") if it.is_file()}
