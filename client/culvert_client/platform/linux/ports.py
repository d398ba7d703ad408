"""Finds the program with a local port (proc(5): /proc/net lists sockets by inode, /proc/PID/fd shows their processes)."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from culvert_proto.phrases import Phrase

_TABLES = ("udp", "udp6", "tcp", "tcp6")
# The states of a listening TCP socket and of a bound, unconnected UDP socket (net/tcp_states.h).
_STATES = ("0A", "07")


def holder_of(port: int, proc: Path = Path("/proc")) -> Phrase | None:
    """As Ports."""
    sockets = {f"socket:[{inode}]" for table in _TABLES for inode in _inodes(proc / "net" / table, port)}
    for process in proc.glob("[0-9]*"):
        with suppress(OSError):
            if any(str(it.readlink()) in sockets for it in (process / "fd").iterdir()):
                name = (process / "comm").read_text().strip()
                return Phrase("{name} (process {number})", name=name, number=process.name)
    return None


def _inodes(table: Path, port: int) -> list[str]:
    with suppress(OSError):
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
        return [row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] in _STATES]
    return []
