"""`make release`: what is published of a version, into build/release/VERSION.

checks ─► packages of each release ─► apt repository ─► SBOMs, notices ─► SHA256SUMS and its signature

publish.py VERSION [--key FILE] [--successor FILE]... [RELEASE]...
Nothing is built before all checks have passed, and the folder is there only when it is whole.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from releases import RELEASES, ROOT, Release, check_this_computer, find_release
from repository import make_repository, pack_repository
from signing import Signer
from stage import PACKAGES

_HERE = Path(__file__).parent
_DEPENDENCIES = ROOT / "deploy/dependencies"
_REPOSITORY = ROOT / "build/repository"
_DOCUMENTS = (ROOT / "build/sbom", ROOT / "build/notices")
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


def check(version: str, root: Path) -> str:
    """The version's section of CHANGELOG.md. Raises LookupError, which says what is to be done first."""
    if not _VERSION.fullmatch(version):
        raise LookupError(f"{version!r} is not a version: three numbers, as in 1.2.3")
    stated = subprocess.run(
        [root / "deploy/version"], cwd=root, capture_output=True, text=True, check=False
    ).stdout.strip()
    if stated != version:
        raise LookupError(f"the manifests state {stated}: deploy/version {version}, and commit")
    command = ["git", "-C", str(root), "status", "--porcelain"]
    if changed := subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        files = ", ".join(it[3:] for it in changed[:5])
        raise LookupError(f"{len(changed)} files differ from the commit, as {files}: commit or remove them")
    return find_section(version, (root / "CHANGELOG.md").read_text())


def find_section(version: str, changelog: str) -> str:
    """Raises LookupError."""
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
    found = re.search(rf"{heading}\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise LookupError(f"CHANGELOG.md has no section of {version}: ## [{version}] - YYYY-MM-DD")
    if not (text := found[1].strip()):
        raise LookupError(f"the section of {version} in CHANGELOG.md is empty")
    return f"{text}\n"


def build(releases: Sequence[Release], signer: Signer) -> list[Path]:
    """The packages. Raises CalledProcessError, LookupError, OSError."""
    shutil.rmtree(PACKAGES, ignore_errors=True)
    _python(_HERE / "release.py", *(it.tag for it in releases))
    switch = _python(_HERE / "sluice.py").splitlines()[-1]
    make_repository(_REPOSITORY, releases, signer)
    pack_repository(_REPOSITORY)
    for program in ("sbom.py", "notices.py"):
        _python(_DEPENDENCIES / program)
    return [*PACKAGES.glob("*.deb"), ROOT / switch]


def publish(folder: Path, notes: str, packages: Sequence[Path], signer: Signer) -> None:
    """Raises CalledProcessError, OSError."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    for old in (unfinished, folder):
        shutil.rmtree(old, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for package in packages:
        shutil.copyfile(package, unfinished / package.name)
    for documents in _DOCUMENTS:
        shutil.copytree(documents, unfinished / documents.name)
    (unfinished / "culvert-archive-keyring.pgp").write_bytes(signer.public)
    (unfinished / "NOTES.md").write_text(notes)
    files = sorted(str(it.relative_to(unfinished)) for it in unfinished.rglob("*") if it.is_file())
    sums = "".join(f"{hashlib.sha256((unfinished / it).read_bytes()).hexdigest()}  {it}\n" for it in files)
    (unfinished / "SHA256SUMS").write_text(sums)
    (unfinished / "SHA256SUMS.asc").write_bytes(signer.sign_beside(sums))
    unfinished.rename(folder)


def _python(*command: object) -> str:
    run = [sys.executable, *map(str, command)]
    return subprocess.run(run, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version")
    parser.add_argument("--key", type=Path)
    parser.add_argument("--successor", type=Path, action="append", default=[])
    parser.add_argument("release", nargs="*")
    chosen = parser.parse_intermixed_args()
    folder = ROOT / "build/release" / chosen.version
    try:
        releases = [find_release(it) for it in chosen.release] or RELEASES
        notes = check(chosen.version, ROOT)
        check_this_computer(releases)
        with Signer.of(chosen.key, chosen.successor) as signer:
            publish(folder, notes, build(releases, signer), signer)
    except (subprocess.CalledProcessError, LookupError, OSError) as error:
        sys.exit(f"there is no release: {error}\n{getattr(error, 'stderr', None) or ''}")
    if signer.is_throwaway:
        print(
            "signed with a throwaway key, for trials alone: KEY=FILE signs with the release's",
            file=sys.stderr,
        )
    print(f"{folder.relative_to(ROOT)}: signed by {signer.fingerprint}")
    print(f"to publish it: git tag --sign v{chosen.version}, and push the tag")


if __name__ == "__main__":
    main()
