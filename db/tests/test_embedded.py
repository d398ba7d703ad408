"""The embedded Postgres serves again by itself after its processes or its owner were killed."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from culvert_db import embedded
from culvert_db.embedded import EmbeddedPostgres
from culvert_db.start_failure import Cause, PostgresFailedError, failure

# asyncpg has no type stubs.
asyncpg: Any = importlib.import_module("asyncpg")

slow = pytest.mark.slow

_OWNER = """
import asyncio, sys
from pathlib import Path
from culvert_db.embedded import EmbeddedPostgres
async def main():
    await EmbeddedPostgres(Path(sys.argv[1])).start()
    print("ready", flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""


@asynccontextmanager
async def owned_elsewhere(directory: Path) -> AsyncGenerator[asyncio.subprocess.Process]:
    """A process that has started the server of a directory."""
    owner = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _OWNER, str(directory), stdout=asyncio.subprocess.PIPE
    )
    assert owner.stdout is not None
    assert await owner.stdout.readline()
    try:
        yield owner
    finally:
        with suppress(ProcessLookupError):
            owner.kill()
        await owner.wait()


async def connected(directory: Path, seconds: float = 20.0) -> Any:
    """A connection, as soon as the server accepts connections."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return await asyncpg.connect(host=str(directory), user="culvert", database="postgres")
        except (OSError, asyncpg.PostgresError, asyncpg.InternalClientError):
            assert time.monotonic() < deadline, (directory / "log").read_text()
            await asyncio.sleep(0.05)


async def keep_a_row(directory: Path) -> Any:
    connection = await connected(directory)
    await connection.execute("CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)")
    return connection


async def kept(directory: Path) -> bool:
    connection = await connected(directory)
    try:
        return await connection.fetchval("SELECT n FROM kept") == 7
    finally:
        await connection.close()


def postmaster(directory: Path) -> int:
    return int((directory / "data/postmaster.pid").read_text().split("\n", 1)[0])


def runs(pid: int) -> bool:
    """Whether the process runs a program. A zombie does not: in a container nothing may reap orphans."""
    return os.path.exists(f"/proc/{pid}/exe")  # noqa: PTH110


@slow
async def test_a_killed_owner_takes_its_server_along_and_loses_nothing_committed(tmp_path: Path) -> None:
    directory = tmp_path / "pg"
    async with owned_elsewhere(directory) as owner:
        await keep_a_row(directory)
        server = postmaster(directory)
        owner.kill()
        await owner.wait()
        async with EmbeddedPostgres(directory):
            assert await kept(directory)
        assert not runs(server)


@slow
@pytest.mark.parametrize("pause", [0.005, 0.05, 0.2])
async def test_the_owner_dies_while_the_server_recovers_from_a_crash(tmp_path: Path, pause: float) -> None:
    """The server gets its fast shutdown while it recovers."""
    directory = tmp_path / "pg"
    async with owned_elsewhere(directory) as owner:
        connection = await keep_a_row(directory)
        os.kill(connection.get_server_pid(), signal.SIGKILL)
        await asyncio.sleep(pause)
        owner.kill()
        await owner.wait()
        async with EmbeddedPostgres(directory):
            assert await kept(directory)


@slow
async def test_a_hung_server_is_ended_after_its_owner(tmp_path: Path) -> None:
    directory = tmp_path / "pg"
    async with owned_elsewhere(directory) as owner:
        await keep_a_row(directory)
        server = postmaster(directory)
        os.kill(server, signal.SIGSTOP)
        owner.kill()
        await owner.wait()
        async with EmbeddedPostgres(directory):
            assert await kept(directory)
        assert not runs(server)


@slow
async def test_a_server_that_is_killed_is_started_again_each_time(tmp_path: Path) -> None:
    directory = tmp_path / "pg"
    async with EmbeddedPostgres(directory):
        await keep_a_row(directory)
        for _ in range(3):
            os.kill(postmaster(directory), signal.SIGKILL)
            assert await kept(directory)


@slow
async def test_the_next_server_waits_for_a_killed_servers_last_process(tmp_path: Path) -> None:
    directory = tmp_path / "pg"
    async with EmbeddedPostgres(directory):
        connection = await keep_a_row(directory)
        backend = connection.get_server_pid()
        os.kill(backend, signal.SIGSTOP)
        os.kill(postmaster(directory), signal.SIGKILL)
        assert await kept(directory)
        assert not runs(backend)


@slow
async def test_the_servers_log_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    most = 10_000
    monkeypatch.setattr(embedded, "_LOG_MAX", most)
    monkeypatch.setattr(embedded, "_LOG_LOOK_SECONDS", 0.01)
    directory = tmp_path / "pg"
    log, earlier = directory / "log", directory / "log.1"
    async with EmbeddedPostgres(directory):
        connection = await connected(directory)

        async def bounded() -> None:
            while log.stat().st_size > most:  # noqa: ASYNC110  there is no event to wait for
                await asyncio.sleep(0.01)

        async def write(line: str) -> None:
            with suppress(asyncpg.UndefinedTableError):
                await connection.execute(f'TABLE "{line}"')

        async with asyncio.timeout(60):
            number = 0
            while not earlier.exists() or number < 5 * most // 100:
                number += 1
                await write(f"{number:090}")
            await bounded()
            await write("the newest line")
            await bounded()
        assert "the newest line" in earlier.read_text() + log.read_text()
        assert earlier.stat().st_size <= 2 * most
        await connection.close()


@slow
async def test_a_stopped_server_stays_stopped(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "pg")
    await server.start()
    os.kill(postmaster(tmp_path / "pg"), signal.SIGKILL)
    await server.stop()
    await asyncio.sleep(0.5)
    assert not server.serves


@slow
async def test_a_lock_file_that_names_another_program_is_no_server(tmp_path: Path) -> None:
    """After a restart of the computer, the id may belong to any program, to another cluster's postmaster or to a thread."""
    directory, other = tmp_path / "pg", tmp_path / "other"
    async with EmbeddedPostgres(directory):
        await keep_a_row(directory)
        lock = (directory / "data/postmaster.pid").read_text()
    async with EmbeddedPostgres(other):
        thread = await asyncio.to_thread(threading.get_native_id)
        assert thread != os.getpid()
        for named in (os.getpid(), thread, postmaster(other), "", "x\0"):
            for file in ("data/postmaster.pid", ".s.PGSQL.5432.lock"):
                (directory / file).write_text(f"{named}\n{lock.split(chr(10), 1)[1]}")
            server = EmbeddedPostgres(directory)
            assert not server.serves
            async with server:
                assert await kept(directory)
        await (await connected(other, 0.0)).close()


