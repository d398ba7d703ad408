"""`make release`: what is published of a version, into build/release/VERSION.

checks ─► packages of each release ─► apt repository ─► SBOMs, notices ─► images, chart ─► SHA256SUMS and its signature

publish.py VERSION [--key FILE] [--successor FILE]... [RELEASE]...
Nothing is built before all checks have passed, and the folder is there only when it is whole. Images are made of the
packages for Debian 12: a trial for other releases has none.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from releases import DEBIAN_12, RELEASES, ROOT, Release, check_this_computer, find_release
from repository import make_repository, pack_repository
from reproducible import read_commit_time
from signing import Signer, add_options, signing
from stage import PACKAGES

_HERE = Path(__file__).parent
_DEPENDENCIES = ROOT / "deploy/dependencies"
_REPOSITORY = ROOT / "build/repository"
_IMAGES = ROOT / "build/images"
_CHART = ROOT / "deploy/helm/culvert"
_NUMBERS = r"(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)\.(?:0|[1-9]\d*)"
_SECTION = re.compile(rf"^## \[({_NUMBERS})\]", re.MULTILINE)


def check(version: str, root: Path) -> str:
    """The version's section of CHANGELOG.md. Raises LookupError, which says what is to be done first."""
    if not re.fullmatch(_NUMBERS, version):
        raise LookupError(f"{version!r} is not a version: three numbers, as in 1.2.3")
    asked = subprocess.run([root / "deploy/version"], cwd=root, capture_output=True, text=True, check=False)
    stated = asked.stdout.strip() or asked.stderr.strip()
    if asked.returncode or stated != version:
        raise LookupError(f"the manifests state {stated}: deploy/version {version}, and commit")
    command = ["git", "-C", str(root), "status", "--porcelain"]
    if changed := subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines():
        files = ", ".join(it[3:] for it in changed[:5])
        raise LookupError(f"{len(changed)} files differ from the commit, as {files}: commit or remove them")
    changelog = (root / "CHANGELOG.md").read_text()
    section = find_section(version, changelog)
    _check_tags(version, [it for it in _SECTION.findall(changelog) if it != version], root)
    return section


def _check_tags(version: str, before: Sequence[str], root: Path) -> None:
    """Without the tags of the releases before, deploy/version cannot judge BESIDE. Raises LookupError."""

    def git(*arguments: str) -> list[str]:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()

    tags = git("tag", "--list")
    if missing := [f"v{it}" for it in before if f"v{it}" not in tags]:
        raise LookupError(
            f"CHANGELOG.md names releases whose tags this clone lacks, as {missing[0]}: git fetch --tags"
        )
    if f"v{version}" in tags and git("rev-parse", f"v{version}^{{commit}}") != git("rev-parse", "HEAD"):
        raise LookupError(f"v{version} is another commit's tag: a version is released once")


def find_section(version: str, changelog: str) -> str:
    """Raises LookupError."""
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
    found = re.search(rf"{heading}\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise LookupError(f"CHANGELOG.md has no section of {version}: ## [{version}] - YYYY-MM-DD")
    if not (text := found[1].strip()):
        raise LookupError(f"the section of {version} in CHANGELOG.md is empty")
    return f"{text}\n"


def build(releases: Sequence[Release], signer: Signer) -> dict[Path, str]:
    """Files and folders, and their places in the release. Raises CalledProcessError, LookupError, OSError."""
    shutil.rmtree(PACKAGES, ignore_errors=True)
    _python(_HERE / "release.py", *(it.tag for it in releases))
    switch = ROOT / _python(_HERE / "sluice.py").splitlines()[-1]
    make_repository(_REPOSITORY, releases, signer)
    pack_repository(_REPOSITORY)
    for program in ("sbom.py", "notices.py"):
        _python(_DEPENDENCIES / program)
    chart = pack_chart(ROOT / "build/helm")
    built = {it: it.name for it in (*PACKAGES.glob("*.deb"), switch, chart)}
    built |= {ROOT / "build" / it: it for it in ("sbom", "notices")}
    if DEBIAN_12 in releases:
        archives = _IMAGES / "archives"
        shutil.rmtree(archives, ignore_errors=True)
        _python(ROOT / "deploy/images/build.py", "--archives", archives)
        built[archives] = "images"
    return built


def pack_chart(folder: Path) -> Path:
    """The chart as `helm package` names it, the same for each build of a commit. Raises CalledProcessError, OSError."""
    [version] = re.findall(r"^version: (\S+)$", (_CHART / "Chart.yaml").read_text(), re.MULTILINE)
    when = read_commit_time()

    def settle(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime, member.mode = when, 0o644
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for file in sorted(it for it in _CHART.rglob("*") if it.is_file()):
            archive.add(file, f"{_CHART.name}/{file.relative_to(_CHART)}", filter=settle)
    folder.mkdir(parents=True, exist_ok=True)
    package = folder / f"{_CHART.name}-{version}.tgz"
    package.write_bytes(gzip.compress(packed.getvalue(), mtime=when))
    return package


def publish(folder: Path, notes: str, built: Mapping[Path, str], signer: Signer) -> None:
    """`built`: files and folders, and their places. Raises CalledProcessError, OSError."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    for old in (unfinished, folder):
        shutil.rmtree(old, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for source, place in built.items():
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        copy(source, unfinished / place)
    (unfinished / "culvert-archive-keyring.pgp").write_bytes(signer.public)
    (unfinished / "NOTES.md").write_text(notes)
    files = sorted(str(it.relative_to(unfinished)) for it in unfinished.rglob("*") if it.is_file())
    sums = "".join(f"{hashlib.sha256((unfinished / it).read_bytes()).hexdigest()}  {it}\n" for it in files)
    (unfinished / "SHA256SUMS").write_text(sums)
    (unfinished / "SHA256SUMS.asc").write_bytes(signer.sign_beside(sums))
    unfinished.rename(folder)


def _python(*command: object) -> str:
    run = [sys.executable, *map(str, command)]
    own = {"PYTHONPATH": f"{_HERE}:{_DEPENDENCIES}"}
    return subprocess.run(
        run, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | own
    ).stdout


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("version")
    add_options(parser)
    parser.add_argument("release", nargs="*")
    chosen = parser.parse_intermixed_args()
    folder = ROOT / "build/release" / chosen.version
    with signing(chosen, "there is no release") as signer:
        releases = [find_release(it) for it in chosen.release] or RELEASES
        notes = check(chosen.version, ROOT)
        check_this_computer(releases)
        publish(folder, notes, build(releases, signer), signer)
    print(f"{folder.relative_to(ROOT)}: signed by {signer.fingerprint}")
    print(f"to publish it: git tag --sign v{chosen.version}, and push the tag")


if __name__ == "__main__":
    main()
