"""Tells the service manager that started this process of its state (sd_notify(3)). Without a manager it does nothing."""

from __future__ import annotations

import contextlib
import os
import socket


def tell_ready() -> None:
    """A unit of Type=notify is starting until then: units after it wait, and so does `systemctl start`."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    # A socket that is gone belongs to the manager of a parent process, as of the shell of a person.
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager,
    ):
        manager.sendto(b"READY=1", f"\0{address[1:]}" if address[0] == "@" else address)
