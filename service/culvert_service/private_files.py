"""Files that hold secrets: mode 0600, complete or absent, never half written."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

# Bytes: more than a bundle's certificates and keys.
_ROOM = 1 << 16


def write(path: Path, data: bytes) -> None:
    """Replaces the file."""
    fresh = _fresh(path, data)
    fresh.replace(path)
    sync_directory(path.parent)


def check_writable(directory: Path) -> None:
    """Whether files can be made there, before something is made that is shown once; makes the directory.

    Raises OSError.
    """
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    _fresh(directory / "room", b"\0" * _ROOM).unlink()


def write_all(directory: Path, files: Mapping[str, bytes]) -> None:
    """Replaces each; the directory is made where it is not there."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, data in files.items():
        write(directory / name, data)


def read_or_make(path: Path, make: Callable[[], bytes]) -> bytes:
    """The file's content; made at the first time. Of two makers at once, one wins and both return its bytes."""
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


def _fresh(path: Path, data: bytes) -> Path:
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        # On a full disk what is half written would stay.
        fresh.unlink(missing_ok=True)
        raise
    return fresh


def sync_directory(directory: Path) -> None:
    """A new file survives a power failure only when its directory is on the disk, too (fsync(2)). Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
