"""A file of the state directory: atomic over a power cut, with a checksum, a format version and a second copy.

 culvert-state 1 <SHA-256 of the content, hex>\\n<content>

A file without that first line and without a copy is an earlier version's, and consists only of content. The copy is
written after the file, so that one of them is intact at any moment. An unreadable file never counts as missing.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from culvert_proto import CulvertError, Reason
from culvert_proto.phrases import Phrase

_MAGIC = b"culvert-state "
_FORMAT = 1
_COPY = ".copy"
# Our tunable, in bytes: an identity, a profile and their copies.
_ROOM = 1 << 17

Value = TypeVar("Value")

_log = logging.getLogger("culvertd")


def copy_of(path: Path) -> Path:
    return path.with_name(path.name + _COPY)


def read(path: Path, parse: Callable[[bytes], Value]) -> Value | None:
    """The value of the file, or else of its copy. None if both are missing.

    `parse` raises ValueError for invalid content. Raises CulvertError STATE_UNREADABLE, which names the file.
    """
    faults: list[CulvertError] = []
    for candidate in (path, copy_of(path)):
        try:
            value = parse(
                _content(candidate, may_be_older=candidate == path and not os.path.lexists(copy_of(path)))
            )
        except FileNotFoundError:
            if candidate.is_symlink():
                faults.append(unreadable(candidate, Phrase("it is a link that leads nowhere")))
        except OSError as error:
            faults.append(unreadable(candidate, why_unread(error)))
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            # Without the content, which may be secret.
            why = str(error) if isinstance(error, NewerError) else Phrase("it is damaged")
            faults.append(unreadable(candidate, why))
        else:
            for fault in faults:
                _log.warning(
                    "%s cannot be read: %s. Its copy is used.", fault.fields["path"], fault.fields["why"]
                )
            return value
    if faults:
        raise faults[0]
    return None


def unreadable(path: Path, why: str) -> CulvertError:
    return CulvertError(Reason.STATE_UNREADABLE, path=str(path), why=why)


@contextmanager
def room(directory: Path) -> Generator[None]:
    """A context that reserves disk space for an identity, for acts that cannot be repeated and whose result is stored.

    Raises CulvertError STATE_UNWRITABLE for an OSError, also of the block.
    """
    reserve = directory / ".reserve"
    try:
        reserve.unlink(missing_ok=True)
        try:
            write_private(reserve, bytes(_ROOM), durable=True)
            yield
        finally:
            reserve.unlink(missing_ok=True)
    except OSError as error:
        raise not_kept(directory, error) from error


def not_kept(path: Path, error: OSError | CulvertError) -> CulvertError:
    """The error of `write` with the file's name."""
    if isinstance(error, CulvertError):
        return error
    return CulvertError(Reason.STATE_UNWRITABLE, path=str(path), why=Phrase(error.strerror or str(error)))


def why(error: OSError) -> str:
    """As "/etc/resolv.conf: Operation not permitted"."""
    path = error.filename2 or error.filename
    if not path or not error.strerror:
        return str(error)
    return Phrase("{path}: {why}", path=path, why=Phrase(error.strerror))


def why_unread(error: OSError) -> Phrase:
    return Phrase(error.strerror) if error.strerror else Phrase("it cannot be read")


class NewerError(ValueError):
    """Another version's format, which this version cannot read."""


def _content(path: Path, *, may_be_older: bool) -> bytes:
    stored = path.read_bytes()
    if not stored.startswith(_MAGIC):
        if may_be_older:
            return stored
        raise ValueError
    head, newline, content = stored.partition(b"\n")
    version, _, digest = head.removeprefix(_MAGIC).partition(b" ")
    if version.isdigit() and int(version) > _FORMAT:
        raise NewerError(Phrase("a newer version wrote it"))
    if not newline or hashlib.sha256(content).hexdigest().encode() != digest:
        raise ValueError
    return content


def write(path: Path, content: bytes, *, durable: bool = True) -> None:
    """Write the file and its copy, each atomically; unless `durable`, a power cut may lose the last write.

    Raises OSError, and CulvertError for a newer version's file.
    """
    for target in (path, copy_of(path)):
        try:
            _content(target, may_be_older=True)
        except NewerError as error:
            raise unreadable(target, str(error)) from None
        except (OSError, ValueError):
            pass
    head = _MAGIC + f"{_FORMAT} {hashlib.sha256(content).hexdigest()}\n".encode()
    for target in (path, copy_of(path)):
        fresh = target.with_name(f".{target.name}.new")
        fresh.unlink(missing_ok=True)
        write_private(fresh, head + content, durable=durable)
        fresh.replace(target)
        if durable:
            sync_directory(target.parent)


def remove(path: Path) -> None:
    copy_of(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_private(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Create a file with mode 0600; `durable`: it survives a power cut."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        if durable:
            file.flush()
            os.fsync(file.fileno())
