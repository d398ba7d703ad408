"""The causes of database outages, for all programs that use the database."""

from __future__ import annotations

from collections.abc import Iterator

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


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, the driver's inside of SQLAlchemy's, and the errors that led to it."""
    while error is not None:
        yield error
        error = getattr(error, "orig", None) or error.__cause__


def sqlstate(error: BaseException | None) -> str:
    """The SQLSTATE of the driver's error, also inside of SQLAlchemy's; empty without one."""
    found = getattr(error, "sqlstate", None) or getattr(getattr(error, "orig", None), "sqlstate", None)
    return str(found or "")


def refusal(error: BaseException | None) -> str | None:
    """The text of the server's error, such as a wrong password; None for other errors."""
    return next((str(it) for it in _causes(error) if isinstance(it, PostgresError)), None)


def is_held(error: BaseException | None) -> bool:
    """Whether the transaction has failed because others held its rows. A repetition may succeed."""
    return sqlstate(error) in _HELD


def why_away(error: BaseException | None) -> str | None:
    """The reason of a database outage, if the error or one of its causes is an outage; otherwise None."""
    for one in _causes(error):
        state = sqlstate(one)
        if why := _AWAY.get(state) or _AWAY.get(state[:2]):
            return why
        if isinstance(one, PoolTimeoutError):
            return "all connections to it are in use"
        # asyncpg raises an InterfaceError that is also a ValueError for an invalid value: no outage.
        if isinstance(one, ConnectionError | InterfaceError | InternalClientError) and not isinstance(
            one, ValueError
        ):
            return "the connection broke"
    return None


def remedy(error: BaseException | None) -> str:
    """The remedy of an outage, if there is one alone; otherwise empty."""
    return next((found for it in _causes(error) if (found := _REMEDIES.get(sqlstate(it)))), "")


def describe(error: BaseException | None) -> str:
    """The outage, the server's own words, and the remedy; empty for other errors."""
    # Its text has the remedy, and its cause is a connection that broke.
    if untrusted := next((it for it in _causes(error) if isinstance(it, UntrustedDatabaseError)), None):
        return str(untrusted)
    # Without DETAIL and HINT.
    own = (refusal(error) or "").partition("\n")[0]
    words = dict.fromkeys(filter(None, (why_away(error), own)))
    ending = f". Remedy: {found}" if (found := remedy(error)) else ""
    return ": ".join(words) + ending
