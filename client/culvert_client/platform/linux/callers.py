"""The caller's uid (unix(7), SO_PEERCRED), and a lock (flock(2))."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from pathlib import Path

# struct ucred of linux/socket.h: pid, uid, gid.
_UCRED = struct.Struct("iII")


def uid_of(connection: socket.socket) -> int:
    """As LocalCallers."""
    _, uid, _ = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
    return uid


def lock(directory: Path) -> int | None:
    """As LocalCallers."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
