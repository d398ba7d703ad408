"""The controller's database and its clock. One that is away is a CulvertError, whoever asks it."""

from __future__ import annotations

import datetime
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import culvert_db
from asyncpg import InterfaceError, InternalClientError, PostgresConnectionError, TooManyConnectionsError
from asyncpg.exceptions import OperatorInterventionError
from culvert_db import Direct, Sessions
from culvert_proto import CulvertError, Reason
from sqlalchemy import Dialect, event, func, select
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession

from culvert_service.tracing import statements

# What passes by itself: a wrong password or a database that is not there does not.
_PASSING = (
    OSError,
    TimeoutError,
    PostgresConnectionError,
    OperatorInterventionError,
    TooManyConnectionsError,
)
# Appendix A of Postgres's manual: it says so before it ends the connection.
_SHUTDOWN = "57P"


class DatabaseDownError(CulvertError, SQLAlchemyError):
    """DATABASE_DOWN, when a connection cannot be made or breaks. A commit that it broke off may have been done."""

    def __init__(self) -> None:
        super().__init__(Reason.DATABASE_DOWN)


def connect(database_url: str, *, pool_size: int = 10) -> AsyncEngine:
    """As `culvert_db.create_engine`, with DatabaseDownError for what is nobody's fault here."""
    engine = culvert_db.create_engine(database_url, pool_size=pool_size)
    event.listen(engine.sync_engine, "do_connect", _connect)
    event.listen(engine.sync_engine, "handle_error", _broken, retval=True)
    return engine


@asynccontextmanager
async def direct(sessions: Sessions) -> AsyncGenerator[Direct]:
    """As `culvert_db.direct`, with the same."""
    try:
        async with culvert_db.direct(sessions) as transaction:
            if statements.within_an_operation():
                transaction.driver = statements.TracedDriver(transaction.driver)
            yield transaction
    except (PostgresConnectionError, OperatorInterventionError, InterfaceError, InternalClientError) as error:
        raise DatabaseDownError from error


def _connect(dialect: Dialect, _record: object, args: Any, options: Any) -> Any:
    try:
        return dialect.connect(*args, **options)
    except _PASSING as error:
        raise DatabaseDownError from error


def _broken(context: ExceptionContext) -> BaseException | None:
    if str(getattr(context.original_exception, "sqlstate", "")).startswith(_SHUTDOWN):
        context.is_disconnect = True
    return DatabaseDownError() if context.is_disconnect else None


async def clock(session: AsyncSession) -> datetime.datetime:
    """The database's: what SAs' ages are told by. A controller's clock may jump."""
    return (await session.execute(select(func.now()))).scalar_one()
