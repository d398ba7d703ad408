"""Requirements that a database must meet before anything is written to it. The embedded one meets them by itself."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any, Protocol, cast

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncEngine

_RELEASE = 14
# A notification arrives at once after its commit; the time allows for a busy computer.
_HEARD_SECONDS = 5.0


class UnfitDatabaseError(RuntimeError):
    """The text has the missing requirement and the remedy."""


class _DriverConnection(Protocol):
    """The methods used of asyncpg.Connection, which has no type stubs."""

    def get_server_version(self) -> tuple[int, ...]: ...
    def get_settings(self) -> Any: ...
    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...


async def check(engine: AsyncEngine) -> None:
    """`engine` must be `pooled`, so that it works even if the check fails. Raises UnfitDatabaseError."""
    async with engine.connect() as connection:
        raw = await connection.get_raw_connection()
        driver = cast("_DriverConnection", raw.driver_connection)
        if (release := driver.get_server_version()[0]) < _RELEASE:
            raise UnfitDatabaseError(
                f"Postgres {release} is too old. Remedy: use Postgres {_RELEASE} or newer"
            )
        encoding = driver.get_settings().server_encoding
        if encoding != "UTF8":
            raise UnfitDatabaseError(
                f"its encoding is {encoding}, which cannot hold every name. Remedy: "
                "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
            )
    if not await hears(engine, engine):
        raise UnfitDatabaseError(
            "it leads to a pooler that gives each transaction another session (PgBouncer's pool_mode=transaction), "
            "and LISTEN hears nothing through it. Remedy: name the server itself (beside the pooler, in the "
            "controller's database_direct_url), or set pool_mode=session"
        )


async def hears(listening: AsyncEngine, telling: AsyncEngine) -> bool:
    """Whether a notification of one connection arrives at another."""
    channel, heard = f"culvert_check_{secrets.token_hex(8)}", asyncio.Event()
    async with listening.connect() as there, telling.connect() as here:
        raw = await there.get_raw_connection()
        try:
            driver = cast("_DriverConnection", raw.driver_connection)
            await driver.add_listener(channel, lambda *_: heard.set())
            await here.execute(select(func.pg_notify(channel, "")))
            await here.commit()
            async with asyncio.timeout(_HEARD_SECONDS):
                await heard.wait()
        except TimeoutError:
            return False
        finally:
            # Do not return the connection, which has our listener, to the pool.
            await there.invalidate()
    return True
