"""A release is refused before anything is built, and is whole and signed once it is there."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import publish
import pytest
from releases import ROOT
from signing import Signer

CHANGELOG = """# Changelog

## [Unreleased]

## [1.2.3] - 2026-11-27

### Added

- Tunnels.

## [1.2.2] - 2026-01-01
"""
_GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@x.invalid")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    (root / "deploy").mkdir(parents=True)
    shutil.copy(ROOT / "deploy/version", root / "deploy/version")
    (root / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    (root / "CHANGELOG.md").write_text(CHANGELOG)
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
        subprocess.run([*_GIT, *command], cwd=root, check=True)
    return root


def test_the_section_of_the_version_becomes_its_notes(checkout: Path) -> None:
    assert publish.check("1.2.3", checkout) == "### Added\n\n- Tunnels.\n"


@pytest.mark.parametrize(
    ("version", "changelog", "reason"),
    [
        ("v1.2.3", CHANGELOG, "three numbers"),
        ("1.3.0", CHANGELOG, "deploy/version 1.3.0"),
        ("1.2.3", CHANGELOG.replace("[1.2.3]", "[1.2.4]"), "has no section of 1.2.3"),
        ("1.2.3", CHANGELOG.replace(" - 2026-11-27", ""), "YYYY-MM-DD"),
        ("1.2.3", CHANGELOG.replace("### Added\n\n- Tunnels.\n", ""), "is empty"),
    ],
)
def test_a_release_that_is_not_ready_is_refused(
    checkout: Path, version: str, changelog: str, reason: str
) -> None:
    (checkout / "CHANGELOG.md").write_text(changelog)
    subprocess.run([*_GIT, "commit", "-q", "-a", "--allow-empty", "-m", "y"], cwd=checkout, check=True)
    with pytest.raises(LookupError, match=re.escape(reason)):
        publish.check(version, checkout)


def test_files_that_are_in_no_commit_are_refused(checkout: Path) -> None:
    (checkout / "left.txt").write_text("x")
    with pytest.raises(LookupError, match=r"left\.txt"):
        publish.check("1.2.3", checkout)


@pytest.mark.parametrize(
    ("life", "reason"), [("seconds=1", "has expired|within a year"), ("30d", "within a year")]
)
def test_a_key_that_ends_soon_is_refused(tmp_path: Path, life: str, reason: str) -> None:
    with Signer.of(None) as home:
        gpg = ["gpg", "--homedir", str(home.home), "--batch", "--quiet", "--passphrase", ""]
        subprocess.run([*gpg, "--quick-generate-key", "Short", "ed25519", "sign", life], check=True)
        exported = subprocess.run([*gpg, "--export-secret-keys", "Short"], check=True, capture_output=True)
    (tmp_path / "short.key").write_bytes(exported.stdout)
    with pytest.raises(LookupError, match=reason), Signer.of(tmp_path / "short.key"):
        pass


def test_a_file_without_a_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("none")
    with pytest.raises(LookupError, match="no OpenPGP key"), Signer.of(tmp_path / "other"):
        pass


def test_what_is_published_has_signed_digests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documents = tmp_path / "sbom"
    documents.mkdir()
    (documents / "culvert-client.cdx.json").write_text("{}")
    monkeypatch.setattr(publish, "_DOCUMENTS", (documents,))
    package = tmp_path / "culvert-client_1_amd64.deb"
    package.write_bytes(b"package")
    folder = tmp_path / "release/1.2.3"
    with Signer.of(None) as signer:
        publish.publish(folder, "notes\n", [package], signer)
    trusted = ["gpgv", "--keyring", str(folder / "culvert-archive-keyring.pgp")]
    subprocess.run([*trusted, folder / "SHA256SUMS.asc", folder / "SHA256SUMS"], check=True)
    subprocess.run(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=folder, check=True)
    listed = {line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()}
    found = {str(it.relative_to(folder)) for it in folder.rglob("*") if it.is_file()}
    assert found - listed == {"SHA256SUMS", "SHA256SUMS.asc"}
    assert {"NOTES.md", package.name, "sbom/culvert-client.cdx.json"} <= listed


def test_a_key_that_apt_refuses_is_refused(tmp_path: Path) -> None:
    for name, options, algorithm in (
        ("sha1", ["--cert-digest-algo", "SHA1", "--allow-weak-key-signatures"], "ed25519"),
        ("short", [], "rsa2048"),
    ):
        home = tmp_path / name
        home.mkdir(0o700)
        gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", "", *options]
        subprocess.run([*gpg, "--quick-generate-key", name, algorithm, "sign", "never"], check=True)
        (tmp_path / f"{name}.key").write_bytes(subprocess.check_output([*gpg, "--export-secret-keys"]))
        with (
            pytest.raises(LookupError, match=r"no OpenPGP key|refuses DSA"),
            Signer.of(tmp_path / f"{name}.key"),
        ):
            pass
