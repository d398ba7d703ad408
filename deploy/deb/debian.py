"""A clean Debian or Ubuntu made by debootstrap, booted with its own systemd in namespaces of its own.

with Debian(release) as debian:                 what is written is gone afterwards
    debian.prepare(...)                         before it runs: with this machine's network
    debian.boot()                               or, in a network that is there: debian.boot("/run/netns/NAME")
    debian.run("systemctl", "status")           inside: no other network but its own loopback
    debian.switch_off()                         what is written stays for the next boot
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from releases import RELEASES, ROOT, Release, find_release, make_root

# `make test-deb RELEASES=deb12` tries one.
TESTED = [find_release(it) for it in os.environ.get("CULVERT_RELEASES", "").split()] or RELEASES
INSTALL = ("apt-get", "install", "-y", "-q", "--no-install-recommends", "--allow-downgrades")

_BOOT = Path(__file__).with_name("boot")
_BOOT_SECONDS, _OFF_SECONDS = 30.0, 90.0
# The last two are on every desktop, and know which program a link is for.
_PACKAGES = ("systemd-sysv", "dbus", "iproute2", "sudo", "wget", "libglib2.0-bin", "desktop-file-utils")
_PATH = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
# Files that change by themselves: logs, caches, package lists, and files that systemd writes at each start.
_RESTLESS = (
    *("proc", "sys", "dev", "run", "tmp", "var/tmp", "var/log", "var/cache", "var/lib/apt", "var/lib/dpkg"),
    *("var/lib/systemd", "etc/machine-id", "etc/.updated", "var/.updated", "root"),
    # The lists of users before their last change.
    *("etc/passwd-", "etc/group-", "etc/shadow-", "etc/gshadow-", "etc/subuid-", "etc/subgid-"),
)


class Debian:
    """Raises CalledProcessError where a step fails. Needs root, debootstrap, overlayfs and cgroup2."""

    def __init__(self, release: Release, root: Path | None = None) -> None:
        """`root`: a release with more packages, from `make_root_for`."""
        self._lower = root or make_root(release, "test", _PACKAGES)
        self._work = Path(tempfile.mkdtemp(prefix="run-", dir=self._lower.parent))
        self._runs: subprocess.Popen[bytes] | None = None
        self._init = 0

    def __enter__(self) -> Debian:
        for name in ("upper", "work", "merged"):
            (self._work / name).mkdir()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.switch_off(cleanly=False)
        shutil.rmtree(self._work)

    def prepare(self, script: str, *files: Path) -> str:
        """Run a shell script in it before it is booted; the files lie in its /srv. Returns its output."""
        mount = f"lowerdir={self._lower},upperdir={self._work}/upper,workdir={self._work}/work"
        merged = self._work / "merged"
        whole = f'set -e; mount -t overlay overlay -o "{mount}" "{merged}"; '
        whole += f'mount -t proc proc "{merged}/proc"; mount --rbind /dev "{merged}/dev"; '
        whole += f'{"".join(f"cp {it} {merged}/srv/; " for it in files)} exec chroot "{merged}" sh -ec "$1"'
        return _run("unshare", "--mount", "env", "-i", _PATH, "sh", "-c", whole, "sh", script)

    def switch_off(self, *, cleanly: bool = True) -> None:
        """Shut it down, or take its power away. A namespace that was given to `boot` stays as it is."""
        if self._runs is None:
            return
        if cleanly:
            self.run("systemctl", "--no-block", "poweroff")
            self._runs.wait(_OFF_SECONDS)
        else:
            os.kill(self._init or self._runs.pid, signal.SIGKILL)
            self._runs.wait(10)
        self._runs, self._init = None, 0
        own = Path((self._work / "cgroups").read_text().strip())
        for group in sorted((it for it in own.rglob("*") if it.is_dir()), reverse=True):
            group.rmdir()
        own.rmdir()

    def boot(self, network: str = "") -> None:
        """`network`: the path of a network namespace; without it, one of its own."""
        with (self._work / "boot.log").open("ab") as log:
            self._runs = subprocess.Popen(
                # It ends also with a run of tests that is killed.
                ["setpriv", "--pdeathsig", "KILL", _BOOT, str(self._lower), str(self._work), network],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _BOOT_SECONDS
        children = Path(f"/proc/{self._runs.pid}/task/{self._runs.pid}/children")
        while True:
            if found := children.read_text().split():
                self._init = int(found[0])
                if self.run("systemctl", "is-system-running", check=False) in ("running", "degraded"):
                    return
            assert time.monotonic() < deadline, (self._work / "boot.log").read_text()
            time.sleep(0.2)

    @property
    def place(self) -> Path:
        """Its file system, while it runs."""
        return Path(f"/proc/{self._init}/root")

    def command(self, *command: str) -> list[str]:
        """A command of this computer that runs another one inside."""
        enter = ("nsenter", f"--target={self._init}", *["-m", "-n", "-p", "-u", "-i", "-C", "-r", "-w"])
        return [*enter, "env", "-i", _PATH, "LANG=C.UTF-8", "TERM=xterm", "HOME=/root", *command]

    def run(self, *command: str, check: bool = True) -> str:
        """The command's output, stripped."""
        return _run(*self.command("env", "DEBIAN_FRONTEND=noninteractive", *command), check=check)

    def measure_exposure(self, unit: str) -> float:
        """systemd's level for it, from 0 to 10; 10 is no protection at all."""
        said = self.run("systemd-analyze", "security", "--no-pager", unit)
        exposure = re.search(r"Overall exposure level for .*: ([0-9.]+)", said)
        assert exposure is not None, said
        return float(exposure[1])

    def files(self) -> dict[str, str]:
        """Each file, link and directory, and what it is: as it would show that something was left behind."""
        root = self.place
        found: dict[str, str] = {}
        ahead = [root]
        while ahead:
            for entry in ahead.pop().iterdir():
                name = str(entry.relative_to(root))
                if name in _RESTLESS:
                    continue
                mode = f"{entry.lstat().st_mode:o}"
                if entry.is_symlink():
                    found[name] = f"link {entry.readlink()}"
                elif entry.is_dir():
                    found[name] = f"directory {mode}"
                    ahead.append(entry)
                elif entry.is_file():
                    found[name] = f"file {mode} {hashlib.sha256(entry.read_bytes()).hexdigest()}"
        return found


