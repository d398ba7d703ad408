"""A release is refused before anything is built, and is whole and signed once it is there."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import publish
import pytest
from releases import ROOT
from signing import Signer, agent
from stage import read_version

CHANGELOG = """# Changelog

## [Unreleased]

## [1.2.3] - 2026-11-27

### Added

- Tunnels.

## [1.2.2] - 2026-01-01
"""
MIGRATIONS = "db/culvert_db/migrations/versions"
_GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@x.invalid")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "checkout"
    (root / "deploy").mkdir(parents=True)
    shutil.copy(ROOT / "deploy/version", root / "deploy/version")
    (root / "CHANGELOG.md").write_text(CHANGELOG)
    (root / MIGRATIONS).mkdir(parents=True)
    git(root, "init", "-q")
    for version, migration, beside in (("1.2.2", "0002_more", "0001"), ("1.2.3", "0003_again", "0002")):
        state(root, version, beside)
        (root / MIGRATIONS / f"{migration}.py").touch()
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", version)
        if version == "1.2.2":
            git(root, "tag", "v1.2.2")
    return root


def state(root: Path, version: str, beside: str) -> None:
    (root / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n')
    (root / "db/culvert_db/migrate.py").write_text(f'BESIDE = "{beside}"\n')


def git(root: Path, *arguments: str) -> None:
    subprocess.run([*_GIT, *arguments], cwd=root, check=True)


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
    git(checkout, "commit", "-q", "-a", "--allow-empty", "-m", "y")
    with pytest.raises(LookupError, match=re.escape(reason)):
        publish.check(version, checkout)


def test_beside_is_the_newest_revision_of_the_release_before(checkout: Path) -> None:
    state(checkout, "1.2.3", "0001")
    git(checkout, "commit", "-q", "-a", "-m", "y")
    with pytest.raises(LookupError, match=r"BESIDE 0001, and the newest revision of v1\.2\.2 is 0002"):
        publish.check("1.2.3", checkout)
    subprocess.run([checkout / "deploy/version", "1.2.3"], check=True)
    assert (checkout / "db/culvert_db/migrate.py").read_text() == 'BESIDE = "0002"\n'
    git(checkout, "commit", "-q", "-a", "-m", "z")
    publish.check("1.2.3", checkout)
    git(checkout, "tag", "v1.2.3")
    publish.check("1.2.3", checkout)
    # Afterwards the next release begins: its first migration asks for BESIDE, its other commits don't.
    git(checkout, "commit", "-q", "--allow-empty", "-m", "after")
    version = [checkout / "deploy/version"]
    assert subprocess.run(version, check=True, capture_output=True, text=True).stdout == "1.2.3\n"
    (checkout / MIGRATIONS / "0004_next.py").touch()
    said = subprocess.run(version, check=False, capture_output=True, text=True)
    assert said.returncode == 1
    assert "BESIDE 0002, and the newest revision of v1.2.3 is 0003" in said.stdout
    subprocess.run([*version, "1.3.0"], check=True)
    assert (checkout / "db/culvert_db/migrate.py").read_text() == 'BESIDE = "0003"\n'


def test_a_fix_of_an_older_version_runs_beside_that_one(checkout: Path) -> None:
    git(checkout, "tag", "v1.3.0")
    subprocess.run([checkout / "deploy/version", "1.2.9"], check=True)
    assert (checkout / "db/culvert_db/migrate.py").read_text() == 'BESIDE = "0002"\n'


def test_a_clone_without_the_tags_of_releases_is_refused(checkout: Path) -> None:
    git(checkout, "tag", "-d", "v1.2.2")
    with pytest.raises(LookupError, match=r"lacks, as v1\.2\.2: git fetch --tags"):
        publish.check("1.2.3", checkout)


def test_a_version_that_is_released_already_is_refused(checkout: Path) -> None:
    git(checkout, "tag", "v1.2.3")
    git(checkout, "commit", "-q", "--allow-empty", "-m", "y")
    subprocess.run([checkout / "deploy/version", "1.2.3"], check=True)
    git(checkout, "commit", "-q", "-a", "-m", "z")
    with pytest.raises(LookupError, match=r"v1\.2\.3 is another commit's tag"):
        publish.check("1.2.3", checkout)


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


def test_what_is_published_has_signed_digests(tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "culvert-client.cdx.json").write_text("{}")
    package = tmp_path / "culvert-client_1_amd64.deb"
    package.write_bytes(b"package")
    folder = tmp_path / "release/1.2.3"
    with Signer.of(None) as signer:
        publish.publish(folder, "notes\n", {package: package.name, documents: "sbom"}, signer)
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
        with agent(home):
            subprocess.run([*gpg, "--quick-generate-key", name, algorithm, "sign", "never"], check=True)
            (tmp_path / f"{name}.key").write_bytes(subprocess.check_output([*gpg, "--export-secret-keys"]))
        with (
            pytest.raises(LookupError, match=r"no OpenPGP key|refuses DSA"),
            Signer.of(tmp_path / f"{name}.key"),
        ):
            pass


def test_the_chart_is_packed_as_helm_reads_it_and_always_the_same(tmp_path: Path) -> None:
    one = publish.pack_chart(tmp_path / "one")
    assert one.read_bytes() == publish.pack_chart(tmp_path / "two").read_bytes()
    with tarfile.open(one) as archive:
        names = archive.getnames()
        described = archive.extractfile("culvert/Chart.yaml")
        assert described is not None
        version = read_version()
        assert f"version: {version}\nappVersion: {version}\n" in described.read().decode()
    assert {"culvert/values.yaml", "culvert/values.schema.json", "culvert/templates/controller.yaml"} < set(
        names
    )
    assert one.name == f"culvert-{version}.tgz"


ASKED = """
import sys
from pathlib import Path
from signing import Signer
with Signer.of(Path(sys.argv[1])) as signer:
    print("asked for")
    signer.sign_beside("text")
    print("signed")