@slow
async def test_a_server_has_one_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_OWNER_SECONDS", 0.2)
    directory = tmp_path / "pg"
    async with EmbeddedPostgres(directory):
        connection = await connected(directory)
        await refused(directory, Cause.IN_USE)
        assert await connection.fetchval("SELECT 1") == 1
    async with EmbeddedPostgres(directory):
        pass


async def refused(directory: Path, cause: Cause) -> None:
    with pytest.raises(PostgresFailedError) as failed:
        await EmbeddedPostgres(directory).start()
    assert failed.value.cause is cause, failed.value
    # The text is complete, and its places are filled.
    assert str(failed.value).endswith(".")
    assert "{" not in str(failed.value)


def _without_control_file(data: Path) -> None:
    (data / "global/pg_control").unlink()


def _with_a_broken_control_file(data: Path) -> None:
    (data / "global/pg_control").write_bytes(bytes(8192))


def _without_its_log(data: Path) -> None:
    for segment in (data / "pg_wal").glob("0*"):
        segment.unlink()


def _without_version(data: Path) -> None:
    (data / "PG_VERSION").unlink()


def _of_another_release(data: Path) -> None:
    (data / "PG_VERSION").write_text("17\n")


def _open_to_all(data: Path) -> None:
    data.chmod(0o777)


@slow
@pytest.mark.parametrize(
    ("harm", "cause"),
    [
        (_without_control_file, Cause.DAMAGED),
        (_with_a_broken_control_file, Cause.DAMAGED),
        (_without_its_log, Cause.DAMAGED),
        (_without_version, Cause.DAMAGED),
        (_of_another_release, Cause.OTHER_RELEASE),
        (_open_to_all, Cause.PERMISSIONS),
    ],
)
async def test_unusable_files_of_a_cluster_are_reported_with_a_remedy(
    tmp_path: Path, harm: Callable[[Path], None], cause: Cause
) -> None:
    async with EmbeddedPostgres(tmp_path / "pg"):
        pass
    harm(tmp_path / "pg/data")
    await refused(tmp_path / "pg", cause)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 120 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=120m", "culvert-test", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def fill(disk: Path) -> Path:
    ballast = disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as out:
        while True:
            out.write(bytes(1 << 16))
    return ballast


@slow
async def test_a_server_whose_disk_was_full_writes_again_once_there_is_room(small_disk: Path) -> None:
    """Without room for its write-ahead log, Postgres stops, and fails at each start."""
    directory = small_disk / "pg"
    async with EmbeddedPostgres(directory):
        await keep_a_row(directory)
        ballast = fill(small_disk)
        for _ in range(3):
            with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InternalClientError)):
                await write_much(directory, 60_000_000)
        os.kill(postmaster(directory), signal.SIGKILL)
        ballast.unlink()
        assert await kept(directory)
        await write_much(directory, 1_000_000)


async def write_much(directory: Path, size: int) -> None:
    connection = await connected(directory)
    try:
        await connection.execute("CREATE TABLE IF NOT EXISTS much (text text)")
        filler = "INSERT INTO much SELECT md5(n::text) FROM generate_series(1, $1::int) AS n"
        await connection.execute(filler, size // 32)
    finally:
        connection.terminate()


@slow
async def test_a_cluster_is_not_made_on_a_full_disk(small_disk: Path) -> None:
    ballast = fill(small_disk)
    await refused(small_disk / "pg", Cause.DISK_FULL)
    ballast.unlink()
    async with EmbeddedPostgres(small_disk / "pg"):
        pass


@slow
async def test_a_path_too_long_for_a_socket_is_refused_in_words(tmp_path: Path) -> None:
    await refused(tmp_path / ("x" * 100), Cause.PATH_TOO_LONG)


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("PANIC:  could not write to file: No space left on device\nLOG:  shutting down", Cause.DISK_FULL),
        ('FATAL:  could not open file "global/pg_filenode.map": Permission denied', Cause.PERMISSIONS),
        ("FATAL:  could not map anonymous shared memory: Cannot allocate memory", Cause.MEMORY),
        ("PANIC:  could not locate a valid checkpoint record at 0/16ED450", Cause.DAMAGED),
        ("FATAL:  something new\nLOG:  database system is shut down", Cause.UNKNOWN),
        ("", Cause.UNKNOWN),
    ],
)
def test_the_servers_last_words_name_a_cause(said: str, cause: Cause) -> None:
    found = failure(said, Path("/var/lib/culvert/postgres/data"))
    assert found.cause is cause
    assert "something new" in str(found) or cause is not Cause.UNKNOWN or not said