def find_package(name: str, release: Release) -> Path:
    """The package that `make deb` has built."""
    found = list((ROOT / "build/packages").glob(f"{name}_*~{release.tag}_*.deb"))
    assert len(found) == 1, f"make deb builds {name} for {release.tag}: {found}"
    return found[0]


def satisfy(packages: Iterable[Path]) -> str:
    """A script that installs what the packages need of the release, which is no trace of the packages."""
    others = ", ".join(_find_needed(packages, "Depends"))
    return f"apt-get update -q; apt-get satisfy -y -q --no-install-recommends '{others}'; apt-get clean"


def make_root_for(release: Release, purpose: str, packages: Iterable[Path], others: Sequence[str]) -> Path:
    """The release with what `apt install` of the packages would take of it, and others; kept for the next time."""
    found = _find_needed(packages, "Depends", "Recommends")
    # A version says nothing here: a release has one of each.
    needed = {it.partition("|")[0].partition("(")[0].strip() for it in found}
    return make_root(release, purpose, sorted({*_PACKAGES, *others, *needed}))


def _find_needed(packages: Iterable[Path], *fields: str) -> list[str]:
    said = [
        subprocess.check_output(["dpkg-deb", "--field", package, field], text=True)
        for package in packages
        for field in fields
    ]
    named = [it.strip() for each in said for it in each.split(",")]
    return [it for it in named if it and not it.startswith("culvert-")]


def find_difference(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str | None]:
    """Compare two results of Debian.files(): each entry that differs, as it is afterwards."""
    return {it: after.get(it) for it in before.keys() | after.keys() if after.get(it) != before.get(it)}


def _run(*command: str, check: bool = True) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert not check or ended.returncode == 0, f"{command}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout.strip()
