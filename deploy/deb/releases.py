"""The releases that packages are built for, and a root of each as debootstrap makes it.

A package is bound to its release by Python's version and by the names of the libraries that it is linked with. So what
depends on those runs in the release's own root; all else runs on the computer that builds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOTS = ROOT / "build/roots"
_KEYRINGS = "usr/share/keyrings"
_UBUNTU_KEYRING = "ubuntu-archive-keyring.gpg"
_PATH = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
# Qt and GTK load these. From Debian 13 on, some have another name.
_LIBRARIES = (
    *("libdbus-1-3", "libegl1", "libfontconfig1", "libgl1", "libxkbcommon-x11-0", "libxcb-cursor0"),
    *("libxcb-icccm4", "libxcb-image0", "libxcb-keysyms1", "libxcb-randr0", "libxcb-render-util0"),
    *("libxcb-shape0", "libxcb-xinerama0", "libxcb-xkb1"),
)
_TIME_64 = ("libcups2t64", "libglib2.0-0t64", "libgtk-3-0t64")


@dataclass(frozen=True, slots=True)
class Release:
    """`tag` ends the version of a package. `glibc`: the newest that programs for it may be linked with."""

    tag: str
    title: str
    codename: str
    python: str
    glibc: tuple[int, int]
    libraries: tuple[str, ...] = _TIME_64
    mirror: str = "http://deb.debian.org/debian"
    components: str = "main"
    # Debian's script for all of Ubuntu's releases.
    script: str = ""

    @property
    def build_packages(self) -> tuple[str, ...]:
        return ("python3", "dpkg-dev", *_LIBRARIES, *self.libraries)


DEBIAN_12 = Release(
    "deb12", "Debian 12", "bookworm", "3.11", (2, 36), ("libcups2", "libglib2.0-0", "libgtk-3-0")
)
DEBIAN_13 = Release("deb13", "Debian 13", "trixie", "3.13", (2, 41))
UBUNTU_24_04 = Release(
    *("ubuntu24.04", "Ubuntu 24.04", "noble", "3.12", (2, 39)),
    mirror="http://archive.ubuntu.com/ubuntu",
    components="main,universe",
    script="gutsy",
)
RELEASES = (DEBIAN_12, DEBIAN_13, UBUNTU_24_04)


def find_release(tag: str) -> Release:
    """Raises LookupError."""
    for release in RELEASES:
        if release.tag == tag:
            return release
    raise LookupError(f"there is no release {tag}: {', '.join(it.tag for it in RELEASES)}")


def make_root(release: Release, purpose: str, packages: Sequence[str]) -> Path:
    """The release with these packages, kept for the next time. Raises CalledProcessError. Needs root."""
    root = ROOTS / f"{release.codename}-{purpose}"
    made = root.with_name(f"{root.name}.made")
    if made.exists() and made.read_text() == " ".join(packages):
        return root
    base = _make_base(release)
    made.unlink(missing_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    _run("cp", "-a", str(base), str(root))
    # No daemon is started on this computer.
    refusal = root / "usr/sbin/policy-rc.d"
    refusal.write_text("#!/bin/sh\nexit 101\n")
    refusal.chmod(0o755)
    install = f"apt-get update -q; apt-get install -y -q --no-install-recommends {' '.join(packages)}; apt-get clean"
    enter = ("env", "-i", _PATH, "DEBIAN_FRONTEND=noninteractive", "chroot", str(root))
    _run(*enter, "sh", "-ec", install)
    refusal.unlink()
    made.write_text(" ".join(packages))
    return root


def _make_base(release: Release) -> Path:
    base = ROOTS / release.codename
    made = base.with_name(f"{base.name}.made")
    if made.exists():
        return base
    ROOTS.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(base, ignore_errors=True)
    command = ["debootstrap", "--variant=minbase", f"--components={release.components}"]
    if release.script:
        command.append(f"--keyring={_find_ubuntu_keyring()}")
    _run(*command, release.codename, str(base), release.mirror, *filter(None, [release.script]))
    made.touch()
    return base


def _run(*command: str) -> None:
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise subprocess.CalledProcessError(
            ended.returncode, command, stderr=ended.stdout[-2000:] + ended.stderr
        )


def _find_ubuntu_keyring() -> Path:
    """This computer's, or that of Debian 13, whose signature vouches for it."""
    own = Path("/") / _KEYRINGS / _UBUNTU_KEYRING
    if own.exists():
        return own
    return make_root(DEBIAN_13, "keyring", ["ubuntu-archive-keyring"]) / _KEYRINGS / _UBUNTU_KEYRING


def run_inside(root: Path, folder: Path, *command: str) -> str:
    """The command's output. It runs in the folder, of which the root sees nothing but /mnt. Raises CalledProcessError."""
    script = 'mount --bind "$1" "$2/mnt"; inside=$2; shift 2; '
    script += f'exec env -i {_PATH} LANG=C.UTF-8 chroot "$inside" sh -ec \'cd /mnt; exec "$@"\' sh "$@"'
    enter = ["unshare", "--mount", "sh", "-ec", script, "sh", str(folder), str(root)]
    return subprocess.run([*enter, *command], check=True, capture_output=True, text=True).stdout


def check_this_computer(releases: Sequence[Release]) -> None:
    """Raises LookupError where programs that are linked here would not start on one of the releases."""
    stated = (os.confstr("CS_GNU_LIBC_VERSION") or "").rpartition(" ")[2]
    own = tuple(int(it) for it in stated.split("."))
    if older := [it.tag for it in releases if it.glibc < own]:
        raise LookupError(
            f"this computer's glibc {stated} is newer than that of {', '.join(older)}: build on Debian 12"
        )
