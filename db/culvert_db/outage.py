"""The causes of database outages, for all programs that use the database."""

from __future__ import annotations

from asyncpg import InterfaceError, InternalClientError, PostgresError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from culvert_db.tls import UntrustedDatabaseError

READ_ONLY = "25006"
# lock_not_available, and deadlock_detected: Postgres has ended the transaction, which had no effect.
_HELD = frozenset({"55P03", "40P01"})
# SQLSTATEs, and classes of SQLSTATEs, of an outage (Postgres's manual, appendix A): calls may succeed again later without
# a change of the controller's settings. A wrong password or a missing database is not among them.
_AWAY = {
    "08": "the connection broke",
    # Servers never send this code to our driver; poolers send it for unsupported requests.
    "08P01": "a pooler before it refuses",
    READ_ONLY: "it is read-only",
    "25P03": "the transaction was idle for too long",
    "53100": "its disk is full",
    "53200": "it has no memory",
    "53300": "it has too many connections",
    "57P01": "it shuts down",
    "57P02": "it recovers from a crash",
    "57P03": "it starts, shuts down or recovers",
    "58030": "its disk fails",
}

_REMEDIES = {
    READ_ONLY: "a standby takes no writes: name the primary, or all servers as HOST1:5432,HOST2:5432 in the URL; or turn "
    "default_transaction_read_only off",
    "53100": "make room on the database's disk",
}


def sqlstate(error: BaseException | None) -> str:
    """The SQLSTATE of the driver's error, also inside of SQLAlchemy's; empty without one."""
    found = getattr(error, "sqlstate", None) or getattr(getattr(error, "orig", None), "sqlstate", None)
    return str(found or "")


def refusal(error: BaseException | None) -> str | None:
    """The text of the server's error, such as a wrong password; None for other errors."""
    while error is not None:
        if isinstance(error, PostgresError):
            return str(error)
        error = error.__cause__ or getattr(error, "orig", None)
    return None


def is_held(error: BaseException | None) -> bool:
    """Whether the transaction has failed because others held its rows. A repetition may succeed."""
    return sqlstate(error) in _HELD


def why_away(error: BaseException | None) -> str | None:
    """The reason of a database outage, if the error or one of its causes is an outage; otherwise None."""
    while error is not None:
        state = sqlstate(error)
        if why := _AWAY.get(state) or _AWAY.get(state[:2]):
            return why
        if isinstance(error, PoolTimeoutError):
            return "all connections to it are in use"
        # asyncpg raises an InterfaceError that is also a ValueError for an invalid value: no outage.
        if isinstance(error, ConnectionError | InterfaceError | InternalClientError) and not isinstance(
            error, ValueError
        ):
            return "the connection broke"
        error = getattr(error, "orig", None) or error.__cause__
    return None


def remedy(error: BaseException | None) -> str:
    """The remedy of an outage, if there is one alone; otherwise empty."""
    while error is not None:
        if found := _REMEDIES.get(sqlstate(error)):
            return found
        error = getattr(error, "orig", None) or error.__cause__
    return ""


def describe(error: BaseException | None) -> str:
    """The outage, the server's own words, and the remedy; empty for other errors."""
    one = error
    while one is not None:
        # Its text has the remedy, and its cause is a connection that broke.
        if isinstance(one, UntrustedDatabaseError):
            return str(one)
        one = getattr(one, "orig", None) or one.__cause__
    # Without DETAIL and HINT.
    own = (refusal(error) or "").partition("\n")[0]
    words = dict.fromkeys(filter(None, (why_away(error), own)))
    ending = f". Remedy: {found}" if (found := remedy(error)) else ""
    return ": ".join(words) + ending
