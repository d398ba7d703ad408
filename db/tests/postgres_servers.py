"""Servers as operators run them: Debian's Postgres or the embedded one's release, over TCP; standbys, and PgBouncer."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from culvert_db.embedded import binaries
from culvert_lab.free_port import free_port

DEBIAN = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1:]
RELEASES = [*DEBIAN, binaries()]
PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
# These programs refuse to run as root.
_NOBODY = ("unshare", "--user", "--map-user=65534", "--map-group=65534", "--") if os.geteuid() == 0 else ()
_STOP_SECONDS = 30.0


async def _run(*argv: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *_NOBODY, *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, said.decode()


class Server:
    """A cluster in `folder`, on loopback. Its superuser is culvert, without a password."""

    def __init__(self, folder: Path, programs: Path, port: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = port or free_port()
        self._programs = programs
        self._data = folder / "data"
        self._process: asyncio.subprocess.Process | None = None

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://culvert@127.0.0.1:{self.port}/{database}"

    async def make(self, *options: str) -> None:
        initdb = str(self._programs / "initdb")
        await _run(initdb, "-D", str(self._data), "-U", "culvert", "--auth=trust", "-N", *options)

    async def start(self, *settings: str) -> None:
        given = [word for setting in settings for word in ("-c", setting)]
        with (self.folder / "log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *_NOBODY,
                *(str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port)),
                *("-k", str(self.folder), "-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", *given),
                stderr=log,
            )
        async with asyncio.timeout(60):
            while not self._is_ready():
                assert self._process.returncode is None, (self.folder / "log").read_text()
                await asyncio.sleep(0.02)

    def _is_ready(self) -> bool:
        with suppress(FileNotFoundError, IndexError):
            return (self._data / "postmaster.pid").read_text().splitlines()[7].strip() == "ready"
        return False

    async def stop(self) -> None:
        """A fast shutdown: standbys get all that was written."""
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with suppress(FileNotFoundError, IndexError, ValueError):
                # The child of unshare keeps its process's id; a signal to it is the server's own.
                os.kill(int((self._data / "postmaster.pid").read_text().split("\n", 1)[0]), 2)
            async with asyncio.timeout(_STOP_SECONDS):
                await process.wait()

    async def standby(self, folder: Path) -> Server:
        """A copy that follows this server; not started."""
        copy = Server(folder, self._programs)
        await _run(
            *(str(self._programs / "pg_basebackup"), "-D", str(copy._data), "-h", "127.0.0.1"),
            *("-p", str(self.port), "-U", "culvert", "-c", "fast", "-R"),
        )
        return copy

    def follow(self, primary: Server) -> None:
        """From the next start."""
        (self._data / "standby.signal").touch()
        with (self._data / "postgresql.auto.conf").open("a") as settings:
            settings.write(f"primary_conninfo = 'host=127.0.0.1 port={primary.port} user=culvert'\n")

    async def promote(self) -> None:
        await _run(str(self._programs / "pg_ctl"), "promote", "-D", str(self._data), "-w")


@asynccontextmanager
async def pair(folder: Path, programs: Path) -> AsyncGenerator[tuple[Server, Server]]:
    """A primary and its standby. Either may be another's by the end."""
    first = Server(folder / "first", programs)
    await first.make("--encoding=UTF8", "--locale=C")
    await first.start()
    second = await first.standby(folder / "second")
    await second.start()
    try:
        yield first, second
    finally:
        await second.stop()
        await first.stop()


async def switch_over(old: Server, new: Server) -> None:
    """As Patroni does: the old primary stops, and is a standby of the new one when it comes back."""
    await old.stop()
    await new.promote()
    old.follow(new)
    await old.start()


@asynccontextmanager
async def pgbouncer(folder: Path, server: Server, mode: str, **settings: object) -> AsyncGenerator[int]:
    """In front of a server, with its defaults otherwise. Gives its port."""
    assert PGBOUNCER is not None
    port = free_port()
    file = _configured(folder, server, mode, port, settings)
    with (folder / "log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(*_NOBODY, PGBOUNCER, str(file), stdout=log, stderr=log)
    try:
        async with asyncio.timeout(30):
            while not await _listens(port):
                assert process.returncode is None, (folder / "log").read_text()
                await asyncio.sleep(0.02)
        yield port
    finally:
        process.terminate()
        await process.wait()


def _configured(folder: Path, server: Server, mode: str, port: int, settings: Mapping[str, object]) -> Path:
    given: dict[str, object] = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "unix_socket_dir": "",
        "auth_type": "any",
        "pool_mode": mode,
    }
    lines = [
        "[databases]",
        f"* = host=127.0.0.1 port={server.port} user=culvert",
        "[pgbouncer]",
        *(f"{name} = {value}" for name, value in {**given, **settings}.items()),
    ]
    folder.mkdir(exist_ok=True)
    file = folder / "pgbouncer.ini"
    file.write_text("\n".join(lines) + "\n")
    return file


async def _listens(port: int) -> bool:
    with suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        return True
    return False
