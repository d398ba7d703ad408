"""Set-up's changes of the host. Each takes itself back when a later step fails.

state directory ─► settings ─► drop-in, database URL ─► systemd ─► healthy
       └──────────────┴──────────────┴────────────────────┴── a failure: all of it is taken back, last first
"""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from culvert_service import private_files
from culvert_service.config import ConfigurationError

CONTROLLER, DNS_UPDATER = "culvert-controller.service", "culvert-dns-updater.service"
_USER = "culvert-controller"
_SYSTEMCTL_SECONDS = 120.0
_ENDING_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Places:
    """The files of a controller. `root` is / but in trials: there the files keep their maker, and no unit starts."""

    root: Path = Path("/")

    @property
    def is_trial(self) -> bool:
        return self.root != Path("/")

    @property
    def etc(self) -> Path:
        return self.root / "etc/culvert"

    @property
    def settings(self) -> Path:
        return self.etc / "controller.toml"

    @property
    def database_url(self) -> Path:
        return self.etc / "secrets" / "culvert_database_url"

    @property
    def drop_in(self) -> Path:
        return self.root / "etc/systemd/system/culvert-controller.service.d/setup.conf"

    @property
    def state(self) -> Path:
        return self.root / "var/lib/culvert-controller"

    @property
    def service_user(self) -> tuple[int, int] | None:
        """User and group of the controller; none in a trial. Raises ConfigurationError."""
        if self.is_trial:
            return None
        try:
            return pwd.getpwnam(_USER).pw_uid, grp.getgrnam(_USER).gr_gid
        except KeyError:
            raise ConfigurationError(
                f"there is no user {_USER}. Remedy: install the package culvert-controller, or run systemd-sysusers"
            ) from None


class Changes:
    """`with Changes() as changes`: an exception takes all changes back."""

    def __init__(self) -> None:
        self._undo = ExitStack()

    def __enter__(self) -> Changes:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._undo.pop_all()
        else:
            self._undo.close()

    def undo_by(self, take_back: Callable[[], object]) -> None:
        self._undo.callback(take_back)

    def make_directory(self, path: Path, mode: int, owner: tuple[int, int] | None = None) -> None:
        """A directory, with those above it that are missing."""
        if path.is_dir():
            return
        self.make_directory(path.parent, 0o755)
        path.mkdir(mode)
        self.undo_by(lambda: _remove_empty(path))
        path.chmod(mode)
        if owner is not None:
            os.chown(path, *owner)

    def keep_content(self, directory: Path) -> None:
        """Files that are made in this directory from now on are removed again."""
        before = set(directory.iterdir())

        def restore() -> None:
            for entry in directory.iterdir():
                if entry not in before:
                    _remove(entry)

        self.undo_by(restore)

    def write(self, path: Path, content: str, mode: int, owner: tuple[int, int] | None = None) -> None:
        """Replace a file at once. Raises OSError."""
        before = path.read_bytes() if path.exists() else None
        status = path.stat() if before is not None else None

        def restore() -> None:
            if before is None or status is None:
                path.unlink(missing_ok=True)
            else:
                _replace(path, before, status.st_mode & 0o7777, (status.st_uid, status.st_gid))

        self.undo_by(restore)
        _replace(path, content.encode(), mode, owner)

    def remove(self, path: Path) -> None:
        if not path.exists():
            return
        before, status = path.read_bytes(), path.stat()
        owner = status.st_uid, status.st_gid
        self.undo_by(lambda: _replace(path, before, status.st_mode & 0o7777, owner))
        path.unlink()

    def start(self) -> None:
        """Enable and start both units. Raises ConfigurationError with systemd's words."""
        enabled = {unit: _asks("is-enabled", unit) for unit in (CONTROLLER, DNS_UPDATER)}
        active = {unit: _asks("is-active", unit) for unit in (CONTROLLER, DNS_UPDATER)}

        def stop() -> None:
            for unit in (DNS_UPDATER, CONTROLLER):
                with suppress(ConfigurationError):
                    if not active[unit]:
                        systemctl("stop", unit)
                with suppress(ConfigurationError):
                    if not enabled[unit]:
                        systemctl("disable", unit)

        self.undo_by(stop)
        systemctl("daemon-reload")
        systemctl("enable", CONTROLLER, DNS_UPDATER)
        start_anew()

    def restart_when_taken_back(self) -> None:
        """For the settings that are changed from now on: the units start again with those from before."""

        def again() -> None:
            with suppress(ConfigurationError):
                systemctl("daemon-reload")
                systemctl("restart", CONTROLLER, DNS_UPDATER)

        self.undo_by(again)

    def reload_units(self) -> None:
        """systemd reads the drop-ins anew, also once they are gone."""

        def reload() -> None:
            with suppress(ConfigurationError):
                systemctl("daemon-reload")

        self.undo_by(reload)


def start_anew() -> None:
    """Stop both units, and have them started without a wait for the start. Raises ConfigurationError."""
    systemctl("stop", DNS_UPDATER, CONTROLLER)
    systemctl("start", "--no-block", CONTROLLER, DNS_UPDATER)


def inactive() -> str:
    """A unit that is not active yet, with its state; empty if both are."""
    for unit in (CONTROLLER, DNS_UPDATER):
        if (state := _shown("systemctl", "is-active", unit).strip()) != "active":
            return f"{unit} is {state}"
    return ""


def systemctl(*arguments: str) -> None:
    """Raises ConfigurationError with systemd's words."""
    try:
        done = subprocess.run(
            ["systemctl", *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SYSTEMCTL_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise ConfigurationError(
            "systemctl is not there. Remedy: --no-start, and run culvert-controller serve and culvert-dns-updater run "
            "under your own supervisor"
        ) from None
    except subprocess.TimeoutExpired:
        raise ConfigurationError(
            f"systemctl {arguments[0]} did not end in {_SYSTEMCTL_SECONDS:.0f} s"
        ) from None
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split()) or f"exit code {done.returncode}"
        raise ConfigurationError(f"systemctl {' '.join(arguments)}: {said}")


def ended(unit: str) -> str:
    """The end of the log of a unit that has failed or starts again and again; empty while it runs."""
    shown = _shown("systemctl", "show", "--property=ActiveState,NRestarts", unit)
    values = {name: value for name, _, value in (line.partition("=") for line in shown.splitlines())}
    if values.get("ActiveState") != "failed" and int(values.get("NRestarts") or 0) < 2:
        return ""
    said = _shown("journalctl", "--no-pager", "-o", "cat", "-n", "20", "-u", unit).splitlines()
    lines = [line for line in said if "ulvert" in line or "rror" in line]
    return "\n".join(lines[-3:]) or "it has ended"


def _shown(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout


def _asks(*arguments: str) -> bool:
    try:
        systemctl(*arguments)
    except ConfigurationError:
        return False
    return True


def _replace(path: Path, content: bytes, mode: int, owner: tuple[int, int] | None) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    fresh = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            if owner is not None:
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        fresh.replace(path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    private_files.sync_directory(path.parent)


def _remove(path: Path) -> None:
    """Raises OSError. A Postgres that is about to end may still write to its directory."""
    if not path.is_dir() or path.is_symlink():
        path.unlink(missing_ok=True)
        return
    deadline = time.monotonic() + _ENDING_SECONDS
    while path.exists():
        try:
            shutil.rmtree(path)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def _remove_empty(path: Path) -> None:
    with suppress(OSError):
        path.rmdir()
