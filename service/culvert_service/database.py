"""The controller's database. Outages become DatabaseDownError here, and rows that others hold DatabaseBusyError.

making a connection fails ──► again, for PATIENCE_SECONDS of the outage ──┐
a connection breaks ─────────────────────────────────────────────────────┤
the server takes no connection, or no writes ────────────────────────────┼─► DatabaseDownError, DATABASE_DOWN
the server does not answer a call that a person waits for ───────────────┘
another transaction holds a row, or two hold each other's ──────────────────► DatabaseBusyError, DATABASE_BUSY
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import culvert_db
from culvert_db import Database, Direct, SilentServerError, is_held, why_away
from culvert_proto import CulvertError, Reason
from sqlalchemy import Dialect, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.util import await_only

from culvert_service.tracing import statements

# A supervised Postgres restarts within this time. In a longer outage calls fail at once, so that they do not pile up.
PATIENCE_SECONDS = 3.0
_AGAIN_SECONDS = 0.1
# A single repetition is for the connection that broke with the server; _Connecting waits for the new connection.
_REPEATS = 2
# A person waits this long for a row before the refusal: longer than Postgres keeps the transaction of a controller that is
# stopped (culvert_db.transaction), and shorter than a device waits for the answer (10 s).
HELD_SECONDS = 5.5

_Result = TypeVar("_Result")


class DatabaseDownError(CulvertError, SQLAlchemyError):
    """DATABASE_DOWN. After this error in a commit, the commit may or may not have happened. `silent`: the server is
    connected and does not answer, so a repetition would wait as long again."""

    def __init__(self, *, silent: bool = False) -> None:
        super().__init__(Reason.DATABASE_DOWN)
        self.silent = silent


class DatabaseBusyError(CulvertError, SQLAlchemyError):
    """DATABASE_BUSY. The transaction had no effect."""

    def __init__(self) -> None:
        super().__init__(Reason.DATABASE_BUSY)


def connect(database_url: str, *, pool_size: int = 10, pooled: bool = False) -> AsyncEngine:
    """As `culvert_db.create_engine`, but raises DatabaseDownError and DatabaseBusyError."""
    engine = culvert_db.create_engine(database_url, pool_size=pool_size, pooled=pooled)
    event.listen(engine.sync_engine, "do_connect", _Connecting())
    event.listen(engine.sync_engine, "handle_error", _to_down_error, retval=True)
    return engine


@asynccontextmanager
async def direct(database: Database) -> AsyncGenerator[Direct]:
    """As `culvert_db.direct`, but raises DatabaseDownError and DatabaseBusyError."""
    try:
        async with culvert_db.direct(database) as transaction:
            if statements.within_an_operation():
                transaction.driver = statements.TracedDriver(transaction.driver)
            try:
                yield transaction
            except Exception as error:
                # A primary that became a standby keeps its connections. A new connection may lead to the new primary.
                if not isinstance(error, CulvertError) and why_away(error) is not None:
                    transaction.driver.terminate()
                raise
    except CulvertError:
        raise
    except Exception as error:
        if is_held(error):
            raise DatabaseBusyError from error
        if why_away(error) is None:
            raise
        raise DatabaseDownError(silent=isinstance(error, SilentServerError)) from error


async def repeat(call: Callable[[], Awaitable[_Result]]) -> _Result:
    """Make a call that is safe to repeat, and repeat it after DatabaseDownError and DatabaseBusyError. Raises the last."""
    began, repeats = time.monotonic(), 0
    while True:
        try:
            return await call()
        except DatabaseDownError as error:
            repeats += 1
            if error.silent or repeats > _REPEATS:
                raise
        except DatabaseBusyError:
            if time.monotonic() - began > HELD_SECONDS:
                raise
        await asyncio.sleep(_AGAIN_SECONDS)


class _Connecting:
    """Makes connections, and waits for a server that starts. No statement has been sent yet, so none is repeated."""

    def __init__(self) -> None:
        self._away_since: float | None = None

    def __call__(self, dialect: Dialect, _record: object, args: Any, options: Any) -> Any:
        while True:
            began = time.monotonic()
            try:
                connection = dialect.connect(*args, **options)
            except Exception as error:
                # An OSError is a missing socket, a refused connection or an address without a route.
                if why_away(error) is None and not isinstance(error, OSError):
                    raise
                self._away_since = self._away_since or began
                if time.monotonic() - self._away_since > PATIENCE_SECONDS:
                    raise DatabaseDownError(silent=isinstance(error, TimeoutError)) from error
                await_only(asyncio.sleep(_AGAIN_SECONDS))
            else:
                self._away_since = None
                return connection


def _to_down_error(context: ExceptionContext) -> BaseException | None:
    error = context.original_exception
    if is_held(error):
        return DatabaseBusyError()
    if not isinstance(error, Exception):
        # SQLAlchemy gives up the connection of a cancelled statement, too. As an outage, the cancellation would be caught,
        # and the cancelled call would be repeated.
        return None
    if context.is_disconnect:
        return DatabaseDownError()
    if why_away(error) is None:
        return None
    # The pool then drops all its connections, which lead to the same server.
    context.is_disconnect = True
    return DatabaseDownError()
