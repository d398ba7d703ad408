"""Replaces /etc/resolv.conf, and restores it. The former file is noted on disk before the first change.

NetworkManager, if it runs, is told not to write the file.
"""

from __future__ import annotations

import errno
import json
import logging
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from culvert_proto import CulvertError

from culvert_client import state_file
from culvert_client.platform.linux.system_dns.bus import call, system_bus
from culvert_client.platform.linux.system_dns.choice import (
    MARK,
    NETWORK_MANAGER_NAME,
    SettingsOwner,
    name_servers,
    point_at,
)

_MODE = 0o644
# NetworkManager.conf(5): it still writes its version of the file to /run/NetworkManager.
_LEAVE_ALONE = "# Written by culvertd, which removes it when it stops.\n[main]\nrc-manager=unmanaged\n"
# org.freedesktop.NetworkManager.Reload: read the configuration again, then write resolv.conf by it.
_RELOAD_CONFIGURATION, _RELOAD_RESOLV_CONF = 0x1, 0x2

_log = logging.getLogger("culvertd")


@dataclass(frozen=True, slots=True)
class Before:
    """The former file: a link, a file, or neither."""

    target: str | None = None
    text: str | None = None
    mode: int = _MODE


@dataclass(frozen=True, slots=True)
class Record:
    owner: SettingsOwner
    before: Before


class Records:
    """The note of the changes to undo; it survives a crash and a power cut."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / "dns-before.json"

    def look(self) -> Record | None:
        """Raises CulvertError STATE_UNREADABLE."""
        return state_file.read(self._path, _record)

    def read(self) -> Record | None:
        """None if there is nothing to undo. An unreadable note is renamed, and nothing is undone."""
        try:
            return self.look()
        except CulvertError as error:
            aside = self._path.with_name(f"{self._path.name}.damaged")
            with suppress(OSError):
                self._path.replace(aside)
            self.drop()
            _log.error(
                "%s cannot be read: %s. What resolv.conf said before is not known; the note is kept as %s.",
                error.fields["path"], error.fields["why"], aside,
            )  # fmt: skip
            return None

    def keep(self, record: Record) -> None:
        """Raises CulvertError STATE_UNWRITABLE, STATE_UNREADABLE."""
        stored = {"way": record.owner.value, "before": asdict(record.before)}
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            state_file.write(self._path, json.dumps(stored).encode())
        except OSError as error:
            raise state_file.not_kept(self._path, error) from error

    def drop(self) -> None:
        state_file.remove(self._path)


def _record(content: bytes) -> Record:
    stored = json.loads(content)
    return Record(SettingsOwner(stored["way"]), Before(**stored["before"]))


class ResolvConf:
    def __init__(self, path: Path) -> None:
        self._path = path

    def look(self) -> Before:
        """The present file."""
        if self._path.is_symlink():
            return Before(target=str(self._path.readlink()))
        try:
            return Before(text=_read(self._path), mode=self._path.stat().st_mode & 0o777)
        except FileNotFoundError:
            return Before()

    def text(self, before: Before | None = None) -> str:
        """The file's text, or its former one; behind a link, the present one."""
        try:
            if before is None:
                return _read(self._path)
            if before.target is None:
                return before.text or ""
            return _read(self._path.parent / before.target)
        except OSError:
            return ""

    @property
    def target(self) -> str | None:
        """The link's target, if it is a link."""
        return str(self._path.resolve()) if self._path.is_symlink() else None

    def is_ours(self) -> bool:
        # Empty counts as ours: if the file can only be written in place, a crash may have left it empty.
        return not self._path.is_symlink() and (not (text := self.text()) or text.startswith(MARK))

    def is_foreign(self) -> bool:
        """Whether another program has replaced our file by a complete one."""
        return not self.is_ours() and bool(name_servers(self.text()))

    def point_at(self, stub: str, before: Before) -> None:
        _put(self._path, point_at(stub, self.text(before)), _MODE)

    def put_back(self, before: Before) -> None:
        """Restore the former file, unless another program has written it since."""
        fresh = _fresh(self._path)
        fresh.unlink(missing_ok=True)
        if not self.is_ours():
            return
        if before.target is not None:
            fresh.symlink_to(before.target)
            fresh.replace(self._path)
        elif before.text is not None:
            _put(self._path, before.text, before.mode)
        else:
            self._path.unlink(missing_ok=True)


def _fresh(path: Path) -> Path:
    return path.with_name(f".{path.name}.culvert")


def _read(path: Path) -> str:
    return path.read_text(errors="surrogateescape")


def _put(path: Path, text: str, mode: int) -> None:
    """Write the file atomically, also over a power cut; a file that is a mount point is written in place."""
    fresh = _fresh(path)
    fresh.unlink(missing_ok=True)
    _write(fresh, text, mode, os.O_EXCL)
    try:
        fresh.replace(path)
        state_file.sync_directory(path.parent)
    except OSError as error:
        fresh.unlink()
        if error.errno != errno.EBUSY:
            raise
        _write(path, text, mode, os.O_TRUNC)


def _write(path: Path, text: str, mode: int, flag: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | flag, mode)
    with os.fdopen(descriptor, "w", errors="surrogateescape") as file:
        os.fchmod(descriptor, mode)
        file.write(text)
        file.flush()
        os.fsync(descriptor)


def silence_network_manager(run: Path) -> None:
    """Tell NetworkManager not to write resolv.conf, by a file in /run, which disappears at a restart of the computer."""
    file = _network_manager_file(run)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_LEAVE_ALONE)


def is_network_manager_silent(run: Path) -> bool:
    """Whether NetworkManager is still told not to write resolv.conf."""
    return _network_manager_file(run).exists()


def release_network_manager(run: Path) -> None:
    _network_manager_file(run).unlink(missing_ok=True)


async def reload_network_manager() -> None:
    """Raises OSError."""
    async with system_bus() as bus:
        for flag in (_RELOAD_CONFIGURATION, _RELOAD_RESOLV_CONF):
            path = "/org/freedesktop/NetworkManager"
            await call(bus, NETWORK_MANAGER_NAME, path, NETWORK_MANAGER_NAME, "Reload", "u", [flag])


def network_manager_sources(run: Path) -> list[Path]:
    """The file that NetworkManager would write, without and with its own cache."""
    return [run / "NetworkManager/no-stub-resolv.conf", run / "NetworkManager/resolv.conf"]


def _network_manager_file(run: Path) -> Path:
    return run / "NetworkManager/conf.d/culvert.conf"
