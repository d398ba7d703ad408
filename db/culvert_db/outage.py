"""Why a database is away: one list for all programs that use it."""

from __future__ import annotations

from asyncpg import InterfaceError, InternalClientError, PostgresError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

READ_ONLY = "25006"
# SQLSTATEs, and classes of SQLSTATEs, of an outage (Postgres's manual, appendix A): calls may succeed again later without
# a change of the controller's settings. A wrong password or a missing database is not among them.
_AWAY = {
    "08": "the connection broke",
    # A server has no reason to say so to our driver; a pooler says it of whatever it does not do.
    "08P01": "a pooler before it refuses",
    READ_ONLY: "it is read-only",
    "53100": "its disk is full",
    "53200": "it has no memory",
    "53300": "it has too many connections",
    "57P01": "it shuts down",
    "57P02": "it recovers from a crash",
    "57P03": "it starts, shuts down or recovers",
    "58030": "its disk fails",
}


def sqlstate(error: BaseException | None) -> str:
    """The driver's, or SQLAlchemy's around it; empty when there is none."""
    found = getattr(error, "sqlstate", None) or getattr(getattr(error, "orig", None), "sqlstate", None)
    return str(found or "")


def refusal(error: BaseException | None) -> str | None:
    """The server's own answer, such as that the password is wrong; None when the error is another one."""
    while error is not None:
        if isinstance(error, PostgresError):
            return str(error)
        error = error.__cause__ or getattr(error, "orig", None)
    return None


def why_away(error: BaseException | None) -> str | None:
    """The reason of a database outage, if the error or one of its causes is an outage; otherwise None."""
    while error is not None:
        state = sqlstate(error)
        if why := _AWAY.get(state) or _AWAY.get(state[:2]):
            return why
        if isinstance(error, PoolTimeoutError):
            return "all connections to it are in use"
        # asyncpg also raises an InterfaceError (and ValueError) for a value that it refuses.
        if isinstance(error, ConnectionError | InterfaceError | InternalClientError) and not isinstance(
            error, ValueError
        ):
            return "the connection broke"
        error = getattr(error, "orig", None) or error.__cause__
    return None
