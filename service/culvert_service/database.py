"""The controller's database and its clock. What is wrong with a database that is away is told here, and nowhere else.

making a connection fails ──► again, for as long as the outage is young ──┐
a connection breaks ─────────────────────────────────────────────────────┤
the server takes no connection, or no writes ────────────────────────────┴─► DatabaseDownError, DATABASE_DOWN
"""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import culvert_db
from asyncpg import InterfaceError, InternalClientError
from culvert_db import Direct, Sessions
from culvert_proto import CulvertError, Reason
from sqlalchemy import Dialect, event, func, select
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession
from sqlalchemy.util import await_only

from culvert_service.tracing import statements

# Appendix A of Postgres's manual: SQLSTATEs, and classes of them, that pass by themselves or with the administrator's help.
# A wrong password, or a database that is not there, does not.
_AWAY = {
    "08": "the connection broke",
    "25006": "it is read-only",
    "53100": "its disk is full",
    "53200": "it has no memory",
    "53300": "it has too many connections",
    "57P01": "it shuts down",
    "57P02": "it recovers from a crash",
    "57P03": "it starts, shuts down or recovers",
    "58030": "its disk fails",
}
# A supervised Postgres serves again within it. What lasts longer is told at once, so that calls do not pile up.
PATIENCE_SECONDS = 3.0
_AGAIN_SECONDS = 0.1
# The server's end breaks the connection; the next one is waited for where it is made.
_REPEATS = 2

_Result = TypeVar("_Result")


class DatabaseDownError(CulvertError, SQLAlchemyError):
    """DATABASE_DOWN. A commit that it broke off may have been done."""

    def __init__(self) -> None:
        super().__init__(Reason.DATABASE_DOWN)


def why_away(error: BaseException | None) -> str | None:
    """What is wrong with the database, if the error, or what caused it, says that it is not there just now."""
    while error is not None:
        sqlstate = str(getattr(error, "sqlstate", None) or "")
        if why := _AWAY.get(sqlstate) or _AWAY.get(sqlstate[:2]):
            return why
        if isinstance(error, PoolTimeoutError):
            return "all connections to it are in use"
        # asyncpg's own words about a value are an InterfaceError, too.
        if isinstance(error, ConnectionError | InterfaceError | InternalClientError) and not isinstance(
            error, ValueError
        ):
            return "the connection broke"
        error = getattr(error, "orig", None) or error.__cause__
    return None


def connect(database_url: str, *, pool_size: int = 10) -> AsyncEngine:
    """As `culvert_db.create_engine`, with DatabaseDownError for what is nobody's fault here."""
    engine = culvert_db.create_engine(database_url, pool_size=pool_size)
    event.listen(engine.sync_engine, "do_connect", _Connecting())
    event.listen(engine.sync_engine, "handle_error", _broken, retval=True)
    return engine


@asynccontextmanager
async def direct(sessions: Sessions) -> AsyncGenerator[Direct]:
    """As `culvert_db.direct`, with the same."""
    try:
        async with culvert_db.direct(sessions) as transaction:
            if statements.within_an_operation():
                transaction.driver = statements.TracedDriver(transaction.driver)
            try:
                yield transaction
            except Exception as error:
                # A server that has become read-only keeps its connections: the next one may lead to the primary.
                if not isinstance(error, CulvertError) and why_away(error) is not None:
                    transaction.driver.terminate()
                raise
    except CulvertError:
        raise
    except Exception as error:
        if why_away(error) is None:
            raise
        raise DatabaseDownError from error


async def repeated(call: Callable[[], Awaitable[_Result]]) -> _Result:
    """Of a call that may be made twice: made again when a connection broke under it. Raises DatabaseDownError at last."""
    for _ in range(_REPEATS):
        try:
            return await call()
        except DatabaseDownError:
            await asyncio.sleep(_AGAIN_SECONDS)
    return await call()


class _Connecting:
    """Makes connections. Nothing has been asked yet, so that waiting for a server that starts repeats nothing."""

    def __init__(self) -> None:
        self._away_since: float | None = None

    def __call__(self, dialect: Dialect, _record: object, args: Any, options: Any) -> Any:
        while True:
            try:
                connection = dialect.connect(*args, **options)
            except Exception as error:
                # A socket that is not there, a refused connection, an address that has no route.
                if why_away(error) is None and not isinstance(error, OSError):
                    raise
                now = time.monotonic()
                self._away_since = self._away_since or now
                if now - self._away_since > PATIENCE_SECONDS:
                    raise DatabaseDownError from error
                await_only(asyncio.sleep(_AGAIN_SECONDS))
            else:
                self._away_since = None
                return connection


def _broken(context: ExceptionContext) -> BaseException | None:
    error = context.original_exception
    if context.is_disconnect:
        return DatabaseDownError()
    if why_away(error) is None:
        return None
    # Whoever else has one of its connections is told the same soon.
    context.is_disconnect = True
    return DatabaseDownError()


async def clock(session: AsyncSession) -> datetime.datetime:
    """The database's: what SAs' ages are told by. A controller's clock may jump."""
    return (await session.execute(select(func.now()))).scalar_one()
