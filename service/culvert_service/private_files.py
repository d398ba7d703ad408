"""Files that hold secrets: mode 0600, complete or absent, never half written."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

# Free bytes to check for: more than a bundle's certificates and keys.
_ROOM = 1 << 16
_REMEDIES = {
    errno.ENOENT: "make this directory first, or name another one",
    errno.ENOTDIR: "name a directory; this, or what it stands in, is a file",
    errno.EEXIST: "name a directory; this is a file",
    errno.EACCES: "name a directory that this user may write to, or run this as its owner",
    errno.EROFS: "name a directory of a file system that can be written to",
    errno.ENOSPC: "make room there, or name a directory elsewhere",
    errno.EDQUOT: "make room there, or name a directory elsewhere",
}


@contextmanager
def name_directory_in_errors(directory: Path) -> Generator[None]:
    """A context whose OSErrors name the directory instead of a temporary file in it, and the remedy."""
    try:
        yield
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0)
        words = f"{error.strerror}. Remedy: {remedy}" if remedy else error.strerror
        raise OSError(error.errno, words, str(directory)) from error


def write(path: Path, data: bytes) -> None:
    """Replaces the file."""
    fresh = _fresh(path, data)
    fresh.replace(path)
    sync_directory(path.parent)


def check_writable(directory: Path) -> None:
    """Check that files can be written, before a secret is created that is shown only once. Creates the directory.

    Raises OSError.
    """
    _make(directory)
    _fresh(directory / "room", b"\0" * _ROOM).unlink()


def write_all(directory: Path, files: Mapping[str, bytes]) -> None:
    """Replace each file; the directory is created if missing."""
    _make(directory)
    for name, data in files.items():
        write(directory / name, data)


def read_or_make(path: Path, make: Callable[[], bytes]) -> bytes:
    """The file's content, created at first use. Two concurrent calls return the same content."""
    if not path.exists():
        fresh = _fresh(path, make())
        try:
            os.link(fresh, path)
            sync_directory(path.parent)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_bytes()


def _make(directory: Path) -> None:
    with name_directory_in_errors(directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def _fresh(path: Path, data: bytes) -> Path:
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with name_directory_in_errors(path.parent):
        try:
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            # Delete the incomplete file, for example on a full disk.
            with suppress(OSError):
                fresh.unlink(missing_ok=True)
            raise
    return fresh


def sync_directory(directory: Path) -> None:
    """Sync the directory: without this a new file may be lost in a power failure (fsync(2)). Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
