"""The signed apt repository for laptops and gateways, and the package culvert-repository that has it for a controller.

culvert-client, -tray, -gateway of each release ─┐         dists/CODENAME   InRelease, Packages, by-hash
culvert-archive-keyring, made here ──────────────┼───────► pool             packages
Signer ──────────────────────────────────────────┘         repository.json  read by the controller

repository.py [--key FILE] [--successor FILE]... [RELEASE]...     from build/packages into build/repository, build/packages
"""

from __future__ import annotations

import argparse
import hashlib
import json
import lzma
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from pathlib import Path

from releases import RELEASES, ROOT, Release, find_release
from reproducible import pack, read_commit_time
from signing import Signer, add_options, signing
from stage import FILES, PACKAGES, count_commits, read_version

_REPOSITORY = ROOT / "build/repository"
CLIENTS = ("culvert-client", "culvert-tray")
_SERVED = (*CLIENTS, "culvert-gateway")
_NAME = "culvert-repository"
_KEYRING = "culvert-archive-keyring"
_KEYRING_FILE = f"{_KEYRING}.pgp"
_WORK = ROOT / "build/deb/all"


def make_repository(folder: Path, releases: Sequence[Release], signer: Signer) -> None:
    """Raises CalledProcessError, LookupError, OSError."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "pool").mkdir(parents=True)
    (folder / _KEYRING_FILE).write_bytes(signer.public)
    keyring = _make_package(
        _KEYRING, folder / "pool", {f"usr/share/keyrings/{_KEYRING_FILE}": folder / _KEYRING_FILE}
    )
    architecture = _output("dpkg", "--print-architecture")
    for release in releases:
        served = [find_package(name, release) for name in _SERVED]
        for package in served:
            shutil.copyfile(package, folder / "pool" / package.name)
        packages = "\n".join(_describe(it) for it in [*served, keyring])
        _write_release(folder / "dists" / release.codename, release, architecture, packages, signer)
    about = {
        "version": _version(),
        "date": read_commit_time(),
        "architecture": architecture,
        "fingerprint": signer.fingerprint,
        "systems": {it.codename: it.title for it in releases},
        "gateway": True,
    }
    (folder / "repository.json").write_text(json.dumps(about, indent=1) + "\n")


def pack_repository(folder: Path) -> Path:
    """The path of culvert-repository. Raises CalledProcessError, OSError."""
    files = {f"usr/share/{_NAME}/{it.relative_to(folder)}": it for it in folder.rglob("*") if it.is_file()}
    for old in PACKAGES.glob(f"{_NAME}_*.deb"):
        old.unlink()
    return _make_package(_NAME, PACKAGES, files)


def find_package(name: str, release: Release) -> Path:
    """The package that `make deb` has built. Raises LookupError."""
    found = list(PACKAGES.glob(f"{name}_*~{release.tag}_*.deb"))
    if len(found) != 1:
        raise LookupError(
            f"build/packages has {len(found)} packages {name} for {release.tag}: make deb first"
        )
    return found[0]


def _describe(package: Path) -> str:
    content = package.read_bytes()
    return (
        f"{_output('dpkg-deb', '--field', str(package))}\n"
        f"Filename: pool/{package.name}\n"
        f"Size: {len(content)}\n"
        f"SHA256: {hashlib.sha256(content).hexdigest()}\n"
    )


def _write_release(folder: Path, release: Release, architecture: str, packages: str, signer: Signer) -> None:
    """Without Valid-Until: a controller that is not upgraded for years goes on serving (decision 71)."""
    place = f"main/binary-{architecture}"
    by_hash = folder / place / "by-hash/SHA256"
    by_hash.mkdir(parents=True)
    listed: list[str] = []
    for name, content in (
        ("Packages", packages.encode()),
        ("Packages.xz", lzma.compress(packages.encode())),
    ):
        digest = hashlib.sha256(content).hexdigest()
        (folder / place / name).write_bytes(content)
        (by_hash / digest).write_bytes(content)
        listed.append(f" {digest} {len(content)} {place}/{name}\n")
    text = (
        "Origin: Culvert\n"
        "Label: Culvert\n"
        f"Suite: {release.codename}\n"
        f"Codename: {release.codename}\n"
        f"Version: {read_version()}\n"
        f"Date: {formatdate(read_commit_time(), usegmt=True)}\n"
        "Acquire-By-Hash: yes\n"
        f"Architectures: {architecture}\n"
        "Components: main\n"
        f"Description: Culvert's client and gateway for {release.title}\n"
        f"SHA256:\n{''.join(listed)}"
    )
    (folder / "Release").write_text(text)
    (folder / "Release.gpg").write_bytes(signer.sign_beside(text))
    (folder / "InRelease").write_bytes(signer.sign_inside(text))


def _version() -> str:
    return f"{read_version()}+{count_commits()}"


def _make_package(name: str, target: Path, files: Mapping[str, Path]) -> Path:
    """A package for every release, in the folder `target`. `files`: by their places."""
    sources = FILES / name.removeprefix("culvert-")
    folder = _WORK / name
    shutil.rmtree(folder, ignore_errors=True)
    for place, source in {**files, f"usr/share/doc/{name}/copyright": sources / "copyright"}.items():
        copy = folder / place
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
    size = sum(it.stat().st_size for it in folder.rglob("*") if it.is_file())
    fields = {"version": _version(), "installed": str(size // 1024 + 1)}
    (folder / "DEBIAN").mkdir()
    control = re.sub(r"@(\w+)@", lambda found: fields[found[1]], (sources / "control").read_text())
    (folder / "DEBIAN/control").write_text(control)
    for entry in folder.rglob("*"):
        entry.chmod(0o755 if entry.is_dir() else 0o644)
    package = target / f"{name}_{_version()}_all.deb"
    pack(folder, package)
    return package


def _output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.rstrip("\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_options(parser)
    parser.add_argument("release", nargs="*")
    chosen = parser.parse_intermixed_args()
    with signing(chosen, "the repository was not made") as signer:
        make_repository(_REPOSITORY, [find_release(it) for it in chosen.release] or RELEASES, signer)
        package = pack_repository(_REPOSITORY)
    print(package.relative_to(ROOT))


if __name__ == "__main__":
    main()