"""


def test_the_passphrase_is_asked_for_once_and_before_the_build(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(0o700)
    gpg = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--pinentry-mode", "loopback"]
    gpg += ["--passphrase", "secret words"]
    with agent(home):
        subprocess.run([*gpg, "--quick-generate-key", "Guarded", "ed25519", "sign", "never"], check=True)
        (tmp_path / "guarded.key").write_bytes(subprocess.check_output([*gpg, "--export-secret-keys"]))
    own, other = pty.openpty()
    settings = os.environ | {"TERM": "xterm", "PYTHONPATH": str(ROOT / "deploy/deb")}
    command = [sys.executable, "-c", ASKED, str(tmp_path / "guarded.key")]
    program = subprocess.Popen(
        command, stdin=other, stdout=other, stderr=other, env=settings, start_new_session=True
    )
    os.close(other)
    shown = b""
    answered = False
    # At the program's end, Linux answers a read with an error.
    with contextlib.suppress(OSError):
        while select.select([own], [], [], 60.0)[0] and (found := os.read(own, 65536)):
            shown += found
            if b"assphrase:" in shown and not answered:
                answered = True
                assert b"asked for" not in shown
                os.write(own, b"secret words\r")
    assert program.wait(60) == 0, shown
    assert shown.count(b"asked for") == shown.count(b"signed") == 1


KILLED = """
import sys, time
from pathlib import Path
from signing import Signer
with Signer.of(None) as signer:
    print(signer.home, flush=True)
    time.sleep(60)
"""


def test_no_agent_outlives_a_program_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED]
    # A folder whose path is too long for a socket's.
    long = tmp_path / ("x" * 108)
    long.mkdir()
    settings = os.environ | {"PYTHONPATH": str(ROOT / "deploy/deb"), "TMPDIR": str(long)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=settings, text=True) as program:
        assert program.stdout is not None
        home = program.stdout.readline().strip()
        find = ["pgrep", "--full", f"gpg-agent --homedir {home}"]
        assert subprocess.run(find, capture_output=True, check=False).returncode == 0
        program.kill()
    end = time.monotonic() + 30
    while subprocess.run(find, capture_output=True, check=False).returncode == 0:
        assert time.monotonic() < end, "it runs on"
        time.sleep(0.5)
    shutil.rmtree(home)
